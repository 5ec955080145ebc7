//! Certificates of servers on this machine.

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};

/// A private CA, which nobody trusts unasked; it lives as long as the value.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// What leads from a server's certificate to the root, this one first; empty for a root.
    chain: String,
}

/// A server's certificate and what belongs to it, all in PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The CA that signed it.
    pub ca_pem: String,
    /// The server's certificate, and those that lead to the CA.
    pub certificate_pem: String,
    /// The key of the server's certificate.
    pub key_pem: String,
}

impl Authority {
    /// Makes a CA.
    pub fn new() -> Result<Self> {
        let (ca, key) = Self::params(1)?;
        let pem = ca.self_signed(&key).context("make the CA")?.pem();
        Ok(Self {
            issuer: Issuer::new(ca, key),
            pem,
            chain: String::new(),
        })
    }

    /// Makes a CA that this one vouches for; who trusts this one trusts what it issues.
    pub fn intermediate(&self) -> Result<Self> {
        let (ca, key) = Self::params(0)?;
        let between = ca.signed_by(&key, &self.issuer).context("sign the CA")?;
        Ok(Self {
            issuer: Issuer::new(ca, key),
            pem: self.pem.clone(),
            chain: format!("{}{}", between.pem(), self.chain),
        })
    }

    fn params(below: u8) -> Result<(CertificateParams, KeyPair)> {
        let key = KeyPair::generate().context("make the CA's key")?;
        let mut ca = CertificateParams::new(Vec::new()).context("make the CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
        let name = format!("ground CA {}", crate::random_word());
        ca.distinguished_name.push(DnType::CommonName, name);
        Ok((ca, key))
    }

    /// The root's own certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a certificate for a server at `localhost` and 127.0.0.1.
    pub fn issue(&self) -> Result<Certificates> {
        let key = KeyPair::generate().context("make the server's key")?;
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned()])
            .context("make the server's certificate")?;
        leaf.subject_alt_names
            .push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let leaf = leaf
            .signed_by(&key, &self.issuer)
            .context("sign the server's certificate")?;
        Ok(Certificates {
            ca_pem: self.pem.clone(),
            certificate_pem: format!("{}{}", leaf.pem(), self.chain),
            key_pem: key.serialize_pem(),
        })
    }
}

impl Certificates {
    /// Makes a new CA and a certificate for `localhost` and 127.0.0.1.
    pub fn new() -> Result<Self> {
        Authority::new()?.issue()
    }
}
