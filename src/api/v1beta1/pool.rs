//! Pool: a number of equal runners for one scope.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{refs::TypedRef, schema};

/// What is wanted of the pool.
#[derive(Clone, CustomResource, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "Pool",
    plural = "pools",
    category = "garm",
    doc = "A number of equal runners for one Repository, Organization or Enterprise.",
    namespaced,
    status = "PoolStatus",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    scale(
        spec_replicas_path = ".spec.minIdleRunners",
        status_replicas_path = ".status.longRunningIdleRunners",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),
    printcolumn(
        name = "MinIdleRunners",
        type_ = "string",
        json_path = ".spec.minIdleRunners"
    ),
    printcolumn(name = "MaxRunners", type_ = "string", json_path = ".spec.maxRunners"),
    printcolumn(name = "ImageName", type_ = "string", json_path = ".spec.imageName"),
    printcolumn(
        name = "Flavor",
        type_ = "string",
        json_path = ".spec.flavor",
        priority = 1
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerName",
        priority = 1
    ),
    printcolumn(
        name = "ScopeType",
        type_ = "string",
        json_path = ".spec.githubScopeRef.kind",
        priority = 1
    ),
    printcolumn(
        name = "ScopeName",
        type_ = "string",
        json_path = ".spec.githubScopeRef.name"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Idle", type_ = "integer", json_path = ".status.runners.idle"),
    printcolumn(name = "Busy", type_ = "integer", json_path = ".status.runners.active"),
    printcolumn(
        name = "Error",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Enabled",
        type_ = "boolean",
        json_path = ".spec.enabled",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = schema::pool_rules()))]
pub struct PoolSpec {
    /// The Repository, Organization or Enterprise the runners are for. Cannot be changed.
    pub github_scope_ref: TypedRef,
    /// Provider of GARM that makes the runners. Cannot be changed.
    pub provider_name: String,
    /// Name of the Image runners boot from.
    pub image_name: String,
    /// Size of a runner, as the provider names it.
    pub flavor: String,
    /// Operating system of the runners: `linux` or `windows`.
    pub os_type: String,
    /// Architecture of the runners, e.g. `amd64` or `arm64`.
    pub os_arch: String,
    /// Labels of the runners; a job runs where all its labels are.
    pub tags: Vec<String>,
    /// Whether GARM starts new runners.
    pub enabled: bool,
    /// Upper bound for the number of runners.
    #[schemars(transform = schema::drop_format)]
    pub max_runners: i64,
    /// Number of idle runners kept ready.
    #[schemars(transform = schema::drop_format, extend("default" = 0))]
    pub min_idle_runners: i64,
    /// Minutes a runner may take from its creation to its first sign of life; after that GARM replaces it.
    #[schemars(transform = schema::drop_format)]
    pub runner_bootstrap_timeout: i64,
    /// Settings for the provider, a JSON object as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_specs: Option<String>,
    /// Runner group on GitHub the runners join. Not for repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_runner_group: Option<String>,
    /// First part of the runners' names; `garm` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_prefix: Option<String>,
    /// Order in which GARM fills the pools that fit a job, higher first. Left out, it stays as GARM has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
}

/// What the operator knows about the pool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PoolStatus {
    /// Id in GARM; empty until GARM has the pool.
    pub id: String,
    /// Number of runners that are idle for longer than the operator's minimum age.
    #[schemars(transform = schema::drop_format)]
    pub long_running_idle_runners: i64,
    /// Label selector of this pool's Runners.
    pub selector: String,
    /// Labels of the runners as GARM has them, its own included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Runners by what they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runners: Option<RunnerCounts>,
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Number of a pool's runners by what they do. Each runner counts once: `total` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RunnerCounts {
    /// All runners GARM knows of.
    pub total: i64,
    /// Runners on their way to their first job: requested, booting, installing.
    pub pending: i64,
    /// Runners that wait for a job.
    pub idle: i64,
    /// Runners that work on a job.
    pub active: i64,
    /// Runners that the provider or the installation failed.
    pub failed: i64,
    /// Runners on their way out.
    pub deleting: i64,
    /// Runners in another state, e.g. stopped.
    pub other: i64,
}

/// Shows no extraSpecs: people keep secrets there.
impl fmt::Debug for PoolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSpec")
            .field("github_scope_ref", &self.github_scope_ref)
            .field("provider_name", &self.provider_name)
            .field("image_name", &self.image_name)
            .field("flavor", &self.flavor)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}
