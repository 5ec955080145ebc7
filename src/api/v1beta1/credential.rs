//! GitHubCredential: how GARM proves itself to a GitHub server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{
    refs::{SecretKeyRef, TypedRef},
    schema,
};

/// What is wanted of the credential.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "garm-operator.mercedes-benz.com",
    version = "v1beta1",
    kind = "GitHubCredential",
    plural = "githubcredentials",
    category = "garm",
    doc = "How GARM proves itself to a GitHub server. The name of the object is the name of the credential in GARM.",
    namespaced,
    status = "GitHubCredentialStatus",
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
    printcolumn(name = "AuthType", type_ = "string", json_path = ".spec.authType"),
    printcolumn(
        name = "GitHubEndpoint",
        type_ = "string",
        json_path = ".spec.endpointRef.name"
    ),
    printcolumn(
        name = "Repositories",
        type_ = "string",
        json_path = ".status.repositories",
        priority = 1
    ),
    printcolumn(
        name = "Organizations",
        type_ = "string",
        json_path = ".status.organizations",
        priority = 1
    ),
    printcolumn(
        name = "Enterprises",
        type_ = "string",
        json_path = ".status.enterprises",
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
pub struct GitHubCredentialSpec {
    /// What the credential is for, in words.
    pub description: String,
    /// The GitHubEndpoint this credential is for.
    pub endpoint_ref: TypedRef,
    /// Kind of the secret: `pat` (a token) or `app` (the private key of a GitHub App).
    pub auth_type: String,
    /// Id of the GitHub App; for `app` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<i64>,
    /// Id of the installation of the GitHub App; for `app` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installation_id: Option<i64>,
    /// Secret with the token (`pat`) or the private key in PEM (`app`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

/// What the operator knows about the credential.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GitHubCredentialStatus {
    /// Id in GARM; 0 until GARM has it. GARM gives ids out again: it counts only together with the name.
    pub id: i64,
    /// URL of the REST API, from the endpoint.
    pub api_base_url: String,
    /// URL for uploads, from the endpoint.
    pub upload_base_url: String,
    /// URL that people open, from the endpoint.
    pub base_url: String,
    /// Repositories in GARM that use this credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<String>,
    /// Organizations in GARM that use this credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organizations: Vec<String>,
    /// Enterprises in GARM that use this credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enterprises: Vec<String>,
    /// What is known about the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
