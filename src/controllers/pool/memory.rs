//! What the process remembers of pools beyond what GARM and Kubernetes show. Losing it costs a wait, never a wrong decision.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::api::v1beta1::RunnerCounts;
use crate::domain::pool::DesiredPool;
use crate::domain::runner::is_being_made;
use crate::garm::wire::Instance;

/// Refusals of one and the same new pool after which GARM is asked but seldom.
const REFUSALS: u32 = 3;

/// A runner that the provider could not make.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The instance.
    pub instance: Arc<Instance>,
    /// When it first failed.
    pub since: Timestamp,
    /// What the provider said last; empty when GARM told nothing.
    pub fault: String,
}

/// Memory of all pools, by the uid of their objects.
#[derive(Default)]
pub struct Memory {
    pools: Mutex<HashMap<String, PoolMemory>>,
}

#[derive(Default)]
struct PoolMemory {
    /// Since when each idle runner has been idle.
    idle: HashMap<String, Timestamp>,
    /// Since when each failed runner has been so, and its last fault.
    failed: HashMap<String, (Timestamp, String)>,
    /// When runner counts last went into the status, and which.
    counted: Option<(Instant, RunnerCounts)>,
    /// Since when the pool is known to start no runner.
    quiet: Option<Instant>,
    /// When the instances of a pool under deletion were last listed live.
    listed: Option<Instant>,
    /// What GARM refused to make.
    refused: Option<Refused>,
    /// Id of the pool in GARM that it takes, so that no other object takes it before the store shows whose it is.
    takes: Option<String>,
}

struct Refused {
    desired: DesiredPool,
    times: u32,
    last: Instant,
    message: String,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, PoolMemory>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says since when each idle runner has been idle: since its first sight, or its `updated_at` at that sight where that is earlier.
    ///
    /// A later `updated_at` (a heartbeat) does not make a runner young again.
    pub fn idle_since(&self, uid: &str, idle: &[&Instance], now: Timestamp) -> Vec<Timestamp> {
        let mut pools = self.lock();
        first_sights(
            &mut pools.entry(uid.to_owned()).or_default().idle,
            idle,
            now,
        )
    }

    /// Says which runners the provider could not make, since when, and why.
    ///
    /// GARM v0.1.x tries such a runner again every few seconds, and clears the fault each time: until its machine runs it stays a failed one,
    /// with the last fault seen.
    pub fn failures(&self, uid: &str, instances: &[Arc<Instance>], now: Timestamp) -> Vec<Failure> {
        let mut pools = self.lock();
        let known = &mut pools.entry(uid.to_owned()).or_default().failed;
        let mut failures = Vec::new();
        for instance in instances {
            let before = known.remove(&instance.name);
            let is_tried_again = before.is_some() && is_being_made(instance);
            if instance.status != "error" && !is_tried_again {
                continue;
            }
            let (since, fault) = before.unwrap_or_else(|| {
                let first = instance.updated_at.map_or(now, |at| at.min(now));
                (first, String::new())
            });
            let seen = instance.provider_fault.trim();
            failures.push(Failure {
                instance: Arc::clone(instance),
                since,
                fault: if seen.is_empty() {
                    fault
                } else {
                    seen.to_owned()
                },
            });
        }
        *known = failures
            .iter()
            .map(|f| (f.instance.name.clone(), (f.since, f.fault.clone())))
            .collect();
        failures
    }

    /// Chooses the counts for the status: the new ones if the last change is `interval` ago, else the stored ones and when to come again.
    pub fn counts(
        &self,
        uid: &str,
        stored: Option<RunnerCounts>,
        current: RunnerCounts,
        interval: Duration,
    ) -> (RunnerCounts, Option<Duration>) {
        let Some(stored) = stored else {
            return (current, None);
        };
        let mut pools = self.lock();
        let counted = &mut pools.entry(uid.to_owned()).or_default().counted;
        // What was chosen last may not have reached the object at hand yet.
        let shown = counted.map_or(stored, |(_, chosen)| chosen);
        if shown == current {
            return (shown, None);
        }
        let now = Instant::now();
        match counted.map(|(at, _)| interval.saturating_sub(now - at)) {
            Some(rest) if !rest.is_zero() => (shown, Some(rest)),
            _ => {
                *counted = Some((now, current));
                (current, None)
            }
        }
    }

    /// Notes that a pool was just told to start no runner.
    pub fn quieted(&self, uid: &str) {
        self.lock().entry(uid.to_owned()).or_default().quiet = Some(Instant::now());
    }

    /// Says for how long a pool has started no runner, as far as this process knows; the first question starts the clock.
    pub fn quiet_for(&self, uid: &str) -> Duration {
        self.lock()
            .entry(uid.to_owned())
            .or_default()
            .quiet
            .get_or_insert_with(Instant::now)
            .elapsed()
    }

    /// Says whether a live list of a terminating pool's instances is due, and notes that it is made.
    pub fn list_due(&self, uid: &str, pace: Duration) -> bool {
        let mut pools = self.lock();
        let listed = &mut pools.entry(uid.to_owned()).or_default().listed;
        let due = listed.is_none_or(|at| at.elapsed() >= pace);
        if due {
            *listed = Some(Instant::now());
        }
        due
    }

    /// Notes that GARM refused to make a pool.
    pub fn refused(&self, uid: &str, desired: &DesiredPool, message: String) {
        let mut pools = self.lock();
        let refused = &mut pools.entry(uid.to_owned()).or_default().refused;
        let times = refused
            .take_if(|earlier| earlier.desired == *desired)
            .map_or(0, |earlier| earlier.times);
        *refused = Some(Refused {
            desired: desired.clone(),
            times: times.saturating_add(1),
            last: Instant::now(),
            message,
        });
    }

    /// Says that GARM has refused this very pool so often that it is not asked for a while: its words, and for how long.
    pub fn refusal(
        &self,
        uid: &str,
        desired: &DesiredPool,
        again: Duration,
    ) -> Option<(String, Duration)> {
        let pools = self.lock();
        let refused = pools.get(uid)?.refused.as_ref()?;
        let rest = again.saturating_sub(refused.last.elapsed());
        let holds = refused.desired == *desired && refused.times >= REFUSALS && !rest.is_zero();
        holds.then(|| (refused.message.clone(), rest))
    }

    /// Notes that an object takes a pool that GARM holds, unless another one that lives does.
    pub fn takes(&self, uid: &str, id: &str, lives: impl Fn(&str) -> bool) -> bool {
        let mut pools = self.lock();
        let is_taken = pools.iter().any(|(other, memory)| {
            other != uid && memory.takes.as_deref() == Some(id) && lives(other)
        });
        if !is_taken {
            pools.entry(uid.to_owned()).or_default().takes = Some(id.to_owned());
        }
        !is_taken
    }

    /// Forgets that an object was to take a pool: it does not.
    pub fn lets_go(&self, uid: &str) {
        if let Some(pool) = self.lock().get_mut(uid) {
            pool.takes = None;
        }
    }

    /// Forgets refusals: the pool was made.
    pub fn made(&self, uid: &str) {
        if let Some(pool) = self.lock().get_mut(uid) {
            pool.refused = None;
        }
    }

    /// Forgets a pool whose object is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }
}

/// Says since when each of these instances has been among them, and forgets those that are no more.
fn first_sights(
    known: &mut HashMap<String, Timestamp>,
    instances: &[&Instance],
    now: Timestamp,
) -> Vec<Timestamp> {
    let names: HashSet<&str> = instances.iter().map(|i| i.name.as_str()).collect();
    known.retain(|name, _| names.contains(name.as_str()));
    let since = |instance: &&Instance| {
        let first = instance.updated_at.map_or(now, |at| at.min(now));
        *known.entry(instance.name.clone()).or_insert(first)
    };
    instances.iter().map(since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(name: &str, updated: i64) -> Instance {
        Instance {
            name: name.to_owned(),
            updated_at: Timestamp::from_second(updated).ok(),
            ..Instance::default()
        }
    }

    #[test]
    fn a_heartbeat_does_not_make_a_runner_young() {
        let memory = Memory::default();
        let at = |s| Timestamp::from_second(s).unwrap();
        assert_eq!(memory.idle_since("u", &[&idle("a", 10)], at(100)), [at(10)]);
        assert_eq!(memory.idle_since("u", &[&idle("a", 90)], at(100)), [at(10)]);
        assert!(memory.idle_since("u", &[], at(100)).is_empty());
        assert_eq!(
            memory.idle_since("u", &[&idle("a", 90)], at(100)),
            [at(90)],
            "it worked in between"
        );
        assert_eq!(
            memory.idle_since("u", &[&idle("b", 500)], at(100)),
            [at(100)],
            "a clock ahead of ours"
        );
    }

    #[test]
    fn the_same_new_pool_is_refused_three_times_and_then_held_back() {
        let memory = Memory::default();
        let desired = |image: &str| {
            let spec = crate::api::v1beta1::PoolSpec {
                github_scope_ref: crate::api::refs::TypedRef::new("Repository", "tools"),
                image_name: "i".to_owned(),
                provider_name: "p".to_owned(),
                flavor: "f".to_owned(),
                os_type: "linux".to_owned(),
                os_arch: "amd64".to_owned(),
                max_runners: 1,
                tags: vec!["t".to_owned()],
                ..Default::default()
            };
            crate::domain::pool::desired(&spec, image).unwrap()
        };
        let hour = Duration::from_secs(3600);
        for _ in 0..3 {
            assert!(memory.refusal("u", &desired("a"), hour).is_none());
            memory.refused("u", &desired("a"), "no such provider".to_owned());
        }
        let (message, rest) = memory.refusal("u", &desired("a"), hour).unwrap();
        assert_eq!(message, "no such provider");
        assert!(rest <= hour);
        assert!(
            memory.refusal("u", &desired("a"), Duration::ZERO).is_none(),
            "one more after the pause"
        );
        assert!(
            memory.refusal("u", &desired("b"), hour).is_none(),
            "a changed spec is another question"
        );
        memory.made("u");
        assert!(memory.refusal("u", &desired("a"), hour).is_none());
    }

    #[test]
    fn a_runner_that_is_tried_again_stays_a_failed_one() {
        let memory = Memory::default();
        let at = |s| Timestamp::from_second(s).unwrap();
        let runner = |status: &str, fault: &str| {
            [Arc::new(Instance {
                status: status.to_owned(),
                provider_fault: fault.to_owned(),
                ..idle("a", 10)
            })]
        };
        assert!(
            memory
                .failures("u", &runner("creating", ""), at(20))
                .is_empty()
        );
        let failed = |runners: [Arc<Instance>; 1]| {
            let failures = memory.failures("u", &runners, at(30));
            failures
                .into_iter()
                .map(|f| (f.since, f.fault))
                .collect::<Vec<_>>()
        };
        let expected = [(at(10), "no quota".to_owned())];
        assert_eq!(failed(runner("error", "no quota")), expected);
        assert_eq!(failed(runner("pending_create", "")), expected);
        assert_eq!(failed(runner("creating", "")), expected);
        assert_eq!(failed(runner("error", "")), expected);
        assert!(failed(runner("running", "")).is_empty());
        assert!(failed(runner("creating", "")).is_empty());
    }

    #[test]
    fn of_two_objects_one_takes_a_pool_while_it_lives() {
        let memory = Memory::default();
        let all = |_: &str| true;
        assert!(memory.takes("a", "pool", all));
        assert!(
            memory.takes("a", "pool", all),
            "again, after a failed write"
        );
        assert!(!memory.takes("b", "pool", all));
        assert!(memory.takes("b", "other", all));
        assert!(memory.takes("b", "pool", |uid| uid != "a"), "a is gone");
        assert!(!memory.takes("a", "pool", all));
        memory.lets_go("b");
        assert!(memory.takes("a", "pool", all));
        memory.forget("a");
        assert!(memory.takes("b", "pool", all));
    }

    #[test]
    fn counts_go_out_at_most_once_an_interval() {
        let memory = Memory::default();
        let count = |total| RunnerCounts {
            total,
            ..RunnerCounts::default()
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(memory.counts("u", None, count(1), hour), (count(1), None));
        assert_eq!(
            memory.counts("u", Some(count(1)), count(2), hour),
            (count(2), None)
        );
        let (held, again) = memory.counts("u", Some(count(2)), count(3), hour);
        assert_eq!(held, count(2));
        assert!(again.is_some());
        assert_eq!(
            memory.counts("u", Some(count(1)), count(2), hour),
            (count(2), None),
            "a copy of the object that lags behind brings no old counts back"
        );
        assert_eq!(
            memory.counts("u", Some(count(2)), count(3), Duration::ZERO),
            (count(3), None)
        );
    }
}
