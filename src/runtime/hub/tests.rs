use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::{
    runtime::testing::{FakeApi, Reply},
    telemetry::metrics::Format,
};

type Watches = Arc<Mutex<Vec<mpsc::UnboundedSender<Value>>>>;

/// A collection with one list answer per call (the last one repeats) and hand-fed watches.
struct Bench {
    fake: FakeApi,
    watches: Watches,
}

impl Bench {
    fn new(lists: Vec<Listing>) -> Self {
        let watches: Watches = Arc::default();
        let calls = AtomicUsize::new(0);
        let fake = FakeApi::new({
            let watches = Arc::clone(&watches);
            move |request| {
                if request.query.contains("watch=true") {
                    let (feed, stream) = mpsc::unbounded_channel();
                    watches.lock().unwrap().push(feed);
                    return Reply::Stream(stream);
                }
                let call = calls.fetch_add(1, Ordering::SeqCst).min(lists.len() - 1);
                match &lists[call] {
                    Listing::Items(items) => Reply::json(&json!({
                        "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "100"}, "items": items,
                    })),
                    Listing::Forbidden => Reply::status(403, "Forbidden", "no"),
                }
            }
        });
        Self { fake, watches }
    }

    /// Sends an event on the newest watch, waiting for one.
    async fn feed(&self, event: Value) {
        let feed = until(|| self.watches.lock().unwrap().last().cloned()).await;
        feed.send(event).unwrap();
    }
}

enum Listing {
    Items(Vec<Value>),
    Forbidden,
}

fn object(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": version.to_string()},
    })
}

fn bad(name: &str, version: u32) -> Value {
    let mut object = object(name, version);
    object["data"] = json!(7);
    object
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Looks until there is something to see.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn next(events: &mut broadcast::Receiver<HubEvent>) -> (String, bool, bool) {
    let event = tokio::time::timeout(Duration::from_secs(20), events.recv())
        .await
        .unwrap()
        .unwrap();
    (event.key.name, event.trigger, event.gone)
}

#[tokio::test]
async fn loads_follows_and_survives_a_bad_object() {
    let bench = Bench::new(vec![Listing::Items(vec![object("a", 1), bad("b", 2)])]);
    let token = CancellationToken::new();
    let metrics = Arc::new(Metrics::new());
    let options = Options {
        metrics: Some(Arc::clone(&metrics)),
        ..Options::default()
    };
    let hub: Arc<Hub<ConfigMap>> = Hub::start_with(
        &bench.fake.client(),
        &["ns".into()],
        &options,
        |_| Vec::new(),
        &token,
    );
    hub.loaded().await;
    assert!(hub.is_loaded());
    assert!(hub.valid(&key("a")).is_some());
    assert!(hub.valid(&key("b")).is_none());
    assert!(matches!(hub.get(&key("b")), Some(Stored::Invalid(_))));
    assert_eq!(hub.valid_in("ns").len(), 1);
    assert_eq!((hub.all().len(), hub.keys().len()), (1, 2));

    let mut events = hub.subscribe();
    bench
        .feed(json!({"type": "ADDED", "object": object("c", 3)}))
        .await;
    assert_eq!(next(&mut events).await, ("c".into(), true, false));
    bench
        .feed(json!({"type": "MODIFIED", "object": object("b", 4)}))
        .await;
    assert_eq!(next(&mut events).await, ("b".into(), true, false));
    bench
        .feed(json!({"type": "DELETED", "object": object("a", 5)}))
        .await;
    assert_eq!(next(&mut events).await, ("a".into(), true, true));
    assert!(hub.get(&key("a")).is_none() && hub.valid(&key("b")).is_some());

    let text = metrics.encode(Format::Text).unwrap();
    let line = "garm_operator_cached_objects{controller=\"garm_operator\",kind=\"ConfigMap\"} 2";
    assert!(text.contains(line), "no {line} in\n{text}");
    assert!(
        bench.fake.requests()[0]
            .path
            .ends_with("/namespaces/ns/configmaps")
    );
    token.cancel();
}

#[tokio::test]
async fn announces_what_vanished_while_the_watch_was_expired() {
    let bench = Bench::new(vec![
        Listing::Items(vec![object("a", 1), object("b", 2)]),
        Listing::Items(vec![object("b", 2), object("c", 9)]),
    ]);
    let token = CancellationToken::new();
    let hub: Arc<Hub<ConfigMap>> = Hub::start(&bench.fake.client(), &[], &token);
    hub.loaded().await;
    let mut events = hub.subscribe();
    let gone = json!({"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
    bench.feed(json!({"type": "ERROR", "object": gone})).await;
    assert_eq!(next(&mut events).await, ("c".into(), true, false));
    assert_eq!(next(&mut events).await, ("a".into(), true, true));
    assert!(hub.get(&key("b")).is_some());
    token.cancel();
}

#[tokio::test]
async fn waits_for_every_namespace_and_counts_failures() {
    let bench = Bench::new(vec![Listing::Forbidden, Listing::Items(vec![])]);
    let token = CancellationToken::new();
    let metrics = Arc::new(Metrics::new());
    let options = Options {
        metrics: Some(Arc::clone(&metrics)),
        ..Options::default()
    };
    let namespaces = ["ns".to_owned(), "other".to_owned(), "ns".to_owned()];
    let hub: Arc<Hub<ConfigMap>> = Hub::start_with(
        &bench.fake.client(),
        &namespaces,
        &options,
        |_| Vec::new(),
        &token,
    );
    assert!(!hub.is_loaded());
    tokio::time::timeout(Duration::from_secs(20), hub.loaded())
        .await
        .unwrap();
    let line =
        "garm_operator_watch_errors_total{controller=\"garm_operator\",kind=\"ConfigMap\"} 1";
    assert!(metrics.encode(Format::Text).unwrap().contains(line));
    token.cancel();
}

#[tokio::test]
async fn asks_for_the_metadata_of_secrets_only() {
    let bench = Bench::new(vec![Listing::Items(vec![])]);
    let token = CancellationToken::new();
    let options = Options {
        page_size: 10,
        ..Options::default()
    };
    let hub: Arc<Hub<PartialObjectMeta<Secret>>> =
        Hub::start_with(&bench.fake.client(), &[], &options, |_| Vec::new(), &token);
    hub.loaded().await;
    until(|| bench.watches.lock().unwrap().last().cloned()).await;
    for request in bench.fake.requests() {
        assert!(
            request.accept.contains("PartialObjectMetadata"),
            "{request:?}"
        );
    }
    let list = &bench.fake.requests()[0];
    assert!(
        list.query.contains("limit=10") && !list.query.contains("resourceVersion=0"),
        "{}",
        list.query
    );
    token.cancel();
}

#[tokio::test]
async fn a_follower_that_fell_behind_sees_everything_again() {
    let bench = Bench::new(vec![Listing::Items(
        (0..10).map(|n| object(&n.to_string(), n)).collect(),
    )]);
    let token = CancellationToken::new();
    let options = Options {
        capacity: 2,
        ..Options::default()
    };
    let hub: Arc<Hub<ConfigMap>> =
        Hub::start_with(&bench.fake.client(), &[], &options, |_| Vec::new(), &token);
    hub.loaded().await;
    let (seen, mut names) = mpsc::unbounded_channel();
    let follower = tokio::spawn({
        let (hub, token) = (Arc::clone(&hub), token.clone());
        async move {
            hub.follow(&token, |event| seen.send(event.key.name).unwrap())
                .await;
        }
    });
    for n in 10..60 {
        bench
            .feed(json!({"type": "ADDED", "object": object(&n.to_string(), n)}))
            .await;
    }
    let mut missing: HashSet<String> = (0..60).map(|n: u32| n.to_string()).collect();
    while !missing.is_empty() {
        let name = tokio::time::timeout(Duration::from_secs(20), names.recv())
            .await
            .unwrap()
            .unwrap();
        missing.remove(&name);
    }
    token.cancel();
    follower.await.unwrap();
}

#[tokio::test]
async fn a_renewed_watch_counts_as_progress() {
    let bench = Bench::new(vec![Listing::Items(vec![])]);
    let token = CancellationToken::new();
    let hub: Arc<Hub<ConfigMap>> = Hub::start(&bench.fake.client(), &[], &token);
    hub.loaded().await;
    until(|| bench.watches.lock().unwrap().last().cloned()).await;
    let before = Instant::now();
    // The server ends the watch; nothing happened in it.
    bench.watches.lock().unwrap().clear();
    let idle_since_then = || hub.idle(Instant::now()) < before.elapsed();
    until(|| idle_since_then().then_some(())).await;
    let state = hub.state(Instant::now());
    assert_eq!((state.objects, state.is_loaded), (0, true));
    assert_eq!(state.scopes[0].namespace, None);
    token.cancel();
}
