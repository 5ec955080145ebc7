//! How one watch is doing: when it last made progress, and one line in the log for each time of failures.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use kube::runtime::watcher;

use crate::runtime::client::explain;

/// State of the watch of one namespace, or of all.
#[derive(Debug)]
pub(super) struct Health {
    kind: String,
    /// Empty for all.
    namespace: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    progress: Instant,
    /// What went wrong since.
    failure: Option<String>,
}

impl Health {
    /// Begins with progress now.
    pub(super) fn new(kind: &str, namespace: &str) -> Self {
        let state = State {
            progress: Instant::now(),
            failure: None,
        };
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            state: Mutex::new(state),
        }
    }

    /// Notes progress, which ends a time of failures.
    pub(super) fn note_progress(&self) {
        let recovered = {
            let mut state = self.lock();
            state.progress = Instant::now();
            state.failure.take().is_some()
        };
        if recovered {
            tracing::info!(
                kind = self.kind,
                namespace = self.namespace,
                "watch recovered"
            );
        }
    }

    /// Notes a failure; only the first in a row is worth a warning.
    pub(super) fn note_failure(&self, error: &watcher::Error) {
        let (kind, namespace) = (self.kind.as_str(), self.namespace.as_str());
        if is_expired(error) {
            tracing::debug!(kind, namespace, "watch expired; listing again");
            return;
        }
        let error = reason(error);
        let first = self.lock().failure.replace(error.clone()).is_none();
        if first {
            tracing::warn!(
                kind,
                namespace,
                error,
                "watch failed; trying again until it works"
            );
        } else {
            tracing::debug!(kind, namespace, error, "watch failed again");
        }
    }

    /// Says when progress was last made.
    pub(super) fn last_progress(&self) -> Instant {
        self.lock().progress
    }

    /// Says what went wrong since then.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => explain(error),
        watcher::Error::WatchError(status) => explain(&kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Says whether a watch only fell out of the API server's history, which every change of a CRD brings about.
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_expired_watch_is_no_failure() {
        let health = Health::new("Pool", "");
        health.note_failure(&watcher::Error::WatchError(
            Status::failure("old", "Expired").with_code(410).boxed(),
        ));
        assert_eq!(health.failure(), None);
        health.note_failure(&watcher::Error::NoResourceVersion);
        assert!(health.failure().is_some());
        health.note_progress();
        assert_eq!(health.failure(), None);
    }
}
