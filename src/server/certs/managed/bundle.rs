//! Stores our bundle where API servers read it: in our webhook configurations and CRDs.
//!
//! Each object is watched by its name, so that the rights can be given by name. What differs is written, nothing else: a change of a CRD ends all
//! watches of its kind. Only `caBundle` is touched, and by a JSON patch: a server-side apply would make us an owner of the webhooks, and then
//! nobody else could remove one.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use futures::{Stream, StreamExt, stream::select_all};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::MANAGER;
use crate::{
    api::install::{CONVERTED, crd, mutating_webhooks, validating_webhooks},
    runtime::{client::explain, lease::Term},
};

/// Shortest pause before an object is written again, or tried again. It doubles each time: somebody else may insist on another bundle.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// After how long without a write the pauses are short again.
const CALM: Duration = Duration::from_secs(300);

/// A bundle that every object holds that has to.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The bundle, as PEM.
    pub bundle: String,
    /// Since when, without a break that we saw.
    pub since: Instant,
}

/// One place in an object for a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    /// What must be so for the place to be the right one: path and value.
    test: (String, String),
    /// Where the bundle stands.
    path: String,
    /// What stands there, in base64.
    bundle: Option<String>,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing: it was not read yet, or may not be.
    Nothing,
    /// It does not exist, so that nothing is wrong with it.
    Absent,
    /// Its places.
    Present(Vec<Slot>),
}

/// Lists the places in a webhook configuration or a CRD.
fn slots(object: &Value) -> Vec<Slot> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(webhooks) = object["webhooks"].as_array() {
        let slot = |(index, webhook): (usize, &Value)| Slot {
            test: (
                format!("/webhooks/{index}/name"),
                text(&webhook["name"]).unwrap_or_default(),
            ),
            path: format!("/webhooks/{index}/clientConfig/caBundle"),
            bundle: text(&webhook["clientConfig"]["caBundle"]),
        };
        return webhooks.iter().enumerate().map(slot).collect();
    }
    let conversion = &object["spec"]["conversion"];
    if conversion["strategy"] != "Webhook" || !conversion["webhook"]["clientConfig"].is_object() {
        return Vec::new();
    }
    vec![Slot {
        test: ("/spec/conversion/strategy".to_owned(), "Webhook".to_owned()),
        path: "/spec/conversion/webhook/clientConfig/caBundle".to_owned(),
        bundle: text(&conversion["webhook"]["clientConfig"]["caBundle"]),
    }]
}

/// Builds the JSON patch that brings all places to `bundle` (base64); `None` when they are. It fails when the object has changed its shape.
fn patch(slots: &[Slot], bundle: &str) -> Option<Value> {
    let wrong = slots
        .iter()
        .filter(|slot| slot.bundle.as_deref() != Some(bundle));
    let operations: Vec<Value> = wrong
        .flat_map(|slot| {
            let (path, value) = &slot.test;
            [
                json!({ "op": "test", "path": path, "value": value }),
                json!({ "op": "add", "path": slot.path, "value": bundle }),
            ]
        })
        .collect();
    (!operations.is_empty()).then_some(Value::Array(operations))
}

/// An object that holds our bundle.
#[derive(Clone)]
struct Target {
    api: Api<DynamicObject>,
    kind: String,
    name: String,
}

/// A target while we lead.
struct Kept {
    target: Target,
    known: Known,
    /// What a list that is under way has shown.
    listed: Known,
    /// Not to be written before.
    hold: Instant,
    pause: Duration,
    trouble: Option<String>,
}

/// Stores the bundle.
#[derive(Clone)]
pub struct Publisher {
    targets: Vec<Target>,
    wanted: watch::Receiver<String>,
    stored: Arc<watch::Sender<Option<Stored>>>,
}

impl Publisher {
    pub(super) fn new(
        kube: &Client,
        prefix: &str,
        wanted: watch::Receiver<String>,
    ) -> (Self, watch::Receiver<Option<Stored>>) {
        let target = |group: &str, kind: &str, name: String| {
            let kind = GroupVersionKind::gvk(group, "v1", kind);
            Target {
                api: Api::all_with(kube.clone(), &ApiResource::from_gvk(&kind)),
                kind: kind.kind,
                name,
            }
        };
        let webhooks = "admissionregistration.k8s.io";
        let mut targets = vec![
            target(
                webhooks,
                "ValidatingWebhookConfiguration",
                validating_webhooks(prefix),
            ),
            target(
                webhooks,
                "MutatingWebhookConfiguration",
                mutating_webhooks(prefix),
            ),
        ];
        let definition = |plural| {
            target(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                crd(plural),
            )
        };
        targets.extend(CONVERTED.map(definition));
        let (stored, shown) = watch::channel(None);
        let this = Self {
            targets,
            wanted,
            stored: Arc::new(stored),
        };
        (this, shown)
    }

    /// Keeps the bundle stored until `end` is cancelled, as the holder of `term`.
    pub async fn run(self, term: Term, end: CancellationToken) {
        let stored = Arc::clone(&self.stored);
        end.run_until_cancelled(Box::pin(self.keep(term))).await;
        stored.send_replace(None);
    }

    async fn keep(mut self, term: Term) {
        let mut events = select_all(
            self.targets
                .iter()
                .enumerate()
                .map(|(index, target)| target.watch(index)),
        );
        let now = Instant::now();
        let mut all: Vec<Kept> = self
            .targets
            .drain(..)
            .map(|target| Kept::new(target, now))
            .collect();
        loop {
            let bundle = self.wanted.borrow_and_update().clone();
            let mut next = None;
            if !bundle.is_empty() {
                let text = BASE64.encode(&bundle);
                for kept in &mut all {
                    let again = kept.write(&text, &term).await;
                    next = next.into_iter().chain(again).min();
                }
                let is_stored = all.iter().all(|kept| kept.holds(&text));
                self.tell(bundle, is_stored);
            }
            let retry = async {
                match next {
                    Some(time) => sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((index, event)) = events.next() => {
                    if let Some(kept) = all.get_mut(index) {
                        kept.see(event);
                    }
                }
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // A bundle of ours that changes is no quarrel.
                    all.iter_mut().for_each(Kept::forgive);
                }
                () = retry => {}
            }
        }
    }

    /// Shows what is stored everywhere.
    fn tell(&self, bundle: String, is_stored: bool) {
        self.stored.send_if_modified(|stored| {
            let known = stored.as_ref().map(|stored| &stored.bundle);
            if known == is_stored.then_some(&bundle) {
                return false;
            }
            *stored = is_stored.then(|| Stored {
                bundle,
                since: Instant::now(),
            });
            true
        });
    }
}

impl Target {
    /// Watches the object alone, with its place in the list.
    fn watch(
        &self,
        index: usize,
    ) -> impl Stream<Item = (usize, watcher::Result<watcher::Event<DynamicObject>>)> + Unpin + Send + use<>
    {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let events = watcher(self.api.clone(), config).default_backoff();
        Box::pin(events.map(move |event| (index, event)))
    }
}

impl Kept {
    fn new(target: Target, now: Instant) -> Self {
        Self {
            target,
            known: Known::Nothing,
            listed: Known::Absent,
            hold: now,
            pause: PAUSE_MIN,
            trouble: None,
        }
    }

    /// Takes in what a watch says.
    fn see(&mut self, event: watcher::Result<watcher::Event<DynamicObject>>) {
        match event {
            Ok(event) => {
                match event {
                    // Also of a list that is refused then: it says nothing yet.
                    watcher::Event::Init => return self.listed = Known::Absent,
                    watcher::Event::InitApply(object) => return self.listed = Known::of(&object),
                    watcher::Event::InitDone => self.known = self.listed.clone(),
                    watcher::Event::Apply(object) => self.known = Known::of(&object),
                    watcher::Event::Delete(_) => self.known = Known::Absent,
                }
                let absent = "it does not exist, so that the API server asks nothing by it; operator.webhookNamePrefix is what its name begins with";
                let is_absent = matches!(self.known, Known::Absent);
                self.note(is_absent.then(|| absent.to_owned()));
            }
            // Whoever may not read it does not know what stands there.
            Err(
                watcher::Error::InitialListFailed(kube::Error::Api(status))
                | watcher::Error::WatchStartFailed(kube::Error::Api(status)),
            ) if status.code == 403 => {
                self.known = Known::Nothing;
                let rights =
                    "the operator needs the rights to list, watch and patch it by its name";
                self.note(Some(format!("{}; {rights}", status.message)));
            }
            Err(error) => {
                // An API server that is away is told by all other watches.
                tracing::debug!(
                    kind = self.target.kind,
                    name = self.target.name,
                    %error,
                    "the watch of a caBundle was interrupted"
                );
            }
        }
    }

    /// Writes what differs. Answers when to try again, if that has to be.
    async fn write(&mut self, bundle: &str, term: &Term) -> Option<Instant> {
        let Known::Present(slots) = &self.known else {
            return None;
        };
        let change = patch(slots, bundle)?;
        let now = Instant::now();
        if now < self.hold || !term.may_begin() {
            return Some(self.hold.max(now + PAUSE_MIN));
        }
        if now > self.hold + CALM {
            self.forgive();
        }
        self.hold = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        match self.send(change).await {
            Ok(known) => {
                self.known = known;
                self.note(None);
                tracing::info!(
                    kind = self.target.kind,
                    name = self.target.name,
                    "caBundle was written"
                );
            }
            Err(text) => self.note(Some(text)),
        }
        self.known.differs(bundle).then_some(self.hold)
    }

    async fn send(&self, change: Value) -> Result<Known, String> {
        let change = serde_json::from_value(change).map_err(|error| error.to_string())?;
        let by = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let written = self
            .target
            .api
            .patch(&self.target.name, &by, &Patch::<()>::Json(change))
            .await;
        written
            .map(|object| Known::of(&object))
            .map_err(|error| explain(&error))
    }

    /// Tells whether nothing is missing here.
    fn holds(&self, bundle: &str) -> bool {
        match &self.known {
            Known::Nothing => false,
            Known::Absent => true,
            Known::Present(_) => !self.known.differs(bundle),
        }
    }

    /// Lets the next write be at once.
    fn forgive(&mut self) {
        self.hold = Instant::now();
        self.pause = PAUSE_MIN;
    }

    /// Says what is wrong, once.
    fn note(&mut self, trouble: Option<String>) {
        if trouble == self.trouble {
            return;
        }
        if let Some(error) = &trouble {
            tracing::warn!(
                kind = self.target.kind,
                name = self.target.name,
                error,
                "caBundle cannot be kept in an object"
            );
        }
        self.trouble = trouble;
    }
}

impl Known {
    fn of(object: &DynamicObject) -> Self {
        Self::Present(slots(&object.data))
    }

    fn differs(&self, bundle: &str) -> bool {
        matches!(self, Self::Present(slots) if patch(slots, bundle).is_some())
    }
}

#[cfg(test)]
mod tests;
