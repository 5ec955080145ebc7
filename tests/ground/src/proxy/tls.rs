//! How a proxy shows itself to clients that come by TLS.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use super::lock;
use crate::certificates::Certificates;

/// The certificate of the moment; without one the proxy is plain HTTP.
#[derive(Debug, Default)]
pub(super) struct Tls(Mutex<Option<Arc<ServerConfig>>>);

impl Tls {
    pub fn show(&self, certificates: &Certificates) -> Result<()> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificates.certificate_pem.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(certificates.key_pem.as_bytes());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("set TLS up")?
            .with_no_client_auth()
            .with_single_cert(
                chain.context("read the certificate")?,
                key.context("read the key")?,
            )
            .context("use the certificate")?;
        *lock(&self.0) = Some(Arc::new(config));
        Ok(())
    }

    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        lock(&self.0).clone().map(TlsAcceptor::from)
    }

    pub fn scheme(&self) -> &'static str {
        if lock(&self.0).is_some() {
            "https"
        } else {
            "http"
        }
    }
}
