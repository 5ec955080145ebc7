//! Runner as old clients read it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::v1beta1::RunnerStatus;

/// Empty: a runner is described by its Pool.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1alpha1",
    kind = "Runner",
    plural = "runners",
    namespaced,
    status = "RunnerStatus",
    deprecated = "This version is deprecated. Use v1beta1 instead.",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))"
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RunnerSpec {}
