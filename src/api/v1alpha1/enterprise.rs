//! Enterprise as old manifests spell it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::refs::SecretKeyRef;
use crate::api::v1beta1::EntityStatus;

/// What is wanted of the enterprise.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1alpha1",
    kind = "Enterprise",
    plural = "enterprises",
    namespaced,
    status = "EntityStatus",
    deprecated = "This version is deprecated. Use v1beta1 instead.",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EnterpriseSpec {
    /// Name of the GitHubCredential GARM uses for this enterprise.
    pub credentials_name: String,
    /// Secret that signs the webhooks GitHub sends for this enterprise.
    pub webhook_secret_ref: SecretKeyRef,
}
