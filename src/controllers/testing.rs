//! A context for unit tests: stores filled from plain objects, an API server that only lists them, and a GARM that is never asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::Timings;
use crate::controllers::{Context, Hubs, wiring};
use crate::domain::pushed::Hasher;
use crate::garm::{Garm, NoObserver, PasswordSource, Permit, Settings};
use crate::runtime::hub::{Hub, Options};
use crate::runtime::secrets::SecretReader;
use crate::runtime::status::StatusWriter;
use crate::runtime::testing::{FakeApi, Reply};

/// An object in namespace `ns`, made at this second.
#[expect(
    clippy::needless_pass_by_value,
    reason = "tests write the parts in place"
)]
pub(crate) fn object(kind: &str, name: &str, made: i64, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": crate::api::meta::API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("{kind}-{name}"), "generation": 1, "resourceVersion": "1",
            "creationTimestamp": jiff::Timestamp::from_second(made).unwrap().to_string(),
        },
        "spec": spec,
        "status": status,
    })
}

/// Stores that list and watch by this client.
pub(crate) fn hubs(kube: &kube::Client) -> Hubs {
    let token = CancellationToken::new();
    let few = Options::default();
    Hubs {
        endpoints: Hub::start_with(kube, &[], &few, wiring::index_endpoint, &token),
        credentials: Hub::start_with(kube, &[], &few, wiring::index_credential, &token),
        repositories: Hub::start_with(kube, &[], &few, wiring::index_scope, &token),
        organizations: Hub::start_with(kube, &[], &few, wiring::index_scope, &token),
        enterprises: Hub::start_with(kube, &[], &few, wiring::index_scope, &token),
        images: Hub::start_with(kube, &[], &few, wiring::index_image, &token),
        pools: Hub::start_with(kube, &[], &few, wiring::index_pool, &token),
        runners: Hub::start_with(kube, &[], &few, wiring::index_runner, &token),
        server_configs: Hub::start(kube, &[], &token),
        secrets: Hub::start(kube, &[], &token),
    }
}

/// A context in whose stores these objects are.
pub(crate) async fn context(objects: Vec<Value>) -> Arc<Context> {
    let fake = FakeApi::new(move |request| {
        if request.query.contains("watch=true") {
            let (feed, stream) = mpsc::unbounded_channel();
            // Quiet, and open for as long as the test runs.
            std::mem::forget(feed);
            return Reply::Stream(stream);
        }
        let plural = request.path.rsplit('/').next().unwrap_or_default();
        let of_kind = |object: &&Value| {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            plural == format!("{kind}s") || plural == kind.replace("repository", "repositories")
        };
        let items: Vec<&Value> = objects.iter().filter(of_kind).collect();
        Reply::json(&json!({
            "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
        }))
    });
    let kube = fake.client();
    let hubs = hubs(&kube);
    tokio::time::timeout(Duration::from_secs(20), hubs.loaded())
        .await
        .unwrap();
    let timings = Timings::default();
    let password = SecretString::from("password".to_owned());
    let settings = Settings {
        base_url: "http://127.0.0.1:1".parse().unwrap(),
        username: "admin".to_owned(),
        password: PasswordSource::Value(password.clone()),
        init: false,
        email: String::new(),
        ca_file: None,
        timings: timings.garm,
        poll_instances: true,
        permit: Permit::default(),
    };
    Arc::new(Context {
        secrets: SecretReader::new(kube.clone()),
        status: StatusWriter::new(),
        events: HashMap::new(),
        hasher: Hasher::new(&password),
        timings,
        runner_reconciliation: true,
        min_idle_runners_age: Duration::from_secs(300),
        failed_runner_ttl: None,
        kube,
        garm: Garm::new(settings, Arc::new(NoObserver)),
        hubs,
    })
}
