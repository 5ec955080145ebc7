//! What a queue looks like at a moment, for probes and diagnosis.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use super::{Core, Place};
use crate::runtime::ObjectKey;

/// A queue at a moment. Its lists hold the worst objects first, and not more than were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// How many objects wait for a free worker.
    pub ready: usize,
    /// How long the first of them has waited.
    pub oldest_ready: Option<Duration>,
    /// How many objects come back by themselves, without having failed.
    pub paced: usize,
    /// How many objects are being worked on.
    pub running: usize,
    /// How many objects wait after a failure.
    pub backing_off: usize,
    /// Objects that are being worked on, and for how long.
    pub longest_running: Vec<(ObjectKey, Duration)>,
    /// Objects that have failed most often in a row.
    pub most_failed: Vec<Failed>,
}

/// An object that waits after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which one.
    pub key: ObjectKey,
    /// Its failures in a row.
    pub attempts: u32,
    /// When it is tried again.
    pub due_in: Duration,
}

impl Core {
    /// Looks at the queue; its lists name at most `most` objects each.
    pub(in crate::runtime::queue) fn state(&self, now: Instant, most: usize) -> QueueState {
        let mut running = Vec::new();
        let mut failed = Vec::new();
        let mut paced = 0;
        for (key, entry) in &self.entries {
            match entry.place {
                Place::Ready { .. } => {}
                Place::Waiting {
                    back_off: false, ..
                } => paced += 1,
                Place::Waiting { due, .. } => failed.push((Reverse(entry.attempts), key, due)),
                Place::Running { since, .. } => running.push((since, key)),
            }
        }
        let first = self.ready.front().and_then(|key| self.entries.get(key));
        let oldest = first.and_then(|entry| match entry.place {
            Place::Ready { since } => Some(now.saturating_duration_since(since)),
            Place::Waiting { .. } | Place::Running { .. } => None,
        });
        let mut state = QueueState {
            ready: self.ready.len(),
            oldest_ready: oldest,
            paced,
            running: running.len(),
            backing_off: failed.len(),
            ..QueueState::default()
        };
        if most > 0 {
            running.sort_unstable();
            failed.sort_unstable();
        }
        for (since, key) in running.into_iter().take(most) {
            let age = now.saturating_duration_since(since);
            state.longest_running.push((key.clone(), age));
        }
        for (Reverse(attempts), key, due) in failed.into_iter().take(most) {
            state.most_failed.push(Failed {
                key: key.clone(),
                attempts,
                due_in: due.saturating_duration_since(now),
            });
        }
        state
    }
}
