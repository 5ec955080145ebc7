//! References from one object to another in the same namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Reference to one key of a Secret in the namespace of the object.
#[derive(
    Clone, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SecretKeyRef {
    /// Name of the Secret.
    pub name: String,
    /// Key in the data of the Secret.
    pub key: String,
}

/// Reference to an object by kind and name, in the namespace of the object.
#[derive(
    Clone, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-map-type" = "atomic"))]
pub struct TypedRef {
    /// API group of the object referred to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the object referred to.
    pub kind: String,
    /// Name of the object referred to.
    pub name: String,
}

impl TypedRef {
    /// Refers to an object of a kind of ours, without naming the API group, as most manifests do.
    pub fn new(kind: &str, name: &str) -> Self {
        Self {
            api_group: None,
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }
}
