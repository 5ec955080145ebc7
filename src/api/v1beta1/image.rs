//! Image: a name for what a provider boots runners from.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the name stands for.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "Image",
    plural = "images",
    category = "garm",
    doc = "A name for what runners boot from. Pools of the namespace refer to it; a changed tag rolls to all of them.",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "Tag", type_ = "string", json_path = ".spec.tag"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageSpec {
    /// Image as the provider names it, e.g. an OCI reference or the id of a machine image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}
