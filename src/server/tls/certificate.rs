//! The certificate that the webhook listener shows.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use rustls::{
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};
use tokio::sync::watch;
use x509_parser::parse_x509_certificate;

/// Why a chain and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The text of a certificate is broken.
    #[error("the certificate is not readable: {0}")]
    Certificate(#[source] pem::Error),
    /// There is no certificate.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// What a certificate holds is broken.
    #[error("the certificate is not readable: it is no X.509 certificate")]
    NoX509,
    /// There is no key, or its text is broken.
    #[error("the key is not readable: {0}")]
    Key(#[source] pem::Error),
    /// The key belongs to another certificate, or is of a sort that is not supported.
    #[error("certificate and key do not work together: {0}")]
    Mismatch(#[source] rustls::Error),
}

/// A certificate with its chain and its key, which match.
#[derive(Clone, Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    /// When the certificate itself ends.
    pub not_after: Timestamp,
}

impl Pair {
    /// Reads PEM texts: the certificate, followed by those that lead to its CA, and the key as PKCS#8, PKCS#1 or SEC1.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(PairError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(PairError::Key)?;
        Self::new(chain, key)
    }

    /// Joins a chain, the certificate itself first, and its key.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, PairError> {
        for certificate in &chain {
            parse_x509_certificate(certificate).map_err(|_| PairError::NoX509)?;
        }
        let leaf = chain.first().ok_or(PairError::NoCertificate)?;
        let not_after = not_after(leaf).ok_or(PairError::NoX509)?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(PairError::Mismatch)?;
        Ok(Self {
            key: Arc::new(key),
            not_after,
        })
    }

    /// Returns the chain, the certificate itself first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }
}

/// Reads the end of a certificate; `None` when it is none, or ends beyond all calendars.
pub fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// The certificate of the moment; none until its source has one.
///
/// New connections get it, and those opened with an earlier one are told.
#[derive(Debug)]
pub struct ServerCertificate {
    current: watch::Sender<Option<Pair>>,
    missing: Mutex<String>,
}

impl Default for ServerCertificate {
    fn default() -> Self {
        Self {
            current: watch::Sender::new(None),
            missing: Mutex::new("there is no certificate yet".to_owned()),
        }
    }
}

impl ServerCertificate {
    /// Shows this certificate from now on.
    pub fn install(&self, pair: Pair) {
        self.current.send_replace(Some(pair));
    }

    /// Remembers why there is no certificate yet, for whoever asks for readiness.
    pub fn explain(&self, reason: impl Into<String>) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = reason.into();
    }

    /// Tells whether there is a certificate to show, or why not.
    pub fn check(&self) -> Result<(), String> {
        if self.current.borrow().is_some() {
            return Ok(());
        }
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        Err(missing.clone())
    }

    /// Gives a receiver that learns of later certificates.
    pub(in crate::server) fn changes(&self) -> watch::Receiver<Option<Pair>> {
        self.current.subscribe()
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.borrow();
        current.as_ref().map(|pair| Arc::clone(&pair.key))
    }
}
