//! What GARM logs in to GitHub with.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::lenient::{bytes, name_of, or_default, time};
use super::secret::AuthMaterial;
use super::sends_nothing;

/// GitHub credentials without their secret, which GARM never shows.
///
/// The rate limit that GARM adds is left out: it moves by itself every half minute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Credential {
    /// Number within this GARM; a fresh GARM gives it out again, so it counts only together with the name.
    pub id: i64,
    /// Unique without regard to case.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Free text.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Name of the endpoint.
    #[serde(deserialize_with = "name_of")]
    pub endpoint: String,
    /// `pat` or `app`. The answer's key has a hyphen, the request's an underscore.
    #[serde(rename = "auth-type", deserialize_with = "or_default")]
    pub auth_type: String,
    /// `github` or `gitea`; empty before v0.2.0.
    #[serde(deserialize_with = "or_default")]
    pub forge_type: String,
    /// The endpoint's API base.
    #[serde(deserialize_with = "or_default")]
    pub api_base_url: String,
    /// The endpoint's upload base.
    #[serde(deserialize_with = "or_default")]
    pub upload_base_url: String,
    /// The endpoint's base.
    #[serde(deserialize_with = "or_default")]
    pub base_url: String,
    /// The endpoint's PEM certificates.
    #[serde(deserialize_with = "bytes")]
    pub ca_bundle: Vec<u8>,
    /// When they were made; unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When they last changed; from v0.2.0 on each PUT with a secret moves it. Unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

/// Credentials to make.
#[derive(Debug, Clone, Serialize)]
pub struct CreateCredential {
    /// Unique without regard to case.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Name of the endpoint.
    pub endpoint: String,
    /// `pat` or `app`, as `secret` is: [`AuthMaterial::auth_type`].
    auth_type: &'static str,
    #[serde(flatten)]
    secret: AuthMaterial,
}

impl CreateCredential {
    /// Describes credentials of the kind that `secret` is.
    pub fn new(name: String, description: String, endpoint: String, secret: AuthMaterial) -> Self {
        Self {
            name,
            description,
            endpoint,
            auth_type: secret.auth_type(),
            secret,
        }
    }
}

/// Changes of credentials; only what is `Some` is sent. Endpoint and kind cannot change.
#[derive(Debug, Clone, Default, Serialize)]
pub struct UpdateCredential {
    /// A new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A new secret, whole.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub secret: Option<AuthMaterial>,
}

impl UpdateCredential {
    /// Spells out what credentials are, as far as GARM shows them: an update with this changes nothing.
    pub fn of(credential: &Credential) -> Self {
        Self {
            name: Some(credential.name.clone()),
            description: Some(credential.description.clone()),
            secret: None,
        }
    }

    /// The same without what GARM never shows.
    #[must_use]
    pub fn shown(self) -> Self {
        Self {
            secret: None,
            ..self
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        sends_nothing(self)
    }
}
