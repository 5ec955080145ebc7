//! What a watch looks like at a moment, for metrics, probes and diagnosis.

use std::time::{Duration, Instant};

use super::{Hub, Watched};

/// A watch and its store at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubState {
    /// The watched kind.
    pub kind: String,
    /// Whether the first list of every namespace was complete once.
    pub is_loaded: bool,
    /// How many objects are held.
    pub objects: usize,
    /// How many of them do not decode.
    pub invalid: usize,
    /// One for each watched namespace, or one for all.
    pub scopes: Vec<ScopeState>,
}

/// The watch of one namespace at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeState {
    /// The namespace; `None` for all.
    pub namespace: Option<String>,
    /// How long ago it made progress.
    pub idle: Duration,
    /// What stands in the way since then.
    pub failure: Option<String>,
}

/// A watch of whatever kind.
pub trait Watching: Send + Sync {
    /// Names the watched kind.
    fn kind(&self) -> &str;

    /// Says how long ago the slowest namespace's watch made progress: an event, a listed object or an accepted watch request. A healthy
    /// watch makes some at least once per watch timeout, a quiet one too.
    fn idle(&self, now: Instant) -> Duration;

    /// Looks at the watch and its store.
    fn state(&self, now: Instant) -> HubState;
}

impl<K: Watched> Watching for Hub<K> {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn idle(&self, now: Instant) -> Duration {
        let progress = self.scopes.iter().map(|scope| scope.health.last_progress());
        now.saturating_duration_since(progress.min().unwrap_or(now))
    }

    fn state(&self, now: Instant) -> HubState {
        let (objects, invalid) = self.read().count();
        let scopes = self.scopes.iter().map(|scope| ScopeState {
            namespace: scope.namespace.clone(),
            idle: now.saturating_duration_since(scope.health.last_progress()),
            failure: scope.health.failure(),
        });
        HubState {
            kind: self.kind.clone(),
            is_loaded: self.is_loaded(),
            objects,
            invalid,
            scopes: scopes.collect(),
        }
    }
}

impl<K: Watched> Hub<K> {
    /// Names the watched kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Writes the state into the metrics.
    pub(super) fn report(&self) {
        let Some(metrics) = &self.metrics else { return };
        let (objects, invalid) = self.read().count();
        metrics.report(objects, invalid, self.idle(Instant::now()));
    }
}
