//! The one place that asks GARM to delete instances, for scale-down, Pool deletion and Runner deletion alike: one request in flight per name,
//! and no second one while the first is being worked on.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::runner::{is_busy, is_deletable, is_idle};
use crate::garm::{self, Garm};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// GARM took it; the instance goes in a while.
    Sent,
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
    again: Duration,
    asked: Mutex<HashMap<String, (Instant, bool)>>,
}

impl Reaper {
    /// Makes a reaper that asks for one name at most once per `again`, unless the second request is the first forced one.
    pub fn new(garm: Garm, again: Duration) -> Self {
        Self {
            garm,
            again,
            asked: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, bool)>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether GARM was asked for this name a short while ago.
    pub fn is_asked(&self, name: &str) -> bool {
        let asked = self.lock();
        asked
            .get(name)
            .is_some_and(|(at, _)| at.elapsed() < self.again)
    }

    /// Forgets names that are gone.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Asks for an instance that is to go.
    ///
    /// # Errors
    /// Fails when GARM does, or when GitHub refuses GARM; "busy" and "not in a deletable state" are answers, not errors.
    pub async fn remove(&self, name: &str, force: bool) -> Result<Asked, garm::Error> {
        if !self.take(name, force) {
            return Ok(Asked::NotNow);
        }
        let answer = self.garm.delete_instance(name, force).await;
        match answer {
            Ok(()) => Ok(Asked::Sent),
            Err(garm::Error::NotFound) => {
                self.forget(name);
                Ok(Asked::Gone)
            }
            // GitHub's 422 arrives as 400: the runner has a job after all. It is asked for again when its state changes or time has passed.
            Err(garm::Error::BadRequest { .. }) => Ok(Asked::Busy),
            Err(error) => {
                self.forget(name);
                Err(error)
            }
        }
    }

    /// Asks for an idle instance, after a fresh look that it still is one: a job may have arrived.
    ///
    /// # Errors
    /// Fails when GARM does.
    pub async fn remove_idle(&self, name: &str) -> Result<Asked, garm::Error> {
        if self.is_asked(name) {
            return Ok(Asked::NotNow);
        }
        match self.garm.read_instance(name).await {
            Ok(instance) if is_busy(&instance) => Ok(Asked::Busy),
            Ok(instance) if is_idle(&instance) && is_deletable(&instance, false) => {
                self.remove(name, false).await
            }
            Ok(_) => Ok(Asked::NotNow),
            Err(garm::Error::NotFound) => Ok(Asked::Gone),
            Err(error) => Err(error),
        }
    }

    /// Takes the right to ask for a name; false when somebody has it.
    fn take(&self, name: &str, force: bool) -> bool {
        let mut asked = self.lock();
        let again = self.again;
        asked.retain(|_, (at, _)| at.elapsed() < again);
        let first_force = force && asked.get(name).is_some_and(|(_, forced)| !forced);
        if asked.contains_key(name) && !first_force {
            return false;
        }
        asked.insert(name.to_owned(), (Instant::now(), force));
        true
    }
}
