//! Certificates for unit tests.

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
};

use super::tls::Pair;

/// A CA, or an intermediate below one.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    /// What stands between a leaf and the root.
    between: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let (params, key) = Self::params(1);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
            between: String::new(),
        }
    }

    /// Makes a CA that this one vouches for.
    pub(crate) fn intermediate(&self) -> Self {
        let (params, key) = Self::params(0);
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            between: format!("{pem}{}", self.between),
            pem,
        }
    }

    /// Signs a certificate for `localhost`; answers its chain and its key.
    pub(crate) fn leaf(&self, key: &KeyPair) -> String {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(key, &self.issuer).unwrap().pem();
        format!("{leaf}{}", self.between)
    }

    /// Signs a certificate with a new key.
    pub(crate) fn pair(&self) -> Pair {
        let (chain, key) = self.pems();
        Pair::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    /// Signs a certificate with a new key; answers both as PEM.
    pub(crate) fn pems(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        (self.leaf(&key), key.serialize_pem())
    }

    fn params(below: u8) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
        let name = format!("test {below} {}", rand::random::<u64>());
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        (params, KeyPair::generate().unwrap())
    }
}

/// Keys of every sort that rcgen makes with ring.
pub(crate) fn keys() -> Vec<KeyPair> {
    [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ED25519,
    ]
    .map(|algorithm| KeyPair::generate_for(algorithm).unwrap())
    .into()
}
