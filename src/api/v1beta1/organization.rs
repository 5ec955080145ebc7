//! Organization: a GitHub organization that GARM serves.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntityStatus;
use crate::api::refs::{SecretKeyRef, TypedRef};

/// What is wanted of the organization.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "Organization",
    plural = "organizations",
    shortname = "org",
    category = "garm",
    doc = "An organization on GitHub whose jobs GARM runs. The name of the object is the name of the organization.",
    namespaced,
    status = "EntityStatus",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "ID", type_ = "string", json_path = ".status.id"),
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
        name = "Error",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Pool_Manager_Failure",
        type_ = "string",
        json_path = ".status.conditions[?(@.reason=='PoolManagerFailure')].message",
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
pub struct OrganizationSpec {
    /// The GitHubCredential GARM uses for this organization.
    pub credentials_ref: TypedRef,
    /// Secret that signs the webhooks GitHub sends for this organization.
    pub webhook_secret_ref: SecretKeyRef,
    /// How GARM spreads jobs over the pools that fit: `roundrobin` or `pack`. Left out, GARM decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_balancer_type: Option<String>,
    /// Whether the operator installs a webhook on GitHub through GARM. It removes only one that it installed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_webhook: Option<bool>,
}
