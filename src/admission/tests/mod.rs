mod http;
mod refusals;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request as HttpRequest;
use serde_json::{Value, json};
use tower::Service as _;

use super::*;
use crate::controllers::testing::{context, object};
use crate::telemetry::metrics::Metrics;

/// The settings of most tests: everything is watched, nothing waits for long.
fn settings() -> Settings {
    Settings {
        namespaces: Vec::new(),
        duplicate_pools: DuplicatePools::Deny,
        pool_defaults: PoolDefaults::default(),
        wait: Duration::from_millis(50),
        answer: Duration::from_secs(4),
        conversion: Duration::from_secs(4),
        concurrency: 100,
    }
}

/// The webhooks, with these objects in the stores.
async fn router(objects: Vec<Value>) -> Router {
    let hubs = context(objects).await.hubs.clone();
    router_of(hubs, settings())
}

fn router_of(hubs: Hubs, settings: Settings) -> Router {
    Arc::new(Admission::new(hubs, settings)).router(&Metrics::new())
}

/// Sends a request; answers status and body.
async fn send(router: &Router, request: HttpRequest<Body>) -> (u16, Vec<u8>) {
    let response = router.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, body.to_vec())
}

async fn post(router: &Router, path: &str, body: impl Into<Body>) -> (u16, Vec<u8>) {
    let request = HttpRequest::post(path).header("content-type", "application/json");
    send(router, request.body(body.into()).unwrap()).await
}

/// A review of a write to an object of this kind, called `one`, in namespace `ns`.
fn review(kind: &str, old: Option<Value>, new: Option<Value>) -> Value {
    let operation = match (&old, &new) {
        (None, _) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (Some(_), None) => "DELETE",
    };
    let object = |spec: Value| object(kind, "one", 0, spec, json!({}));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-uid",
            "kind": {"group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "kind": kind},
            "resource": {"group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "resource": "any"},
            "name": "one",
            "namespace": "ns",
            "operation": operation,
            "userInfo": {"username": "admin"},
            "object": new.map(object),
            "oldObject": old.map(object),
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// The path that judges a kind.
fn path(kind: &str) -> &'static str {
    hooks::HOOKS
        .iter()
        .find(|hook| hook.kind == kind && hook.phase == Phase::Validating)
        .unwrap()
        .path
}

/// Sends a review to the webhook of its kind; answers what the response says.
async fn ask(router: &Router, review: &Value) -> Value {
    let kind = review["request"]["kind"]["kind"].as_str().unwrap();
    let (status, body) = post(router, path(kind), review.to_string()).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], "review-uid");
    answer["response"].clone()
}

/// Whether the answer allows, else its code and message.
fn verdict(response: &Value) -> Result<Vec<String>, (u64, String)> {
    if response["allowed"] == true {
        let warnings = response["warnings"].as_array();
        let text = |warning: &Value| warning.as_str().unwrap().to_owned();
        return Ok(warnings.into_iter().flatten().map(text).collect());
    }
    let status = &response["status"];
    let message = status["message"].as_str().unwrap().to_owned();
    Err((status["code"].as_u64().unwrap(), message))
}

fn pool() -> Value {
    json!({
        "githubScopeRef": {"kind": "Organization", "name": "acme"},
        "providerName": "fake", "imageName": "image", "flavor": "small", "osType": "linux", "osArch": "amd64",
        "tags": ["linux"], "enabled": true, "maxRunners": 4, "minIdleRunners": 1, "runnerBootstrapTimeout": 20,
    })
}

fn repository() -> Value {
    json!({
        "owner": "acme",
        "credentialsRef": {"kind": "GitHubCredential", "name": "pat"},
        "webhookSecretRef": {"name": "hook", "key": "secret"},
    })
}

fn credential(endpoint: &str) -> Value {
    json!({
        "description": "", "authType": "pat", "endpointRef": {"kind": "GitHubEndpoint", "name": endpoint},
        "secretRef": {"name": "pat", "key": "token"},
    })
}

/// A spec with fields of another one in it; `null` removes a field.
fn with(mut spec: Value, change: Value) -> Value {
    let Value::Object(change) = change else {
        panic!("{change} is no object")
    };
    for (field, value) in change {
        if value.is_null() {
            spec.as_object_mut().unwrap().remove(&field);
        } else {
            spec[field] = value;
        }
    }
    spec
}

/// What the objects of most tests refer to.
fn references() -> Vec<Value> {
    vec![
        object("Organization", "acme", 1, json!({}), json!({})),
        object(
            "Image",
            "image",
            1,
            json!({"tag": "ubuntu:24.04"}),
            json!({}),
        ),
        object("GitHubCredential", "pat", 1, credential("ghes"), json!({})),
        object("GitHubCredential", "twin", 1, credential("ghes"), json!({})),
        object(
            "GitHubCredential",
            "other",
            1,
            credential("github.com"),
            json!({}),
        ),
        object("GitHubEndpoint", "ghes", 1, json!({}), json!({})),
    ]
}
