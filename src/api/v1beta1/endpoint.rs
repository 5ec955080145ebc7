//! GitHubEndpoint: a GitHub server that GARM talks to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{refs::SecretKeyRef, schema};

/// What is wanted of the endpoint.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "GitHubEndpoint",
    plural = "githubendpoints",
    category = "garm",
    doc = "A GitHub server that GARM talks to. The name of the object is the name of the endpoint in GARM.",
    namespaced,
    status = "GitHubEndpointStatus",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    printcolumn(name = "URL", type_ = "string", json_path = ".spec.apiBaseUrl"),
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
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GitHubEndpointSpec {
    /// What the endpoint is for, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// URL of the REST API, e.g. `https://api.github.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_base_url: Option<String>,
    /// URL for uploads, e.g. `https://uploads.github.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_base_url: Option<String>,
    /// URL that people open, e.g. `https://github.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Secret with the CA certificates (PEM) that sign the server's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_cert_bundle_secret_ref: Option<SecretKeyRef>,
}

/// What the operator knows about the endpoint.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GitHubEndpointStatus {
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
