//! One watch per kind for the whole process; everybody reads the same memory.
//!
//! Each change goes into the store first and then, as a key, to all subscribers, who decide what it means to them.
//! Sending never waits, so that a slow reader cannot stall the watch; one that falls behind gets everything again.

mod guard;
mod health;
mod state;
mod store;

use std::{
    collections::HashSet,
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use self::{guard::Guarded, health::Health, store::Store};
pub use self::{
    guard::Invalid,
    state::{HubState, ScopeState, Watching},
    store::{Form, HubEvent, Index, Stored},
};
use super::{ObjectKey, client};
use crate::telemetry::metrics::{HubMetrics, Metrics};

/// Annotations that change with every push and by which nobody decides; their change is no news.
const SILENT_ANNOTATIONS: [&str; 2] = [crate::api::meta::LAST_SYNC_TIME, crate::api::meta::PUSHED];

/// How one kind is watched.
#[derive(Clone, Debug)]
pub struct Options {
    /// Objects per list request. A page is held in memory several times over, so that kinds with many or large
    /// objects want small ones: 50 for Runners, 10 for the metadata of Secrets.
    pub page_size: u32,
    /// Events kept for a subscriber that is behind, rounded up to a power of two; about 100 bytes each. Kinds with
    /// more objects than this have a late subscriber go through all of them once more.
    pub capacity: usize,
    /// How objects are kept.
    pub form: Form,
    /// Length of one watch request. A connection that died silently is noticed after this and 5 s.
    pub watch_timeout: Duration,
    /// Where the watch reports; nowhere for `None`.
    pub metrics: Option<Arc<Metrics>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            page_size: 500,
            capacity: 2048,
            form: Form::Decoded,
            watch_timeout: Duration::from_secs(180),
            metrics: None,
        }
    }
}

/// All objects of kind `K` in the watched namespaces, kept current by a watch.
pub struct Hub<K> {
    kind: String,
    store: RwLock<Store<K>>,
    events: broadcast::Sender<HubEvent>,
    /// Number of namespaces whose first list is not complete.
    unloaded: watch::Sender<usize>,
    scopes: Vec<Scope>,
    metrics: Option<HubMetrics>,
}

/// The watch of one namespace, or of all.
struct Scope {
    namespace: Option<String>,
    health: Arc<Health>,
}

/// What the list of one namespace has shown.
#[derive(Debug, Default)]
struct List {
    seen: HashSet<ObjectKey>,
    was_complete: bool,
}

impl<K> Debug for Hub<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A kind that can be watched.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + DeserializeOwned
    + Serialize
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + DeserializeOwned
        + Serialize
        + Clone
        + Debug
        + Send
        + Sync
        + 'static
{
}

impl<K: Watched> Hub<K> {
    /// Begins to watch `namespaces` (all when empty) with the default options.
    pub fn start(client: &Client, namespaces: &[String], token: &CancellationToken) -> Arc<Self> {
        Self::start_with(
            client,
            namespaces,
            &Options::default(),
            |_| Vec::new(),
            token,
        )
    }

    /// Begins to watch `namespaces` (all when empty), with one watch request per namespace, until `token` is cancelled.
    pub fn start_with(
        client: &Client,
        namespaces: &[String],
        options: &Options,
        index: Index<K>,
        token: &CancellationToken,
    ) -> Arc<Self> {
        let hub = Arc::new(Self::new(namespaces, options, index));
        if let Some(metrics) = &options.metrics {
            let weak = Arc::downgrade(&hub);
            metrics.before_scrape(move || {
                weak.upgrade().is_some_and(|hub| {
                    hub.report();
                    true
                })
            });
        }
        let config = watcher::Config {
            page_size: Some(options.page_size.max(1)),
            timeout: Some(
                u32::try_from(options.watch_timeout.as_secs())
                    .unwrap_or(u32::MAX)
                    .max(1),
            ),
            // Lists ask for the newest state: the API server ignores the page size of one that may be older.
            ..watcher::Config::default()
        };
        for (index, scope) in hub.scopes.iter().enumerate() {
            let client = client::watched(client, {
                let health = Arc::clone(&scope.health);
                move || health.note_progress()
            });
            let api: Api<Guarded<K>> = match &scope.namespace {
                Some(namespace) => Api::namespaced(client, namespace),
                None => Api::all(client),
            };
            tokio::spawn(Arc::clone(&hub).run(index, api, config.clone(), token.clone()));
        }
        hub
    }

    /// Holds these objects, without a watch: for who looks once. What does not decode is kept as such.
    pub fn still(objects: Vec<serde_json::Value>, index: Index<K>) -> Arc<Self> {
        let hub = Self::new(&[], &Options::default(), index);
        {
            let mut store = hub.store.write().unwrap_or_else(PoisonError::into_inner);
            for object in objects {
                // It never fails: what does not decode is a value too.
                if let Ok(object) = serde_json::from_value::<Guarded<K>>(object) {
                    store.put(object);
                }
            }
        }
        hub.unloaded.send_replace(0);
        Arc::new(hub)
    }

    fn new(namespaces: &[String], options: &Options, index: Index<K>) -> Self {
        let kind = K::kind(&()).into_owned();
        let scope = |namespace: Option<&String>| Scope {
            namespace: namespace.cloned(),
            health: Arc::new(Health::new(&kind, namespace.map_or("", String::as_str))),
        };
        let scopes: Vec<Scope> = if namespaces.is_empty() {
            vec![scope(None)]
        } else {
            let distinct: std::collections::BTreeSet<&String> = namespaces.iter().collect();
            distinct
                .into_iter()
                .map(|namespace| scope(Some(namespace)))
                .collect()
        };
        Self {
            store: RwLock::new(Store::new(
                &format!("{}/", crate::api::meta::GROUP),
                &SILENT_ANNOTATIONS,
                index,
                options.form,
            )),
            events: broadcast::Sender::new(options.capacity.max(1)),
            unloaded: watch::Sender::new(scopes.len()),
            metrics: options.metrics.as_ref().map(|metrics| metrics.hub(&kind)),
            scopes,
            kind,
        }
    }

    async fn run(
        self: Arc<Self>,
        index: usize,
        api: Api<Guarded<K>>,
        config: watcher::Config,
        token: CancellationToken,
    ) {
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut list = List::default();
        loop {
            let event = tokio::select! {
                () = token.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(event)) => self.apply(&self.scopes[index], &mut list, event),
                Some(Err(error)) => {
                    if let Some(metrics) = &self.metrics {
                        metrics.errors.inc();
                    }
                    self.scopes[index].health.note_failure(&error);
                }
                None => return,
            }
        }
    }

    /// Takes over one event of a watch. `list` holds what the list under way has shown so far.
    fn apply(&self, scope: &Scope, list: &mut List, event: Event<Guarded<K>>) {
        // The beginning of a list is announced before it is asked for, and says nothing about its success.
        if !matches!(event, Event::Init) {
            scope.health.note_progress();
        }
        let mut complete = false;
        let news = {
            let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Init => {
                    list.seen.clear();
                    Vec::new()
                }
                // Stored at once and not when the list ends: a second copy of all objects would double the memory.
                Event::InitApply(object) => {
                    list.seen.insert(ObjectKey::of(object.meta()));
                    store.put(object).into_iter().collect()
                }
                Event::InitDone => {
                    complete = !std::mem::replace(&mut list.was_complete, true);
                    store.keep_only(scope.namespace.as_deref(), &std::mem::take(&mut list.seen))
                }
                Event::Apply(object) => store.put(object).into_iter().collect(),
                Event::Delete(object) => store
                    .remove(&ObjectKey::of(object.meta()))
                    .into_iter()
                    .collect(),
            }
        };
        for event in news {
            // Fails only when nobody listens.
            let _ = self.events.send(event);
        }
        if complete {
            self.unloaded
                .send_modify(|unloaded| *unloaded = unloaded.saturating_sub(1));
        }
    }

    /// Finds an object, also one that does not decode.
    pub fn get(&self, key: &ObjectKey) -> Option<Stored<K>> {
        self.read().get(key)
    }

    /// Finds an object that decodes.
    pub fn valid(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key)?.valid().cloned()
    }

    /// Lists the objects of a namespace that decode, by name.
    pub fn valid_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read()
            .in_namespace(namespace)
            .filter_map(|stored| stored.valid().cloned())
            .collect()
    }

    /// Lists the objects with this index value that decode, in the order of their keys.
    pub fn by(&self, value: &str) -> Vec<Arc<K>> {
        self.read().by(value).collect()
    }

    /// Lists the first objects with this index value, in the order of their keys, that decode and are so; as many as `most`.
    pub fn first_by(&self, value: &str, most: usize, is_so: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let store = self.read();
        let found = store.by(value).filter(|object| is_so(object));
        found.take(most).collect()
    }

    /// Lists the keys of the objects with this index value, in order.
    pub fn keys_by(&self, value: &str) -> Vec<ObjectKey> {
        self.read().keys_by(value).cloned().collect()
    }

    /// Shows the answer to one of our own writes to all readers at once, before the watch does. Older versions are ignored, here and later.
    /// Its content has to be that of its version: a spec older than its metadata must not be offered.
    pub fn offer(&self, object: K) {
        let event = self
            .store
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .offer(object);
        if let Some(event) = event {
            // Fails only when nobody listens.
            let _ = self.events.send(event);
        }
    }

    /// Lists all objects that decode.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read()
            .iter()
            .filter_map(|stored| stored.valid().cloned())
            .collect()
    }

    /// Lists the keys of all objects, also of those that do not decode.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().keys().cloned().collect()
    }

    /// Says whether the first list of every namespace was complete once: only then does absence mean anything.
    pub fn is_loaded(&self) -> bool {
        *self.unloaded.borrow() == 0
    }

    /// Waits until [`Self::is_loaded`].
    pub async fn loaded(&self) {
        // The sender is `self`, so that waiting cannot fail.
        let _ = self
            .unloaded
            .subscribe()
            .wait_for(|unloaded| *unloaded == 0)
            .await;
    }

    /// Subscribes to changes from now on; read the store after this call, or a change between is missed.
    pub fn subscribe(&self) -> broadcast::Receiver<HubEvent> {
        self.events.subscribe()
    }

    /// Calls `on` for every object there is and then for every change, until `token` is cancelled. When it falls
    /// behind, it goes through all objects again: `on` may see an object twice and misses none that exists, but may miss
    /// that one is gone.
    pub async fn follow(&self, token: &CancellationToken, mut on: impl FnMut(HubEvent)) {
        let mut events = self.subscribe();
        self.announce_all(&mut on);
        loop {
            let event = tokio::select! {
                () = token.cancelled() => return,
                event = events.recv() => event,
            };
            match event {
                Ok(event) => on(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    tracing::debug!(
                        kind = self.kind,
                        missed,
                        "fell behind the watch; going through all objects"
                    );
                    events = self.subscribe();
                    self.announce_all(&mut on);
                }
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn announce_all(&self, on: &mut impl FnMut(HubEvent)) {
        for key in self.keys() {
            on(HubEvent {
                key,
                trigger: true,
                gone: false,
            });
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
