//! The one place that asks GARM to delete instances, for scale-down, Pool deletion and Runner deletion alike: one request in flight per name,
//! and no second one while the first is being worked on.
//!
//! GARM holds such a request for as long as GitHub takes to answer. Who asks waits for a short while only, so that a GitHub that hangs keeps
//! no worker from its other objects; the request goes on by itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::domain::runner::{is_busy, is_deletable, is_idle};
use crate::garm::wire::Instance;
use crate::garm::{self, Garm};

/// Requests in flight from which on no further one is begun: GARM gets two at once, the others queue for their turn.
const MOST_IN_FLIGHT: usize = 16;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GARM took it; the instance goes in a while.
    Sent,
    /// GARM has not answered yet.
    UnderWay,
    /// Somebody asked before, or the instance is in no state to be deleted.
    NotNow,
    /// The instance is gone already.
    Gone,
    /// GitHub says that the runner works on a job.
    Busy,
}

/// Asks GARM to delete instances.
pub struct Reaper {
    garm: Garm,
    patience: Duration,
    ledger: Arc<Ledger>,
    /// Ends with the reaper, and ends with it the requests that nobody waits for.
    over: DropGuard,
}

/// Who was asked for, when, and how.
struct Ledger {
    again: Duration,
    lost: Duration,
    requests: Mutex<HashMap<String, Request>>,
}

#[derive(Clone, Copy)]
struct Request {
    at: Instant,
    forced: bool,
    in_flight: bool,
}

impl Reaper {
    /// Makes a reaper that asks for one name at most once per `again`, unless the second request is the first forced one or the first came
    /// to nothing, which shows after `lost`; and that waits for an answer no longer than `patience`.
    pub fn new(garm: Garm, again: Duration, lost: Duration, patience: Duration) -> Self {
        let ledger = Ledger {
            again,
            lost,
            requests: Mutex::default(),
        };
        Self {
            garm,
            patience,
            ledger: Arc::new(ledger),
            over: CancellationToken::new().drop_guard(),
        }
    }

    /// Tells whether GARM was asked for this instance a short while ago. A forced request counts an unforced one for nothing.
    ///
    /// A request that came to nothing counts for nothing either: v0.1.5 can lose what it answered 200 to, when the runner reports at that
    /// moment, and shows the instance as running still.
    pub fn is_asked(&self, instance: &Instance, force: bool) -> bool {
        if is_deletable(instance, false) {
            self.ledger.forget_lost(&instance.name);
        }
        self.ledger.holds(&instance.name, force)
    }

    /// Forgets a name that is gone.
    pub fn forget(&self, name: &str) {
        self.ledger.lock().remove(name);
    }

    /// Asks for an instance that is to go.
    ///
    /// # Errors
    /// Fails when GARM does, or when GitHub refuses GARM; "busy" and "not in a deletable state" are answers, not errors.
    pub async fn remove(&self, name: &str, force: bool) -> Result<Asked, garm::Error> {
        self.ask(name, force, false).await
    }

    /// Asks for an idle instance, after a fresh look that it still is one: a job may have arrived.
    ///
    /// # Errors
    /// Fails when GARM does.
    pub async fn remove_idle(&self, name: &str) -> Result<Asked, garm::Error> {
        self.ask(name, false, true).await
    }

    async fn ask(&self, name: &str, force: bool, only_idle: bool) -> Result<Asked, garm::Error> {
        let Some(turn) = Ledger::take(&self.ledger, name, force) else {
            return Ok(Asked::NotNow);
        };
        let over = self.over.token().clone();
        let call = send(self.garm.clone(), turn, force, only_idle);
        let call = tokio::spawn(async move { over.run_until_cancelled(call).await });
        match tokio::time::timeout(self.patience, call).await {
            Ok(Ok(Some(answer))) => answer,
            // The reaper is gone, or the call panicked, which the process tells by itself.
            Ok(Ok(None) | Err(_)) => Ok(Asked::NotNow),
            Err(_) => Ok(Asked::UnderWay),
        }
    }
}

async fn send(garm: Garm, turn: Turn, force: bool, only_idle: bool) -> Result<Asked, garm::Error> {
    if only_idle {
        match garm.read_instance(&turn.name).await {
            Ok(instance) if is_busy(&instance) => return Ok(Asked::Busy),
            Ok(instance) if is_idle(&instance) && is_deletable(&instance, false) => {}
            Ok(_) => return Ok(Asked::NotNow),
            Err(garm::Error::NotFound) => return Ok(Asked::Gone),
            Err(error) => return Err(error),
        }
    }
    match garm.delete_instance(&turn.name, force).await {
        Ok(()) => {
            turn.keep();
            Ok(Asked::Sent)
        }
        Err(garm::Error::NotFound) => Ok(Asked::Gone),
        // GitHub's 422 arrives as 400: the runner has a job after all.
        Err(garm::Error::BadRequest { .. }) => {
            turn.keep();
            Ok(Asked::Busy)
        }
        Err(error) => {
            tracing::debug!(instance = %turn.name, %error, "GARM did not take the deletion of an instance");
            Err(error)
        }
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Request>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a request for an instance that should be on its way out by now.
    fn forget_lost(&self, name: &str) {
        let mut requests = self.lock();
        let lost = |request: &Request| !request.in_flight && request.at.elapsed() >= self.lost;
        if requests.get(name).is_some_and(lost) {
            requests.remove(name);
        }
    }

    fn holds(&self, name: &str, force: bool) -> bool {
        self.lock().get(name).is_some_and(|request| {
            request.in_flight || (request.at.elapsed() < self.again && (request.forced || !force))
        })
    }

    /// Takes the right to ask for a name; none when somebody has it.
    fn take(ledger: &Arc<Self>, name: &str, force: bool) -> Option<Turn> {
        if ledger.holds(name, force) {
            return None;
        }
        let mut requests = ledger.lock();
        requests.retain(|_, request| request.in_flight || request.at.elapsed() < ledger.again);
        let in_flight = requests.values().filter(|request| request.in_flight);
        if in_flight.count() >= MOST_IN_FLIGHT {
            return None;
        }
        let request = Request {
            at: Instant::now(),
            forced: force,
            in_flight: true,
        };
        if requests.get(name).is_some_and(|request| request.in_flight) {
            return None;
        }
        requests.insert(name.to_owned(), request);
        Some(Turn {
            ledger: Arc::clone(ledger),
            name: name.to_owned(),
            is_kept: false,
        })
    }
}

/// The right to ask for a name. It ends with the request, whatever becomes of that; kept, it holds others back for a while.
struct Turn {
    ledger: Arc<Ledger>,
    name: String,
    is_kept: bool,
}

impl Turn {
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut requests = self.ledger.lock();
        if !self.is_kept {
            requests.remove(&self.name);
        } else if let Some(request) = requests.get_mut(&self.name) {
            request.in_flight = false;
            request.at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger {
            again: Duration::from_secs(3600),
            lost: Duration::ZERO,
            requests: Mutex::default(),
        })
    }

    #[test]
    fn a_request_that_came_to_nothing_is_made_again() {
        let ledger = ledger();
        let turn = Ledger::take(&ledger, "a", false).unwrap();
        ledger.forget_lost("a");
        assert!(ledger.holds("a", false), "it is still under way");
        turn.keep();
        ledger.forget_lost("a");
        assert!(!ledger.holds("a", false));
    }

    #[test]
    fn one_request_per_name_is_in_flight_and_none_follows_soon() {
        let ledger = ledger();
        let turn = Ledger::take(&ledger, "a", false).unwrap();
        assert!(Ledger::take(&ledger, "a", false).is_none());
        assert!(
            Ledger::take(&ledger, "a", true).is_none(),
            "not even a forced one while the first is in flight"
        );
        assert!(Ledger::take(&ledger, "b", false).is_some());
        turn.keep();
        assert!(ledger.holds("a", false));
    }

    #[test]
    fn the_first_forced_request_follows_an_unforced_one_at_once() {
        let ledger = ledger();
        Ledger::take(&ledger, "a", false).unwrap().keep();
        assert!(!ledger.holds("a", true));
        Ledger::take(&ledger, "a", true).unwrap().keep();
        assert!(ledger.holds("a", true) && ledger.holds("a", false));
        assert!(Ledger::take(&ledger, "a", true).is_none());
    }

    #[test]
    fn a_request_that_failed_or_was_dropped_holds_nobody_back() {
        let ledger = ledger();
        drop(Ledger::take(&ledger, "a", false).unwrap());
        assert!(!ledger.holds("a", false));
        assert!(ledger.lock().is_empty());
    }

    #[test]
    fn a_github_that_hangs_gets_no_endless_queue() {
        let ledger = ledger();
        let turns: Vec<Turn> = (0..MOST_IN_FLIGHT)
            .map(|n| Ledger::take(&ledger, &n.to_string(), false).unwrap())
            .collect();
        assert!(Ledger::take(&ledger, "one more", false).is_none());
        drop(turns);
        assert!(Ledger::take(&ledger, "one more", false).is_some());
    }
}
