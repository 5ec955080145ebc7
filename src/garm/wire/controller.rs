//! The GARM server itself, its first admin and its login.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::lenient::or_default;
use super::secret::expose;
use super::sends_nothing;

/// What GARM says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// UUID of this GARM.
    pub controller_id: String,
    /// Host it runs on; answers to a PUT and events lack it.
    #[serde(deserialize_with = "or_default")]
    pub hostname: String,
    /// Where runners fetch their metadata.
    pub metadata_url: String,
    /// Where runners report their status.
    pub callback_url: String,
    /// Base of the URL that GitHub calls.
    pub webhook_url: String,
    /// The URL that GitHub calls; the bare controller id while `webhook_url` is unset.
    pub controller_webhook_url: String,
    /// Seconds a job waits before a runner is made for it.
    pub minimum_job_age_backoff: i64,
    /// Version stamp: `v0.2.1`, or git-describe style, or `v0.0.0-unknown`, or empty.
    pub version: String,
}

/// What makes the machines of runners. Providers are named in GARM's own configuration and change with a restart only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// Unique.
    pub name: String,
}

/// Changes of the GARM server; only what is `Some` is sent. URLs can be changed, never cleared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UpdateController {
    /// Where runners fetch their metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_url: Option<String>,
    /// Where runners report their status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// Base of the URL that GitHub calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Seconds a job waits before a runner is made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_job_age_backoff: Option<i64>,
}

impl UpdateController {
    /// Spells out what the settings are: an update with this changes nothing.
    pub fn of(controller: &Controller) -> Self {
        let controller = controller.clone();
        Self {
            metadata_url: Some(controller.metadata_url),
            callback_url: Some(controller.callback_url),
            webhook_url: Some(controller.webhook_url),
            minimum_job_age_backoff: Some(controller.minimum_job_age_backoff),
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        sends_nothing(self)
    }
}

/// Makes the first and only admin of a fresh GARM.
#[derive(Debug, Clone, Serialize)]
pub struct FirstRun {
    /// At most 64 alphanumeric characters.
    pub username: String,
    /// A valid address.
    pub email: String,
    /// Free text.
    pub full_name: String,
    /// Must reach 4 of 4 on the zxcvbn scale.
    #[serde(serialize_with = "expose")]
    pub password: SecretString,
}

/// Asks for a token.
#[derive(Debug, Clone, Serialize)]
pub struct Login {
    /// The admin's name.
    pub username: String,
    /// The admin's password.
    #[serde(serialize_with = "expose")]
    pub password: SecretString,
}

/// Carries a token.
#[derive(Debug, Clone, Deserialize)]
pub struct LoginAnswer {
    /// A JWT of at least 24 hours.
    pub token: SecretString,
}
