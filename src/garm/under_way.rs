//! Whether somebody waits for GARM.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long after an answer those who waited for it are busy with it.
const AFTERMATH: Duration = Duration::from_secs(5);

/// The requests that wait for their answer.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    count: usize,
    last_end: Option<Instant>,
}

/// A request that waits until this is dropped, also one that is given up.
pub(super) struct Waits<'a>(&'a UnderWay);

impl UnderWay {
    /// Counts a request.
    pub(super) fn begin(&self) -> Waits<'_> {
        self.lock().count += 1;
        Waits(self)
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.lock().count
    }

    /// Whether one waits, or did just now.
    pub(super) fn was_lately(&self, now: Instant) -> bool {
        let requests = self.lock();
        let ended_lately = |end| now.saturating_duration_since(end) < AFTERMATH;
        requests.count > 0 || requests.last_end.is_some_and(ended_lately)
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut requests = self.0.lock();
        requests.count -= 1;
        requests.last_end = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_until_it_is_over_and_is_remembered_for_a_moment() {
        let under_way = UnderWay::default();
        assert!(!under_way.was_lately(Instant::now()));
        let first = under_way.begin();
        let second = under_way.begin();
        assert_eq!(under_way.count(), 2);
        drop(first);
        assert!(under_way.was_lately(Instant::now() + AFTERMATH * 2));
        drop(second);
        assert_eq!(under_way.count(), 0);
        assert!(under_way.was_lately(Instant::now()));
        assert!(!under_way.was_lately(Instant::now() + AFTERMATH * 2));
    }
}
