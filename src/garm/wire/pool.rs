//! Pools of runners.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entity::EntityKind;
use super::lenient::{name_of, names_of, or_default, present, time};
use super::sends_nothing;

/// Minutes that GARM gives a runner to come up when nothing is set; answers show that as 0, as 20 or not at all.
pub const DEFAULT_BOOTSTRAP_TIMEOUT: i64 = 20;

/// A pool of runners. Its instances are a list of their own.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Decoded")]
pub struct Pool {
    /// UUID.
    pub id: String,
    /// Provider that makes the runners; cannot change.
    pub provider_name: String,
    /// Most runners at once.
    pub max_runners: i64,
    /// Idle runners to keep.
    pub min_idle_runners: i64,
    /// Image of a runner, in the provider's words.
    pub image: String,
    /// Size of a runner, in the provider's words.
    pub flavor: String,
    /// `linux` or `windows`.
    pub os_type: String,
    /// `amd64`, `arm64` or `arm`.
    pub os_arch: String,
    /// Names of its tags, sorted. GARM keeps the first spelling ever used, so compare without regard to case.
    pub tags: Vec<String>,
    /// Whether it makes runners.
    pub enabled: bool,
    /// What runner names begin with.
    pub runner_prefix: String,
    /// Minutes a runner has to come up.
    pub runner_bootstrap_timeout: i64,
    /// What the provider gets besides; `Null` when nothing is set, `None` when it is not known. Lists do not carry it.
    pub extra_specs: Option<Value>,
    /// Runner group on GitHub; empty means the default one.
    pub github_runner_group: String,
    /// Pools with a higher one get jobs first.
    pub priority: i64,
    /// Moves when something changes that makes runners outdated, `extra_specs` included; unknown before v0.2.0.
    pub generation: Option<u64>,
    /// Name of the endpoint; empty before v0.2.0.
    pub endpoint: String,
    /// Id of its repository, or empty.
    pub repo_id: String,
    /// Id of its organization, or empty.
    pub org_id: String,
    /// Id of its enterprise, or empty.
    pub enterprise_id: String,
    /// When it was made; unknown to v0.1.5.
    pub created_at: Option<Timestamp>,
    /// When it last changed; unknown to v0.1.5.
    pub updated_at: Option<Timestamp>,
}

impl Pool {
    /// Names the entity it belongs to.
    pub fn scope(&self) -> Option<(EntityKind, &str)> {
        [
            (EntityKind::Repository, &self.repo_id),
            (EntityKind::Organization, &self.org_id),
            (EntityKind::Enterprise, &self.enterprise_id),
        ]
        .into_iter()
        .find(|(_, id)| !id.is_empty())
        .map(|(kind, id)| (kind, id.as_str()))
    }

    /// Reads a missing `extra_specs` as "nothing is set", which is right for every answer but a list.
    pub(crate) fn with_specs(mut self) -> Self {
        self.extra_specs.get_or_insert(Value::Null);
        self
    }
}

/// Shows no `extra_specs`: people put secrets there.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("id", &self.id)
            .field("scope", &self.scope())
            .field("runner_prefix", &self.runner_prefix)
            .field("enabled", &self.enabled)
            .field("min_idle_runners", &self.min_idle_runners)
            .field("max_runners", &self.max_runners)
            .field("image", &self.image)
            .field("tags", &self.tags)
            .field("generation", &self.generation)
            .field("updated_at", &self.updated_at)
            .field("has_extra_specs", &self.extra_specs.is_some())
            .finish_non_exhaustive()
    }
}

/// A pool as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Decoded {
    #[serde(deserialize_with = "or_default")]
    id: String,
    #[serde(deserialize_with = "or_default")]
    provider_name: String,
    max_runners: i64,
    min_idle_runners: i64,
    #[serde(deserialize_with = "or_default")]
    image: String,
    #[serde(deserialize_with = "or_default")]
    flavor: String,
    #[serde(deserialize_with = "or_default")]
    os_type: String,
    #[serde(deserialize_with = "or_default")]
    os_arch: String,
    #[serde(deserialize_with = "names_of")]
    tags: Vec<String>,
    enabled: bool,
    #[serde(deserialize_with = "or_default")]
    runner_prefix: String,
    runner_bootstrap_timeout: i64,
    #[serde(deserialize_with = "present")]
    extra_specs: Option<Value>,
    #[serde(rename = "github-runner-group", deserialize_with = "or_default")]
    github_runner_group: String,
    priority: i64,
    generation: Option<u64>,
    #[serde(deserialize_with = "name_of")]
    endpoint: String,
    #[serde(deserialize_with = "or_default")]
    repo_id: String,
    #[serde(deserialize_with = "or_default")]
    org_id: String,
    #[serde(deserialize_with = "or_default")]
    enterprise_id: String,
    #[serde(deserialize_with = "time")]
    created_at: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    updated_at: Option<Timestamp>,
}

impl From<Decoded> for Pool {
    fn from(pool: Decoded) -> Self {
        Self {
            id: pool.id,
            provider_name: pool.provider_name,
            max_runners: pool.max_runners,
            min_idle_runners: pool.min_idle_runners,
            image: pool.image,
            flavor: pool.flavor,
            os_type: pool.os_type,
            os_arch: pool.os_arch,
            tags: pool.tags,
            enabled: pool.enabled,
            runner_prefix: pool.runner_prefix,
            runner_bootstrap_timeout: match pool.runner_bootstrap_timeout {
                0 => DEFAULT_BOOTSTRAP_TIMEOUT,
                minutes => minutes,
            },
            extra_specs: pool.extra_specs,
            github_runner_group: pool.github_runner_group,
            priority: pool.priority,
            generation: pool.generation,
            endpoint: pool.endpoint,
            repo_id: pool.repo_id,
            org_id: pool.org_id,
            enterprise_id: pool.enterprise_id,
            created_at: pool.created_at,
            updated_at: pool.updated_at,
        }
    }
}

/// A pool to make. GARM makes another one each time it is asked.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct CreatePool {
    /// Provider that makes the runners.
    pub provider_name: String,
    /// Most runners at once, at least 1.
    pub max_runners: i64,
    /// Idle runners to keep, at most `max_runners`.
    pub min_idle_runners: i64,
    /// Image of a runner.
    pub image: String,
    /// Size of a runner.
    pub flavor: String,
    /// `linux` or `windows`.
    pub os_type: String,
    /// `amd64`, `arm64` or `arm`.
    pub os_arch: String,
    /// Labels of its runners, at least one.
    pub tags: Vec<String>,
    /// Whether it makes runners.
    pub enabled: bool,
    /// Minutes a runner has to come up; always sent, because organizations and enterprises have no default.
    pub runner_bootstrap_timeout: i64,
    /// What the provider gets besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_specs: Option<Value>,
    /// Runner group on GitHub.
    #[serde(rename = "github-runner-group")]
    pub github_runner_group: String,
    /// Pools with a higher one get jobs first.
    pub priority: i64,
    /// What runner names begin with; GARM reads an empty one as `garm`.
    pub runner_prefix: String,
}

/// Shows no `extra_specs`: people put secrets there.
impl fmt::Debug for CreatePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatePool")
            .field("provider_name", &self.provider_name)
            .field("runner_prefix", &self.runner_prefix)
            .field("image", &self.image)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}

/// Changes of a pool; only what is `Some` is sent. An empty word or an empty list of tags changes nothing, except
/// `github_runner_group`, which it clears.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct UpdatePool {
    /// Most runners at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runners: Option<i64>,
    /// Idle runners to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle_runners: Option<i64>,
    /// Image of a runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Size of a runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// `linux` or `windows`; GARM does not check it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_type: Option<String>,
    /// `amd64`, `arm64` or `arm`; GARM does not check it here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_arch: Option<String>,
    /// All labels of its runners; from v0.2.0 on `updated_at` moves whenever they are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Whether it makes runners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Minutes a runner has to come up; 0 is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_bootstrap_timeout: Option<i64>,
    /// What the provider gets besides. GARM compares bytes, so other spacing is a change to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_specs: Option<Value>,
    /// Runner group on GitHub.
    #[serde(
        rename = "github-runner-group",
        skip_serializing_if = "Option::is_none"
    )]
    pub github_runner_group: Option<String>,
    /// Pools with a higher one get jobs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// What runner names begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_prefix: Option<String>,
}

impl UpdatePool {
    /// Spells out what a pool is: an update with this changes nothing.
    pub fn of(pool: &Pool) -> Self {
        let pool = pool.clone();
        Self {
            max_runners: Some(pool.max_runners),
            min_idle_runners: Some(pool.min_idle_runners),
            image: Some(pool.image),
            flavor: Some(pool.flavor),
            os_type: Some(pool.os_type),
            os_arch: Some(pool.os_arch),
            tags: Some(pool.tags),
            enabled: Some(pool.enabled),
            runner_bootstrap_timeout: Some(pool.runner_bootstrap_timeout),
            extra_specs: pool.extra_specs,
            github_runner_group: Some(pool.github_runner_group),
            priority: Some(pool.priority),
            runner_prefix: Some(pool.runner_prefix),
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        sends_nothing(self)
    }

    /// Names the fields that would be sent.
    pub fn fields(&self) -> Vec<String> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }
}

/// Shows field names only: people put secrets into `extra_specs`.
impl fmt::Debug for UpdatePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdatePool")
            .field("fields", &self.fields())
            .finish_non_exhaustive()
    }
}
