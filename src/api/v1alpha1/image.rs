//! Image as old manifests spell it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the name stands for.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1alpha1",
    kind = "Image",
    plural = "images",
    namespaced,
    deprecated = "This version is deprecated. Use v1beta1 instead.",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageSpec {
    /// Image as the provider names it, e.g. an OCI reference or the id of a machine image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}
