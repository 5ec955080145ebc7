//! Reviews of admission, as the API server could never send them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use futures::future::BoxFuture;
use garm_operator::admission::hooks::HOOKS;
use garm_operator::admission::{Admission, Settings};
use garm_operator::controllers::{Hubs, wiring};
use garm_operator::domain::defaults::PoolDefaults;
use garm_operator::domain::duplicate::DuplicatePools;
use garm_operator::runtime::hub::{Hub, Options};
use garm_operator::telemetry::metrics::Metrics;
use http::{Request, Response};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::mutate::{change_bytes, change_somewhere};

/// What reviews are made of.
const WORDS: [&str; 30] = [
    "CREATE",
    "UPDATE",
    "DELETE",
    "CONNECT",
    "Pool",
    "Image",
    "Repository",
    "Organization",
    "object",
    "oldObject",
    "request",
    "uid",
    "dryRun",
    "metadata",
    "name",
    "namespace",
    "deletionTimestamp",
    "2024-01-01T00:00:00Z",
    "spec",
    "extraSpecs",
    "{\"a\": [1, null]}",
    "{",
    "tags",
    "runnerPrefix",
    "new-01234567-89ab-cdef-0123-456789abcdef",
    "githubScopeRef",
    "kind",
    "apiGroup",
    "image",
    "https://ghes",
];

/// Objects in the stores: what Pools refer to, and a Pool.
fn stored() -> Vec<Value> {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": "ns", "uid": format!("{kind}-{name}"), "resourceVersion": "1"},
        })
    };
    vec![
        object("Image", "image", json!({"tag": "a"})),
        object("Organization", "acme", json!({})),
        object("GitHubCredential", "pat", credential()),
        object("Pool", "stored", pool()),
    ]
}

fn pool() -> Value {
    json!({
        "githubScopeRef": {"kind": "Organization", "name": "acme"},
        "providerName": "fake", "imageName": "image", "flavor": "small", "osType": "linux", "osArch": "amd64",
        "tags": ["linux"], "enabled": true, "maxRunners": 4, "minIdleRunners": 1, "runnerBootstrapTimeout": 20,
        "extraSpecs": "{\"a\": [1, null]}", "runnerPrefix": "team", "githubRunnerGroup": "", "priority": 3,
    })
}

fn credential() -> Value {
    json!({
        "description": "", "authType": "app", "appId": 1, "installationId": 2,
        "endpointRef": {"kind": "GitHubEndpoint", "name": "ghes"}, "secretRef": {"name": "pat", "key": "token"},
    })
}

/// Good specs by kind.
fn spec(kind: &str) -> Value {
    match kind {
        "Pool" => pool(),
        "Image" => json!({"tag": "a"}),
        "GitHubCredential" => credential(),
        "GitHubEndpoint" => {
            json!({"baseUrl": "https://ghes", "apiBaseUrl": "https://ghes/api", "uploadBaseUrl": "https://ghes/up"})
        }
        "GarmServerConfig" => {
            json!({"webhookUrl": "https://garm/webhook", "minimumJobAgeBackoff": 3})
        }
        _ => json!({
            "owner": "acme", "credentialsRef": {"kind": "GitHubCredential", "name": "pat"},
            "webhookSecretRef": {"name": "hook", "key": "secret"}, "poolBalancerType": "pack",
        }),
    }
}

/// A review of any write to an object of any kind, mostly spoilt.
fn review(rng: &mut StdRng) -> Vec<u8> {
    let kind = HOOKS.choose(rng).map_or("Pool", |hook| hook.kind);
    let object = |rng: &mut StdRng| {
        let mut spec = spec(kind);
        if rng.random_bool(0.5) {
            change_somewhere(rng, &mut spec, &WORDS);
        }
        json!({
            "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": kind, "spec": spec,
            "metadata": {"name": "one", "namespace": "ns", "uid": "uid", "generation": 1},
        })
    };
    let operation = *["CREATE", "UPDATE", "DELETE"]
        .choose(rng)
        .unwrap_or(&"CREATE");
    let (old, new) = (object(rng), object(rng));
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "review", "name": "one", "namespace": "ns", "operation": operation, "dryRun": rng.random::<bool>(),
            "kind": {"group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "kind": kind},
            "userInfo": {"username": "admin"}, "options": null,
            "object": if operation == "DELETE" { Value::Null } else { new },
            "oldObject": if operation == "CREATE" { Value::Null } else { old },
        },
    });
    if rng.random_bool(0.5) {
        change_somewhere(rng, &mut review, &WORDS);
    }
    let mut bytes = review.to_string().into_bytes();
    if rng.random_bool(0.2) {
        change_bytes(rng, &mut bytes);
    }
    bytes
}

/// A client of an API server that has these objects, in which nothing ever changes.
fn client(objects: Vec<Value>) -> kube::Client {
    let objects = Arc::new(objects);
    let answer = move |request: Request<kube::client::Body>| -> BoxFuture<'static, Result<_, std::convert::Infallible>> {
        let objects = Arc::clone(&objects);
        Box::pin(async move {
            if request.uri().query().unwrap_or_default().contains("watch=true") {
                let quiet = futures::stream::pending::<Result<String, std::io::Error>>();
                return Ok(Response::new(Body::from_stream(quiet)));
            }
            let plural = request.uri().path().rsplit('/').next().unwrap_or_default();
            let items: Vec<&Value> = objects
                .iter()
                .filter(|object| plural == format!("{}s", object["kind"].as_str().unwrap().to_lowercase()))
                .collect();
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
            Ok(Response::new(Body::from(list.to_string())))
        })
    };
    kube::Client::new(tower::service_fn(answer), "default")
}

/// The webhooks of an operator that knows these objects.
async fn webhooks(objects: Vec<Value>) -> Router {
    let (kube, token, options) = (
        client(objects),
        CancellationToken::new(),
        Options::default(),
    );
    let (kube, token, few) = (&kube, &token, &options);
    let hubs = Hubs {
        endpoints: Hub::start_with(kube, &[], few, wiring::index_endpoint, token),
        credentials: Hub::start_with(kube, &[], few, wiring::index_credential, token),
        repositories: Hub::start_with(kube, &[], few, wiring::index_scope, token),
        organizations: Hub::start_with(kube, &[], few, wiring::index_scope, token),
        enterprises: Hub::start_with(kube, &[], few, wiring::index_scope, token),
        images: Hub::start_with(kube, &[], few, wiring::index_image, token),
        pools: Hub::start_with(kube, &[], few, wiring::index_pool, token),
        runners: Hub::start_with(kube, &[], few, wiring::index_runner, token),
        server_configs: Hub::start(kube, &[], token),
        secrets: Hub::start(kube, &[], token),
    };
    tokio::time::timeout(Duration::from_secs(30), hubs.loaded())
        .await
        .unwrap();
    let settings = Settings {
        namespaces: Vec::new(),
        duplicate_pools: DuplicatePools::Deny,
        pool_defaults: PoolDefaults::default(),
        wait: Duration::from_secs(2),
        answer: Duration::from_secs(4),
        conversion: Duration::from_secs(25),
        concurrency: 100,
    };
    Arc::new(Admission::new(hubs, settings)).router(&Metrics::new())
}

async fn post(webhooks: &Router, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_vec())).unwrap();
    let response = webhooks.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, body.to_vec())
}

/// What a review must have. The rest may hold what nobody has to read, as numbers out of all range.
#[derive(serde::Deserialize)]
struct Review {
    request: Uid,
}

#[derive(serde::Deserialize)]
struct Uid {
    uid: String,
}

/// Either it is no review of that webhook, or the answer is a verdict on it.
fn check(path: &str, sent: &[u8], status: u16, body: &[u8]) {
    if status == 400 {
        return;
    }
    assert_eq!(status, 200, "{path}");
    let sent: Review = serde_json::from_slice(sent).unwrap();
    let answer: Value = serde_json::from_slice(body).unwrap();
    let response = &answer["response"];
    assert_eq!(response["uid"], sent.request.uid);
    let code = response["status"]["code"].as_u64().unwrap_or(200);
    assert!(matches!(code, 200 | 403 | 422), "{path}: {answer}");
    assert_eq!(response["allowed"], code == 200, "{path}: {answer}");
    if code == 422 {
        let causes = response["status"]["details"]["causes"].as_array();
        assert!(causes.is_some_and(|causes| !causes.is_empty()), "{answer}");
    }
}

#[test]
fn every_review_of_a_write_gets_a_verdict_or_is_none() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let webhooks = runtime.block_on(webhooks(stored()));
    super::run(review, |bytes| {
        for hook in HOOKS {
            let (status, body) = runtime.block_on(post(&webhooks, hook.path, bytes));
            check(hook.path, bytes, status, &body);
        }
    });
}
