//! Pool as old manifests spell it.

use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::v1beta1::PoolStatus;
use crate::api::{refs::TypedRef, schema};

/// What is wanted of the pool.
#[derive(Clone, CustomResource, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1alpha1",
    kind = "Pool",
    plural = "pools",
    namespaced,
    status = "PoolStatus",
    deprecated = "This version is deprecated. Use v1beta1 instead.",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))"
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
