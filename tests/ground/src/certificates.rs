//! Certificates of servers on this machine.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

/// A server's certificate for loopback and the private CA that signed it.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The CA, which nobody trusts unasked.
    pub ca_pem: String,
    /// The server's certificate.
    pub certificate_pem: String,
    /// The key of the server's certificate.
    pub key_pem: String,
}

impl Certificates {
    /// Makes a new CA and a certificate for `localhost` and 127.0.0.1.
    pub fn new() -> Result<Self> {
        let ca_key = KeyPair::generate().context("make the CA's key")?;
        let mut ca = CertificateParams::new(Vec::new()).context("make the CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let ca_pem = ca.self_signed(&ca_key).context("make the CA")?.pem();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().context("make the server's key")?;
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned()])
            .context("make the server's certificate")?;
        leaf.subject_alt_names
            .push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let leaf = leaf
            .signed_by(&key, &issuer)
            .context("sign the server's certificate")?;
        Ok(Self {
            ca_pem,
            certificate_pem: leaf.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}
