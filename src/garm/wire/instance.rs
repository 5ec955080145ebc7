//! Instances: the machines that are runners.

use jiff::Timestamp;
use serde::Deserialize;

use super::lenient::{base64_text, is_there, or_default, time};

/// A runner and its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// UUID.
    pub id: String,
    /// Unique name; mixed case before v0.1.7.
    pub name: String,
    /// The provider's id, once it has one.
    #[serde(deserialize_with = "or_default")]
    pub provider_id: String,
    /// The provider's name; empty before v0.2.0.
    #[serde(deserialize_with = "or_default")]
    pub provider_name: String,
    /// GitHub's number of the runner; 0 while there is none.
    #[serde(deserialize_with = "or_default")]
    pub agent_id: i64,
    /// `linux` or `windows`.
    #[serde(deserialize_with = "or_default")]
    pub os_type: String,
    /// Architecture.
    #[serde(deserialize_with = "or_default")]
    pub os_arch: String,
    /// Name of its system.
    #[serde(deserialize_with = "or_default")]
    pub os_name: String,
    /// Version of its system.
    #[serde(deserialize_with = "or_default")]
    pub os_version: String,
    /// Its addresses; `None` when they are not known. Lists do not carry them.
    pub addresses: Option<Vec<Address>>,
    /// State of the machine: `pending_create`, `creating`, `running`, `error`, `pending_delete`, …
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// State of the runner: `pending`, `installing`, `idle`, `active`, …
    #[serde(deserialize_with = "or_default")]
    pub runner_status: String,
    /// Id of its pool; empty for a scale set's.
    #[serde(deserialize_with = "or_default")]
    pub pool_id: String,
    /// Number of its scale set; 0 for a pool's.
    #[serde(deserialize_with = "or_default")]
    pub scale_set_id: i64,
    /// What the provider said last when it failed. GARM forgets it with the next change.
    #[serde(deserialize_with = "base64_text")]
    pub provider_fault: String,
    /// Runner group on GitHub.
    #[serde(rename = "github-runner-group", deserialize_with = "or_default")]
    pub github_runner_group: String,
    /// Whether it has taken a job. Events of v0.1.x never say so: `runner_status` is `active` then.
    #[serde(rename = "job", deserialize_with = "is_there")]
    pub has_job: bool,
    /// The pool's generation when it was made; unknown before v0.2.0.
    pub generation: Option<u64>,
    /// When it was made; unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When it last changed or reported.
    #[serde(deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

impl Instance {
    /// Says whether a job runs on it.
    pub fn is_busy(&self) -> bool {
        self.has_job || self.runner_status == "active"
    }

    /// Says whether GARM accepts its deletion; it refuses all other states, also with force.
    pub fn is_deletable(&self) -> bool {
        matches!(
            self.status.as_str(),
            "running" | "error" | "pending_delete" | "pending_force_delete"
        )
    }

    /// Reads missing addresses as "there are none", which is right for every answer but a list.
    pub(crate) fn with_addresses(mut self) -> Self {
        self.addresses.get_or_insert_default();
        self
    }
}

/// An address of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Address {
    /// The address.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
    /// `public` or `private`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
}
