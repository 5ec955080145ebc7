//! The log verbosity of the running process: what was configured, or for a while something else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::log::Handle;

/// Highest verbosity that can be set at run time: the one above may show extraSpecs, which only a configuration may ask for.
pub const HIGHEST: u8 = 4;

/// How long a change lasts, so that one that is forgotten does not fill disks.
pub const HOLD: Duration = Duration::from_secs(15 * 60);

/// The verbosity of the log. Clones are the same.
#[derive(Clone, Debug)]
pub struct Level(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    handle: Handle,
    configured: u8,
    hold: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: u8,
    /// Ends the change.
    end: Option<JoinHandle<()>>,
}

impl Level {
    /// Begins with what is configured, which `handle` has been set to.
    pub fn new(handle: Handle, configured: u8) -> Self {
        Self::holding(handle, configured, HOLD)
    }

    fn holding(handle: Handle, configured: u8, hold: Duration) -> Self {
        Self(Arc::new(Inner {
            handle,
            configured,
            hold,
            state: Mutex::new(State {
                now: configured,
                end: None,
            }),
        }))
    }

    /// Gives the verbosity as it is now.
    pub fn now(&self) -> u8 {
        self.lock().now
    }

    /// Gives the verbosity that comes back by itself.
    pub fn configured(&self) -> u8 {
        self.0.configured
    }

    /// Says whether [`Self::set`] takes this verbosity.
    pub fn may_be(&self, verbosity: u8) -> bool {
        verbosity <= HIGHEST || verbosity == self.0.configured
    }

    /// Sets a verbosity that [may be](Self::may_be) for [`HOLD`]; the configured one lasts. Needs a running tokio runtime.
    pub fn set(&self, verbosity: u8) {
        if !self.may_be(verbosity) {
            return;
        }
        let mut state = self.lock();
        if let Some(end) = state.end.take() {
            end.abort();
        }
        self.apply(&mut state, verbosity);
        if verbosity != self.0.configured {
            let this = self.clone();
            state.end = Some(tokio::spawn(async move {
                tokio::time::sleep(this.0.hold).await;
                let configured = this.0.configured;
                this.apply(&mut this.lock(), configured);
            }));
        }
    }

    fn apply(&self, state: &mut MutexGuard<'_, State>, verbosity: u8) {
        if state.now == verbosity {
            return;
        }
        state.now = verbosity;
        self.0.handle.set_verbosity(verbosity);
        // At a level that every verbosity shows.
        tracing::warn!(
            verbosity,
            configured = self.0.configured,
            "the log verbosity changed"
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_ends_by_itself() {
        let level = Level::holding(Handle::detached(), 1, Duration::from_millis(5));
        level.set(HIGHEST);
        assert_eq!(level.configured(), 1);
        tokio::time::timeout(Duration::from_secs(20), async {
            while level.now() != 1 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn the_last_change_counts_and_the_configured_verbosity_lasts() {
        let level = Level::new(Handle::detached(), 1);
        level.set(HIGHEST);
        level.set(HIGHEST + 1);
        assert_eq!(level.now(), HIGHEST);
        level.set(3);
        assert_eq!(level.now(), 3);
        assert!(level.lock().end.is_some(), "it ends some time");
        level.set(1);
        assert!(level.lock().end.is_none());
        assert_eq!(level.now(), 1);
        let level = Level::new(Handle::detached(), HIGHEST + 1);
        level.set(0);
        level.set(HIGHEST + 1);
        assert_eq!(level.now(), HIGHEST + 1, "what is configured may come back");
    }
}
