//! GarmServerConfig: the settings of GARM's controller.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// What is wanted of GARM's controller. What is left out stays as GARM has it.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "GarmServerConfig",
    plural = "garmserverconfigs",
    category = "garm",
    doc = "The settings of GARM's controller. One object counts; of several the oldest.",
    namespaced,
    status = "GarmServerConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "ID", type_ = "string", json_path = ".status.controllerId"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
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
    printcolumn(
        name = "MetadataURL",
        type_ = "string",
        json_path = ".status.metadataUrl",
        priority = 1
    ),
    printcolumn(
        name = "CallbackURL",
        type_ = "string",
        json_path = ".status.callbackUrl",
        priority = 1
    ),
    printcolumn(
        name = "WebhookURL",
        type_ = "string",
        json_path = ".status.webhookUrl",
        priority = 1
    ),
    printcolumn(
        name = "ControllerWebhookURL",
        type_ = "string",
        json_path = ".status.controllerWebhookUrl",
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
pub struct GarmServerConfigSpec {
    /// URL where runners fetch their metadata from GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_url: Option<String>,
    /// URL where runners report their state to GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// URL where GitHub sends webhooks to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Seconds a job has to be queued before GARM starts a runner for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_job_age_backoff: Option<i64>,
}

/// What GARM says about its controller.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GarmServerConfigStatus {
    /// Id of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<String>,
    /// Host GARM runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// URL where runners fetch their metadata from GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_url: Option<String>,
    /// URL where runners report their state to GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// URL where GitHub sends webhooks to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// URL for webhooks that belongs to this controller alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_webhook_url: Option<String>,
    /// Seconds a job has to be queued before GARM starts a runner for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::drop_format)]
    pub minimum_job_age_backoff: Option<i64>,
    /// Version of GARM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
