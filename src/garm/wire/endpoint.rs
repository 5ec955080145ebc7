//! GitHub servers that GARM knows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::lenient::{bytes, or_default, time};
use super::secret::base64_some;
use super::sends_nothing;

/// A GitHub server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// Its name, unique without regard to case; it cannot change.
    pub name: String,
    /// Free text.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Base of API calls.
    pub api_base_url: String,
    /// Base of uploads.
    #[serde(deserialize_with = "or_default")]
    pub upload_base_url: String,
    /// What people open in a browser.
    pub base_url: String,
    /// PEM certificates to trust; empty when none are set.
    #[serde(deserialize_with = "bytes")]
    pub ca_cert_bundle: Vec<u8>,
    /// `github` or `gitea`; empty before v0.2.0.
    #[serde(deserialize_with = "or_default")]
    pub endpoint_type: String,
    /// When it was made; unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When it last changed; unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

/// A GitHub server to make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CreateEndpoint {
    /// Its name. GARM accepts an empty one and can never address it again.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Base of API calls.
    pub api_base_url: String,
    /// Base of uploads.
    pub upload_base_url: String,
    /// What people open in a browser.
    pub base_url: String,
    /// PEM certificates to trust.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "base64_some"
    )]
    pub ca_cert_bundle: Option<Vec<u8>>,
}

/// Changes of a GitHub server; only what is `Some` is sent. From v0.2.0 on URLs cannot change while credentials exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UpdateEndpoint {
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Base of API calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_base_url: Option<String>,
    /// Base of uploads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_base_url: Option<String>,
    /// What people open in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// PEM certificates to trust; they can be replaced, never cleared.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "base64_some"
    )]
    pub ca_cert_bundle: Option<Vec<u8>>,
}

impl UpdateEndpoint {
    /// Spells out what an endpoint is: an update with this changes nothing.
    pub fn of(endpoint: &Endpoint) -> Self {
        let endpoint = endpoint.clone();
        Self {
            description: Some(endpoint.description),
            api_base_url: Some(endpoint.api_base_url),
            upload_base_url: Some(endpoint.upload_base_url),
            base_url: Some(endpoint.base_url),
            ca_cert_bundle: Some(endpoint.ca_cert_bundle),
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        sends_nothing(self)
    }
}
