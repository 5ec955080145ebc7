//! Certificate files, as cert-manager's Secret mounts them.
//!
//! They are polled. A mounted Secret changes by a symbolic link above the files, which a watch on the files themselves sees once and then never
//! again.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    runtime::pulse::Pulse,
    server::tls::{Pair, ServerCertificate},
    telemetry::metrics::Metrics,
};

/// Names of the files, as in a Secret of type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Looks in a row for files that belong together; a swap takes a moment.
const LOOKS: usize = 3;

/// What both files hold.
type Texts = (Vec<u8>, Vec<u8>);

/// Shows the certificate in a folder, and each later one that is whole. Files that are missing or broken change nothing but the log and a metric.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    certificate: Arc<ServerCertificate>,
    metrics: Arc<Metrics>,
    /// The texts of the certificate that is shown.
    shown: Option<Texts>,
    /// What was wrong at the last look.
    trouble: Option<String>,
}

impl Files {
    /// Prepares to show what is in `folder`.
    pub fn new(folder: &Path, certificate: Arc<ServerCertificate>, metrics: Arc<Metrics>) -> Self {
        Self {
            folder: folder.to_owned(),
            certificate,
            metrics,
            shown: None,
            trouble: None,
        }
    }

    /// Looks at the files again and again.
    pub async fn run(mut self, poll: Duration, stop: CancellationToken, pulse: Pulse) {
        let looks = async {
            loop {
                pulse.turn();
                self.look().await;
                tokio::time::sleep(poll).await;
            }
        };
        stop.run_until_cancelled(looks).await;
    }

    /// Looks at the files once.
    async fn look(&mut self) {
        let found = match self.read().await {
            Ok(texts) if self.shown.as_ref() == Some(&texts) => Ok(None),
            Ok(texts) => Pair::from_pem(&texts.0, &texts.1)
                .map(|pair| Some((texts, pair)))
                .map_err(|error| format!("{}: {error}", self.folder.display())),
            Err(trouble) => Err(trouble),
        };
        self.metrics.certificate_read(found.is_ok());
        match found {
            Ok(found) => self.accept(found),
            Err(trouble) => self.refuse(trouble),
        }
    }

    /// Takes note of good files, which may be those that are shown already.
    fn accept(&mut self, found: Option<(Texts, Pair)>) {
        let recovered = self.trouble.take().is_some();
        if let Some((texts, pair)) = found {
            tracing::info!(not_after = %pair.not_after, "webhook certificate was read from files");
            self.metrics.certificate_expiry(pair.not_after.as_second());
            self.certificate.install(pair);
            self.shown = Some(texts);
        } else if recovered {
            tracing::info!("webhook certificate files are as before");
        }
    }

    /// Takes note of files that are missing or broken; says so once.
    fn refuse(&mut self, trouble: String) {
        if self.trouble.as_ref() == Some(&trouble) {
            return;
        }
        if self.shown.is_some() {
            tracing::warn!(
                error = trouble,
                "webhook certificate files are not usable; the last good certificate stays"
            );
        } else {
            tracing::warn!(
                error = trouble,
                "webhook certificate files are not usable; webhooks are served when they are"
            );
            self.certificate.explain(trouble.clone());
        }
        self.trouble = Some(trouble);
    }

    /// Reads both files such that they belong together: while a mounted Secret is swapped, one may be of the old and one of the new, or gone.
    async fn read(&self) -> Result<Texts, String> {
        let mut trouble = String::new();
        for _ in 0..LOOKS {
            match self.read_once().await {
                Ok(Some(texts)) => return Ok(texts),
                Ok(None) => {
                    let folder = self.folder.display();
                    trouble = format!("{folder}: the files change faster than they can be read");
                }
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    /// Reads both; `None` when the certificate was another one before the key was read.
    async fn read_once(&self) -> Result<Option<Texts>, String> {
        let certificate = self.text(CERTIFICATE).await?;
        let key = self.text(KEY).await?;
        let is_same = certificate == self.text(CERTIFICATE).await?;
        Ok(is_same.then_some((certificate, key)))
    }

    async fn text(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.folder.join(name);
        let named = |error: io::Error| format!("cannot read {}: {error}", path.display());
        tokio::fs::read(&path).await.map_err(named)
    }
}

#[cfg(test)]
mod tests;
