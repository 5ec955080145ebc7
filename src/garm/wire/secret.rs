//! Secret material on its way to GARM. GARM never gives it back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};

/// Writes a secret into a request body, the one place where it may appear.
pub(super) fn expose<S: Serializer>(secret: &SecretString, output: S) -> Result<S::Ok, S::Error> {
    output.serialize_str(secret.expose_secret())
}

/// Writes an optional secret into a request body.
// Serde hands over a reference to the field.
#[allow(clippy::ref_option)]
pub(super) fn expose_some<S: Serializer>(
    secret: &Option<SecretString>,
    output: S,
) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => expose(secret, output),
        None => output.serialize_none(),
    }
}

/// Writes a secret as base64, as GARM wants bytes.
fn expose_base64<S: Serializer>(secret: &SecretString, output: S) -> Result<S::Ok, S::Error> {
    output.serialize_str(&STANDARD.encode(secret.expose_secret()))
}

/// Writes bytes as base64.
// Serde hands over a reference to the field.
#[allow(clippy::ref_option)]
pub(super) fn base64_some<S: Serializer>(
    bytes: &Option<Vec<u8>>,
    output: S,
) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => output.serialize_str(&STANDARD.encode(bytes)),
        None => output.serialize_none(),
    }
}

/// A personal access token.
#[derive(Debug, Clone, Serialize)]
pub struct Token {
    /// The token itself.
    #[serde(serialize_with = "expose")]
    pub oauth2_token: SecretString,
}

/// The identity of a GitHub App installation.
#[derive(Debug, Clone, Serialize)]
pub struct AppKey {
    /// The App's id.
    pub app_id: i64,
    /// The installation's id.
    pub installation_id: i64,
    /// A PEM key, which must be PKCS#1 (`RSA PRIVATE KEY`): GARM answers 500 to others.
    #[serde(rename = "private_key_bytes", serialize_with = "expose_base64")]
    pub private_key: SecretString,
}

/// How GARM logs in to GitHub. It is replaced as a whole, and its kind never changes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthMaterial {
    /// By personal access token.
    Pat(Token),
    /// By GitHub App.
    App(AppKey),
}

impl AuthMaterial {
    /// Names the kind as GARM does: `pat` or `app`.
    pub fn auth_type(&self) -> &'static str {
        match self {
            Self::Pat(_) => "pat",
            Self::App(_) => "app",
        }
    }
}
