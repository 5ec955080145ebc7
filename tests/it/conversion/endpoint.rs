//! A control plane whose kinds are converted by our webhook.

use anyhow::{Context as _, Result};
use garm_operator::generate::crds;
use garm_operator_ground::proxy::Proxy;
use garm_operator_ground::{
    Certificates, ControlPlane, ConversionEndpoint, Ground, Operator, OperatorCommand, Service,
};
use tokio::sync::OnceCell;

use crate::hooks;
use crate::world::SOON;

/// The Service in front of the operator's webhooks, and the certificates that the operator shows.
pub struct Front {
    service: Service,
    certificates: Certificates,
}

impl Front {
    /// Opens the Service; there are no replicas yet.
    pub async fn open() -> Result<Self> {
        Ok(Self {
            service: Service::start().await?,
            certificates: Certificates::new()?,
        })
    }

    /// What CRDs are to name.
    pub fn conversion(&self) -> ConversionEndpoint {
        ConversionEndpoint {
            url: self.service.url("/convert"),
            ca_pem: self.certificates.ca_pem.clone(),
        }
    }

    /// Starts a replica behind the Service; does not wait until it is ready.
    pub fn start(&self, ground: &Ground, command: &OperatorCommand) -> Result<Operator> {
        let port = hooks::free_port()?;
        let command = hooks::serving(ground, command, port, &self.certificates)?;
        let operator = command.start()?;
        self.service.add(operator.health_url("/readyz"), port);
        Ok(operator)
    }
}

/// A control plane with our CRDs, and two replicas that convert their objects and do nothing else: GARM is not there, and the Lease
/// is another's.
pub struct Converting {
    /// The servers.
    pub plane: ControlPlane,
    /// The webhook.
    pub endpoint: ConversionEndpoint,
    /// What holds it up.
    _behind: (Front, Vec<(Operator, Proxy)>),
}

/// The one that tests share which do nothing to the CRDs.
pub async fn converting(ground: &Ground) -> Result<&'static Converting> {
    static SHARED: OnceCell<Converting> = OnceCell::const_new();
    SHARED.get_or_try_init(async || start(ground).await).await
}

async fn start(ground: &Ground) -> Result<Converting> {
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let front = Front::open().await?;
    let endpoint = front.conversion();
    plane
        .install_crds(crds::definitions(), Some(&endpoint))
        .await?;
    let home = plane.create_namespace("operator").await?;
    plane.hold_lease(&home).await?;
    let mut operators = Vec::new();
    for _ in 0..2 {
        let proxy = plane.proxy().await?;
        let command = ground
            .operator(env!("CARGO_BIN_EXE_garm-operator"))
            .kubernetes(&proxy)
            .own_namespace(&home)
            .argument("--operator-leader-election=true")
            .argument("--garm-server=http://127.0.0.1:9")
            .argument("--garm-username=admin")
            .variable("GARM_PASSWORD", "planted-password");
        let mut operator = front.start(ground, &command)?;
        operator.wait_ready(SOON).await?;
        operators.push((operator, proxy));
    }
    Ok(Converting {
        plane,
        endpoint,
        _behind: (front, operators),
    })
}

/// A client that trusts the webhook.
pub fn client(endpoint: &ConversionEndpoint) -> Result<reqwest::Client> {
    let ca = reqwest::Certificate::from_pem(endpoint.ca_pem.as_bytes())?;
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([ca])
        .build()
        .context("make a client")
}
