//! Objects whose deletion was let pass and that no watch has shown as going yet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a deletion is believed that no watch shows: somebody else may have refused it after us. Watches lag by seconds at most.
const BELIEF: Duration = Duration::from_secs(5);

/// Uids of such objects, and when their deletion came by.
#[derive(Default)]
pub struct Leaving(Mutex<HashMap<String, Instant>>);

impl Leaving {
    /// Takes note of a deletion.
    pub fn note(&self, uid: String, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, since| is_believed(*since, now));
        all.insert(uid, now);
    }

    /// Says whether the object is going, as far as has been heard.
    pub fn has(&self, uid: &str, now: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uid).is_some_and(|since| is_believed(*since, now))
    }
}

fn is_believed(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < BELIEF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_believed_for_a_while_and_then_forgotten() {
        let leaving = Leaving::default();
        let start = Instant::now();
        leaving.note("a".to_owned(), start);
        assert!(leaving.has("a", start));
        assert!(!leaving.has("b", start));
        assert!(!leaving.has("a", start + BELIEF));
        leaving.note("b".to_owned(), start + BELIEF);
        assert_eq!(leaving.0.lock().unwrap().len(), 1);
    }
}
