//! The shell around a [`Candidate`]: asks the API server, waits, and publishes.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::candidate::{Candidate, Step};
use super::term::{Leadership, Term};
use super::view::View;
use super::{Times, identity};
use crate::runtime::client::explain;
use crate::runtime::pulse::Pulse;
use crate::runtime::recorder::{EventType, Events};
use crate::telemetry::metrics::Metrics;

/// Seconds that one watch request lasts.
const WATCH_SECONDS: u32 = 180;

/// What the events about the Lease are told as, in the words of client-go.
const REASON: &str = "LeaderElection";

const UNREACHABLE: &str = "the API server cannot be reached for the Lease";

type Changes = BoxStream<'static, kube::Result<WatchEvent<Lease>>>;

/// Stands for election until the process ends.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    candidate: Candidate,
    times: Times,
    term: Option<Term>,
    changes: Option<Changes>,
    publish: watch::Sender<Leadership>,
    metrics: Arc<Metrics>,
    events: Events,
    /// What the log last said.
    told: View,
}

impl Elector {
    /// Makes the candidate that this process is for the Lease `name` in the client's own namespace, and shows whether it leads.
    ///
    /// Needs the rights to get, create, update and watch that Lease.
    pub fn new(
        client: &Client,
        name: &str,
        times: Times,
        metrics: Arc<Metrics>,
    ) -> (Self, watch::Receiver<Leadership>, View) {
        let (publish, leadership) = watch::channel(Leadership::Standby);
        metrics.leads(name, false);
        let identity = identity();
        let told = View::new(&identity);
        let elector = Self {
            api: Api::default_namespaced(client.clone()),
            name: name.to_owned(),
            candidate: Candidate::new(name, identity, times),
            times,
            term: None,
            changes: None,
            publish,
            metrics,
            events: Events::new(client.clone(), "garm-operator"),
            told: told.clone(),
        };
        (elector, leadership, told)
    }

    /// Longest time for which a healthy election does nothing: that of one watch request.
    pub const REST: Duration = Duration::from_secs(WATCH_SECONDS as u64);

    /// Stands for election until `stop` is cancelled, then gives the Lease back at once.
    pub async fn run(mut self, stop: CancellationToken, pulse: Pulse) {
        tracing::info!(
            lease = self.name,
            identity = self.candidate.identity(),
            "standing for election"
        );
        while stop.run_until_cancelled(self.step()).await.is_some() {
            pulse.turn();
        }
        let was_leading = self.resign();
        if was_leading {
            // Together with the release, not after it: who has given the Lease back begins nothing.
            self.event("stopped leading");
        }
        let released = timeout(self.times.release, self.release()).await;
        match released {
            Ok(true) => tracing::info!(lease = self.name, "gave the Lease back"),
            Ok(false) => {}
            Err(_) => tracing::warn!(
                lease = self.name,
                "the Lease could not be given back in time; it expires by itself"
            ),
        }
        if was_leading {
            // Not worth a longer wait.
            let _ = timeout(self.times.release / 2, self.events.flush()).await;
        }
    }

    /// Does one thing. Dropped half-way it leaves nothing but doubt.
    async fn step(&mut self) {
        match self.candidate.decide(Instant::now()) {
            Step::Read => self.read().await,
            Step::Write => self.write().await,
            Step::Wait(until) => self.wait(until).await,
            Step::Lost => self.lose(),
        }
    }

    async fn read(&mut self) {
        match ask(self.limit(), self.api.get_opt(&self.name)).await {
            Ok(lease) => {
                self.candidate.saw(lease, Instant::now());
                self.tell_holder();
            }
            Err(error) => self.failed(&error),
        }
    }

    async fn write(&mut self) {
        let (sent, lease) = (Instant::now(), self.candidate.propose(Timestamp::now()));
        self.changes = None;
        match ask(self.limit(), store(&self.api, &lease)).await {
            Ok(lease) => {
                let pause = self.pause();
                self.candidate.wrote(lease, sent, Instant::now(), pause);
                self.tell_trouble(None);
                self.lead();
            }
            Err(Failure::Conflict) => {
                // Somebody was faster. Who leads must know at once whether that was another candidate.
                let pause = match self.term {
                    Some(_) => Duration::ZERO,
                    None => self.pause(),
                };
                self.candidate.doubt(Instant::now() + pause);
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Begins or prolongs the term.
    fn lead(&mut self) {
        let Some(until) = self.candidate.held_until() else {
            return;
        };
        if let Some(term) = &self.term {
            // The term decides: others have asked it before the answer came.
            if !term.extend(until) {
                self.lose();
            }
            return;
        }
        let term = Term::until(until);
        if !term.may_begin() {
            // The answer took too long. The Lease is ours all the same, to be renewed.
            self.candidate.lost();
            return;
        }
        self.term = Some(term.clone());
        self.publish.send_replace(Leadership::Leading(term));
        self.metrics.leads(&self.name, true);
        self.told.holder(self.candidate.identity());
        tracing::info!(lease = self.name, "this replica leads");
        self.event("became leader");
    }

    /// Leads no more, if it did, and begins anew as a standby.
    fn lose(&mut self) {
        self.candidate.lost();
        if self.resign() {
            tracing::warn!(lease = self.name, "lost the Lease; going on as a standby");
            // No event: who has lost the Lease writes nothing.
        }
    }

    /// Ends the term; says whether there was one.
    fn resign(&mut self) -> bool {
        let Some(term) = self.term.take() else {
            return false;
        };
        term.finish();
        self.publish.send_replace(Leadership::Standby);
        self.metrics.leads(&self.name, false);
        true
    }

    /// Waits until this moment, or until the Lease of another candidate changes.
    async fn wait(&mut self, until: Instant) {
        let Some(version) = self.candidate.version().map(str::to_owned) else {
            sleep_until(until.into()).await;
            return;
        };
        if self.changes.is_none() {
            let wanted = WatchParams::default()
                .fields(&format!("metadata.name={}", self.name))
                .timeout(WATCH_SECONDS);
            match ask(self.limit(), self.api.watch(&wanted, &version)).await {
                Ok(changes) => {
                    self.changes = Some(changes.boxed());
                    self.tell_trouble(None);
                }
                Err(error) => return self.failed(&error),
            }
        }
        let Some(changes) = &mut self.changes else {
            return;
        };
        let change = tokio::select! {
            () = sleep_until(until.into()) => return,
            change = changes.next() => change,
        };
        match change {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.candidate.saw(Some(lease), Instant::now());
                self.tell_holder();
            }
            Some(Ok(WatchEvent::Deleted(_))) => self.candidate.saw(None, Instant::now()),
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            // It ends now and then, and breaks with its connection.
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => {
                self.changes = None;
                self.candidate.doubt(Instant::now() + self.pause());
            }
        }
    }

    /// Gives the Lease back if it is ours; says whether it was.
    async fn release(&mut self) -> bool {
        loop {
            if let Some(lease) = self.candidate.release(Timestamp::now()) {
                match ask(self.limit(), store(&self.api, &lease)).await {
                    Ok(_) => return true,
                    Err(Failure::Conflict) => {}
                    Err(_) => tokio::time::sleep(self.times.retry / 4).await,
                }
                continue;
            }
            if !self.candidate.may_hold() {
                return false;
            }
            // A write was under way, or its answer never came.
            match ask(self.limit(), self.api.get_opt(&self.name)).await {
                Ok(None) => return false,
                Ok(lease) => self.candidate.saw(lease, Instant::now()),
                Err(_) => tokio::time::sleep(self.times.retry / 4).await,
            }
        }
    }

    /// How long an answer is good for something: who leads has to know in time that it does no more.
    fn limit(&self) -> Duration {
        let longest = self.times.renew / 2;
        match self.candidate.held_until() {
            Some(until) if self.term.is_some() => {
                longest.min(until.saturating_duration_since(Instant::now()))
            }
            _ => longest,
        }
    }

    fn failed(&mut self, failure: &Failure) {
        self.changes = None;
        self.candidate.doubt(Instant::now() + self.pause());
        self.tell_trouble(Some(failure));
    }

    /// Spreads the requests of several candidates.
    fn pause(&self) -> Duration {
        self.times.retry.mul_f64(0.8 + rand::random::<f64>() * 0.2)
    }

    /// Logs what keeps us from the Lease when it becomes another thing, and once when nothing does any more.
    fn tell_trouble(&mut self, failure: Option<&Failure>) {
        let (what, error) = match failure {
            Some(Failure::Other(what, error)) => (Some(*what), error.as_str()),
            Some(Failure::Conflict) | None => (None, ""),
        };
        if !self.told.trouble(what) {
            return;
        }
        if let Some(what) = what {
            tracing::warn!(lease = self.name, error, "{what}; trying again");
        } else {
            tracing::info!(lease = self.name, "the Lease can be used again");
        }
    }

    fn tell_holder(&mut self) {
        let holder = self.candidate.holder().unwrap_or_default();
        if !holder.is_empty() && self.told.holder(holder) {
            tracing::info!(lease = self.name, holder, "another replica leads");
        }
    }

    fn event(&self, what: &str) {
        let lease = ObjectReference {
            api_version: Some(Lease::api_version(&()).into_owned()),
            kind: Some(Lease::kind(&()).into_owned()),
            namespace: self.api.namespace().map(str::to_owned),
            name: Some(self.name.clone()),
            uid: self.candidate.uid().map(str::to_owned),
            ..ObjectReference::default()
        };
        let note = format!("{} {what}", self.candidate.identity());
        self.events
            .publish(lease, EventType::Normal, REASON, REASON, &note);
    }
}

async fn store(api: &Api<Lease>, lease: &Lease) -> kube::Result<Lease> {
    let parameters = PostParams::default();
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    if lease.metadata.resource_version.is_some() {
        api.replace(name, &parameters, lease).await
    } else {
        api.create(&parameters, lease).await
    }
}

async fn ask<T>(
    limit: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Failure::from(&error)),
        Err(_) => Err(Failure::Other(UNREACHABLE, "no answer in time".to_owned())),
    }
}

/// Why a request came to nothing.
#[derive(Debug)]
enum Failure {
    /// The Lease has changed meanwhile.
    Conflict,
    /// What it is, in a sentence that stays the same from try to try, and the API server's own words.
    Other(&'static str, String),
}

impl From<&kube::Error> for Failure {
    fn from(error: &kube::Error) -> Self {
        let what = match error {
            kube::Error::Api(status) => match status.code {
                409 => return Self::Conflict,
                401 | 403 => {
                    "the Lease may not be used; grant get, create, update and watch of leases in coordination.k8s.io in the operator's own namespace"
                }
                404 => "the Lease has no place; does the operator's own namespace exist?",
                _ => "the API server refuses the Lease",
            },
            _ => UNREACHABLE,
        };
        Self::Other(what, explain(error))
    }
}
