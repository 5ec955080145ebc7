//! An operator that answers webhooks and does nothing else: it is not the leader.

use anyhow::Result;
use garm_operator_ground::{Certificates, Ground, Operator, OperatorCommand};

use crate::stage::Stage;

/// A replica without the lease, and what its clients have to trust.
pub struct Serving {
    /// The process.
    pub operator: Operator,
    /// Its certificate.
    pub certificates: Certificates,
}

impl Serving {
    /// Starts it; objects may be there already.
    pub async fn start(stage: &Stage<'_>) -> Result<Self> {
        stage.plane.hold_lease(&stage.namespace).await?;
        let (command, certificates) = with_webhooks(stage.ground, stage.command()?)?;
        let command = command
            .own_namespace(&stage.namespace)
            .argument("--operator-leader-election=true");
        Ok(Self {
            operator: stage.start(&command).await?,
            certificates,
        })
    }
}

/// The command with webhooks, and the certificate that it shows.
pub fn with_webhooks(
    ground: &Ground,
    command: OperatorCommand,
) -> Result<(OperatorCommand, Certificates)> {
    let certificates = Certificates::new()?;
    let folder = tempfile::tempdir_in(ground.directory())?.keep();
    std::fs::write(folder.join("tls.crt"), &certificates.certificate_pem)?;
    std::fs::write(folder.join("tls.key"), &certificates.key_pem)?;
    let command = command
        .webhooks()
        .argument("--operator-webhook-cert-dir")
        .argument(folder);
    Ok((command, certificates))
}
