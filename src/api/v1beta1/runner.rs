//! Runner: what GARM says about one instance.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// Empty: a runner is described by its Pool.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "Runner",
    plural = "runners",
    shortname = "run",
    category = "garm",
    doc = "A runner as GARM sees it; made and removed by the operator. Deleting the object deletes the runner, unless it works on a job.",
    namespaced,
    status = "RunnerStatus",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    selectable = ".status.poolId",
    selectable = ".status.status",
    selectable = ".status.instanceStatus",
    printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),
    printcolumn(name = "Pool", type_ = "string", json_path = ".status.poolId"),
    printcolumn(
        name = "Garm Runner Status",
        type_ = "string",
        json_path = ".status.status"
    ),
    printcolumn(
        name = "Provider Runner Status",
        type_ = "string",
        json_path = ".status.instanceStatus"
    ),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".status.providerId",
        priority = 1
    ),
    printcolumn(
        name = "Agent ID",
        type_ = "string",
        json_path = ".status.agentId",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RunnerSpec {}

/// What GARM says about the runner.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RunnerStatus {
    /// Id in GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id of the machine at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Id of the runner on GitHub; 0 until it registered.
    pub agent_id: i64,
    /// Name in GARM and on GitHub, in its own spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_type: Option<String>,
    /// Name of the distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_name: Option<String>,
    /// Version of the distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_arch: Option<String>,
    /// Addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// State of the runner on GitHub, e.g. `idle` or `active`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// State of the machine at the provider, e.g. `running` or `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_status: Option<String>,
    /// Name of the Pool object, or the id of the pool in GARM when no object has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_id: Option<String>,
    /// What the provider said when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_fault: Option<String>,
    /// Runner group on GitHub.
    pub github_runner_group: String,
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// One address of a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Address {
    /// The address itself.
    pub address: String,
    /// Which side it is reached from, e.g. `public` or `private`.
    #[serde(rename = "type")]
    pub type_: String,
}
