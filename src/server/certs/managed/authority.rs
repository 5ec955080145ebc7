//! CAs of ours, and what they sign.

use std::{fmt, net::IpAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use secrecy::{ExposeSecret, SecretString};
use time::OffsetDateTime;
use x509_parser::parse_x509_certificate;

use crate::server::tls::{Pair, PairError, not_after};

/// How long before its making a certificate is valid: clocks of API servers may be behind ours.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Why something could not be signed, or is no CA.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The text holds no certificate, or a broken one.
    #[error("it holds no certificate")]
    NoCertificate,
    /// The certificate may not sign others.
    #[error("its certificate is not one of a CA")]
    NoCa,
    /// The key is missing, broken or of a sort that is not supported.
    #[error("it holds no usable key (PKCS#8)")]
    NoKey,
    /// The key is another's.
    #[error("its key does not belong to its certificate")]
    ForeignKey,
    /// A lifetime ends beyond all calendars.
    #[error("a lifetime is out of range")]
    Lifetime,
    /// Signing failed.
    #[error("signing failed: {0}")]
    Signing(#[from] rcgen::Error),
    /// What was signed cannot be served.
    #[error("a certificate of our own is not usable: {0}")]
    Pair(#[from] PairError),
}

/// The certificate of a CA, by which others know what it signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    der: CertificateDer<'static>,
    /// When it ends.
    pub not_after: Timestamp,
}

impl Anchor {
    /// Reads the first certificate of a PEM text, which must be a CA's.
    pub fn from_pem(pem: &[u8]) -> Result<Self, AuthorityError> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| AuthorityError::NoCertificate)?;
        Self::new(der)
    }

    fn new(der: CertificateDer<'static>) -> Result<Self, AuthorityError> {
        let (_, parsed) =
            parse_x509_certificate(&der).map_err(|_| AuthorityError::NoCertificate)?;
        if !parsed.is_ca() {
            return Err(AuthorityError::NoCa);
        }
        let not_after = not_after(&der).ok_or(AuthorityError::Lifetime)?;
        Ok(Self { der, not_after })
    }

    /// Tells whether nothing verifies against it any more.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.not_after <= now
    }

    /// Writes it as PEM, always in the same form.
    pub fn to_pem(&self) -> String {
        let text = BASE64.encode(&self.der);
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            // Base64 is ASCII.
            let (line, after) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

/// A CA: its certificate and the key that signs.
#[derive(Clone)]
pub struct Ca {
    /// Its certificate.
    pub anchor: Anchor,
    key_pem: SecretString,
}

impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.anchor.fmt(f)
    }
}

impl PartialEq for Ca {
    fn eq(&self, other: &Self) -> bool {
        self.anchor == other.anchor
    }
}

impl Ca {
    /// Makes a new CA that ends `lifetime` after `now`.
    pub fn new(name: &str, now: Timestamp, lifetime: Duration) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // Two of ours are in one bundle: each bears a name of its own.
        let name = format!("{name}@{}", now.as_millisecond());
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date(now.checked_sub(SKEW).ok())?;
        params.not_after = date(after(now, lifetime))?;
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            anchor: Anchor::new(certificate.der().clone())?,
            key_pem: key.serialize_pem().into(),
        })
    }

    /// Reads a CA; certificate and key must belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let anchor = Anchor::from_pem(certificate)?;
        let text = std::str::from_utf8(key).map_err(|_| AuthorityError::NoKey)?;
        let pair = KeyPair::from_pem(text).map_err(|_| AuthorityError::NoKey)?;
        let (_, parsed) =
            parse_x509_certificate(&anchor.der).map_err(|_| AuthorityError::NoCertificate)?;
        if *parsed.public_key().subject_public_key.data != *pair.der_bytes() {
            return Err(AuthorityError::ForeignKey);
        }
        // It must also be one that can be signed with again.
        Issuer::from_ca_cert_der(&anchor.der, &pair)?;
        Ok(Self {
            anchor,
            key_pem: pair.serialize_pem().into(),
        })
    }

    /// Gives the key as PEM, for the Secret alone.
    pub fn key_pem(&self) -> &str {
        self.key_pem.expose_secret()
    }

    /// Signs a server certificate with a new key. It ends `lifetime` after `now`, and never after the CA.
    pub fn sign(
        &self,
        names: &Names,
        now: Timestamp,
        lifetime: Duration,
    ) -> Result<Pair, AuthorityError> {
        let key = KeyPair::from_pem(self.key_pem()).map_err(|_| AuthorityError::NoKey)?;
        let issuer = Issuer::from_ca_cert_der(&self.anchor.der, key)?;
        let mut params = CertificateParams::new(names.dns.clone())?;
        let addresses = names.addresses.iter().copied().map(SanType::IpAddress);
        params.subject_alt_names.extend(addresses);
        if let Some(name) = names.dns.first() {
            params
                .distinguished_name
                .push(DnType::CommonName, name.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        params.not_before = date(now.checked_sub(SKEW).ok())?;
        let end = after(now, lifetime).map(|end| end.min(self.anchor.not_after));
        params.not_after = date(end)?;
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Pair::new(vec![leaf.der().clone()], key)?)
    }
}

/// Whom a server certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
}

/// Adds a lifetime; `None` beyond all calendars.
fn after(now: Timestamp, lifetime: Duration) -> Option<Timestamp> {
    now.checked_add(SignedDuration::try_from(lifetime).ok()?)
        .ok()
}

fn date(time: Option<Timestamp>) -> Result<OffsetDateTime, AuthorityError> {
    let seconds = time.ok_or(AuthorityError::Lifetime)?.as_second();
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| AuthorityError::Lifetime)
}
