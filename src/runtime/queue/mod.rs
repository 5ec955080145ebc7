//! Work queue of one controller, keyed by object.
//!
//! An object waits in at most one place and is never worked on twice at once. A plain [`Queue::add`] never shortens
//! a back-off, so that noise about a failing object cannot turn it into a hot loop; [`Queue::add_fresh`] (the spec
//! changed) does. Every way to wait is one of three: ready (in order of arrival), a pace (any add ends it), a back-off.

mod core;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use self::core::Core;
pub use self::core::{Failed, QueueState};
pub(crate) use self::core::{Job, Verdict};
use super::ObjectKey;
use crate::telemetry::metrics::QueueMetrics;

/// Growth of the delay between tries of one failing object: full jitter below `base`·2ⁿ, at most `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// Upper bound of the first delay.
    pub base: Duration,
    /// Upper bound of every delay.
    pub cap: Duration,
}

impl Default for BackOff {
    /// Some 14 tries in the first ten minutes, then one per 2.5 min on average.
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(300),
        }
    }
}

impl BackOff {
    /// Gives the upper bound of the delay after the `attempts`-th failure in a row, counted from 1.
    fn ceiling(self, attempts: u32) -> Duration {
        let factor = 1_u32
            .checked_shl(attempts.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// Draws the delay after the `attempts`-th failure in a row: anything up to the ceiling, so that objects that
    /// failed together do not come back together.
    fn draw(self, attempts: u32) -> Duration {
        self.ceiling(attempts).mul_f64(rand::random::<f64>())
    }
}

/// Work queue of one controller; see the module for its rules.
#[derive(Debug)]
pub struct Queue {
    core: Mutex<Core>,
    wake: Notify,
    back_off: BackOff,
}

impl Queue {
    /// Makes an empty queue.
    pub fn new(back_off: BackOff) -> Arc<Self> {
        Arc::new(Self {
            core: Mutex::default(),
            wake: Notify::new(),
            back_off,
        })
    }

    /// Has `key` worked on as soon as a worker is free. Ends a pace; leaves a back-off as it is.
    /// An object that is being worked on is worked on once more afterwards.
    pub fn add(&self, key: ObjectKey) {
        self.lock().add(key, Instant::now());
        self.wake.notify_one();
    }

    /// Has `key` worked on as soon as a worker is free, its failures forgotten: for a changed spec or a new object.
    pub fn add_fresh(&self, key: ObjectKey) {
        self.lock().add_fresh(key, Instant::now());
        self.wake.notify_one();
    }

    /// Has `key` worked on after `delay` at the latest. An earlier time that is already set stays, and so does a back-off.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        self.lock().add_at(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// Drops `key` with its failures and its waiting times: the object is gone. A pass that is running ends normally.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().forget(key);
    }

    /// Counts the objects that wait for a free worker.
    pub fn depth(&self) -> usize {
        self.lock().depth()
    }

    /// Looks at the queue as it is now; its lists name at most `most` objects each.
    pub fn state(&self, most: usize) -> QueueState {
        self.lock().state(Instant::now(), most)
    }

    /// Takes the next object that is due, waiting for one. Dropping the future loses nothing.
    pub(crate) async fn next(&self) -> Job {
        loop {
            // Created before looking: an add between the look and the wait leaves its permit in `wake`.
            let added = self.wake.notified();
            let due = {
                let mut core = self.lock();
                match core.pop(Instant::now()) {
                    Some(job) => return job,
                    None => core.next_due(),
                }
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = added => {}
                        () = tokio::time::sleep_until(due.into()) => {}
                    }
                }
                None => added.await,
            }
        }
    }

    /// Ends the work on `key`; says after which delay a retry comes, where it was one.
    pub(crate) fn finish(&self, key: &ObjectKey, verdict: Verdict) -> Option<Duration> {
        let delay = self
            .lock()
            .finish(key, verdict, Instant::now(), |attempts| {
                self.back_off.draw(attempts)
            });
        self.wake.notify_one();
        delay
    }

    /// Gives `key` back unfinished, as if it had never been taken.
    pub(crate) fn release(&self, key: &ObjectKey) {
        self.lock().release(key, Instant::now());
        self.wake.notify_one();
    }

    /// Writes the state of the queue, and what happened since the last call, into `metrics`.
    pub(crate) fn report(&self, metrics: &QueueMetrics) {
        let mut core = self.lock();
        let (unfinished, longest) = core.running(Instant::now());
        let (adds, retries) = core.take_counts();
        metrics.report(core.depth(), adds, retries, unfinished, longest);
    }

    /// Locks the state; a panic elsewhere cannot leave it half changed, as no foreign code runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(10), future)
            .await
            .unwrap()
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let back_off = BackOff::default();
        let ceilings: Vec<u128> = (1..=5).map(|n| back_off.ceiling(n).as_millis()).collect();
        assert_eq!(ceilings, [1000, 2000, 4000, 8000, 16000]);
        for attempts in [0, 1, 10, 11, 32, 33, u32::MAX] {
            assert!(back_off.ceiling(attempts) <= back_off.cap);
            assert!(back_off.draw(attempts) <= back_off.ceiling(attempts));
        }
        assert_eq!(back_off.ceiling(u32::MAX), back_off.cap);
    }

    #[test]
    fn tries_a_failing_object_at_most_thirty_times_in_ten_minutes() {
        let back_off = BackOff::default();
        for _ in 0..1_000 {
            let (mut elapsed, mut tries) = (Duration::ZERO, 1_u32);
            while elapsed < 10 * MINUTE {
                elapsed += back_off.draw(tries);
                tries += 1;
            }
            assert!(tries <= 30, "{tries} tries");
        }
    }

    #[tokio::test]
    async fn hands_out_what_was_added_before_and_during_the_wait() {
        let queue = Queue::new(BackOff::default());
        queue.add(key("a"));
        assert_eq!(soon(queue.next()).await.key, key("a"));
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.next().await.key }
        });
        tokio::task::yield_now().await;
        queue.add(key("b"));
        assert_eq!(soon(waiting).await.unwrap(), key("b"));
    }

    #[tokio::test]
    async fn hands_out_a_delayed_object_without_another_add() {
        let queue = Queue::new(BackOff::default());
        queue.add_after(key("late"), MINUTE);
        queue.add_after(key("a"), Duration::from_millis(5));
        assert_eq!(soon(queue.next()).await.key, key("a"));
    }

    #[tokio::test]
    async fn loses_nothing_when_a_wait_is_dropped() {
        let queue = Queue::new(BackOff::default());
        {
            let mut wait = std::pin::pin!(queue.next());
            assert!(futures::poll!(wait.as_mut()).is_pending());
            queue.add(key("a"));
        }
        assert_eq!(soon(queue.next()).await.key, key("a"));
    }
}
