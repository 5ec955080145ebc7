//! State of a work queue without a clock: every operation takes the time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use crate::runtime::ObjectKey;

mod state;

pub use state::{Failed, QueueState};

/// Work taken from the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Object to work on.
    pub(crate) key: ObjectKey,
    /// Failures in a row before this try.
    pub(crate) attempts: u32,
    /// Time from being ready to being taken.
    pub(crate) waited: Duration,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing more to do.
    Done,
    /// Come back after this delay, whatever happened before.
    After(Duration),
    /// What is known is older than what there is: come back soon, and later each time while nothing is heard of the object.
    Stale,
    /// Failed; come back after a growing delay.
    Retry,
}

/// First and longest delay after work on what is stale: the watch shows within moments what is newer, or does not work.
const STALE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

fn stale_delay(attempts: u32) -> Duration {
    let (first, longest) = STALE;
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    first.saturating_mul(factor).min(longest)
}

/// What was asked for while the object was being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    At(Instant),
    Now,
    Fresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready {
        since: Instant,
    },
    Waiting {
        due: Instant,
        seq: u64,
        back_off: bool,
    },
    Running {
        since: Instant,
        again: Option<Again>,
    },
}

#[derive(Debug)]
struct Entry {
    place: Place,
    attempts: u32,
}

/// The queue's state. An object that is neither ready, waiting nor being worked on has no entry.
#[derive(Debug, Default)]
pub(super) struct Core {
    entries: HashMap<ObjectKey, Entry>,
    ready: VecDeque<ObjectKey>,
    /// Waiting objects by due time; the number keeps equal times apart and in order.
    timers: BTreeMap<(Instant, u64), ObjectKey>,
    seq: u64,
    adds: u64,
    retries: u64,
}

impl Core {
    /// See [`super::Queue::add`].
    pub(super) fn add(&mut self, key: ObjectKey, now: Instant) {
        let attempts = match self.entries.get_mut(&key) {
            None => 0,
            Some(entry) => match &mut entry.place {
                Place::Ready { .. } | Place::Waiting { back_off: true, .. } => return,
                Place::Running { again, .. } => {
                    if *again != Some(Again::Fresh) {
                        *again = Some(Again::Now);
                    }
                    return;
                }
                // What was stale is heard of.
                Place::Waiting { .. } => 0,
            },
        };
        self.make_ready(key, attempts, now);
    }

    /// See [`super::Queue::add_fresh`].
    pub(super) fn add_fresh(&mut self, key: ObjectKey, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.attempts = 0;
            match &mut entry.place {
                Place::Ready { .. } => return,
                Place::Running { again, .. } => {
                    *again = Some(Again::Fresh);
                    return;
                }
                Place::Waiting { .. } => {}
            }
        }
        self.make_ready(key, 0, now);
    }

    /// See [`super::Queue::add_after`].
    pub(super) fn add_at(&mut self, key: ObjectKey, at: Instant) {
        let attempts = match self.entries.get_mut(&key) {
            None => 0,
            Some(entry) => match &mut entry.place {
                Place::Ready { .. } | Place::Waiting { back_off: true, .. } => return,
                Place::Waiting { due, .. } if *due <= at => return,
                Place::Waiting { .. } => entry.attempts,
                Place::Running { again, .. } => {
                    *again = match *again {
                        None => Some(Again::At(at)),
                        Some(Again::At(earlier)) => Some(Again::At(earlier.min(at))),
                        sooner => sooner,
                    };
                    return;
                }
            },
        };
        self.wait(key, attempts, at, false);
    }

    /// See [`super::Queue::forget`].
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if let Place::Running { again, .. } = &mut entry.place {
            *again = None;
            entry.attempts = 0;
            return;
        }
        self.unlink(key);
        self.entries.remove(key);
    }

    /// Takes the first ready object, after moving all that are due to the ready ones.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Job> {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.get().clone();
            let attempts = self.entries.get(&key).map_or(0, |entry| entry.attempts);
            self.make_ready(key, attempts, now);
        }
        let key = self.ready.pop_front()?;
        let entry = self.entries.get_mut(&key)?;
        let waited = match entry.place {
            Place::Ready { since } => now.saturating_duration_since(since),
            Place::Waiting { .. } | Place::Running { .. } => Duration::ZERO,
        };
        entry.place = Place::Running {
            since: now,
            again: None,
        };
        Some(Job {
            attempts: entry.attempts,
            key,
            waited,
        })
    }

    /// Says when the first waiting object is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }

    /// Ends the work on `key`; `delay` gives the back-off after so many failures. Answers the delay of a retry.
    pub(super) fn finish(
        &mut self,
        key: &ObjectKey,
        verdict: Verdict,
        now: Instant,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        let (key, entry) = self.entries.remove_entry(key)?;
        let Place::Running { again, .. } = entry.place else {
            // Never the case for work that was taken; the entry stays as it was.
            self.entries.insert(key, entry);
            return None;
        };
        match (verdict, again) {
            (_, Some(Again::Fresh))
            | (Verdict::Done | Verdict::After(_) | Verdict::Stale, Some(Again::Now)) => {
                self.make_ready(key, 0, now);
                (verdict == Verdict::Retry).then_some(Duration::ZERO)
            }
            (Verdict::Done, Some(Again::At(at))) => {
                self.wait(key, 0, at, false);
                None
            }
            (Verdict::Done, None) => None,
            (Verdict::After(_) | Verdict::Stale, again) => {
                let (attempts, pace) = if let Verdict::After(pace) = verdict {
                    (0, pace)
                } else {
                    let attempts = entry.attempts.saturating_add(1);
                    (attempts, stale_delay(attempts))
                };
                let due = now + pace;
                let due = match again {
                    Some(Again::At(at)) => due.min(at),
                    _ => due,
                };
                self.wait(key, attempts, due, false);
                None
            }
            (Verdict::Retry, _) => {
                let attempts = entry.attempts.saturating_add(1);
                let delay = delay(attempts);
                self.retries += 1;
                self.wait(key, attempts, now + delay, true);
                Some(delay)
            }
        }
    }

    /// Puts work that was taken but not finished back to the ready objects.
    pub(super) fn release(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(entry) = self.entries.get(key)
            && let Place::Running { .. } = entry.place
        {
            self.make_ready(key.clone(), entry.attempts, now);
        }
    }

    /// Counts the ready objects.
    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Counts how often an object became ready and how often a back-off began since the last call.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.adds),
            std::mem::take(&mut self.retries),
        )
    }

    /// Gives the sum and the longest of the times that objects have been worked on.
    pub(super) fn running(&self, now: Instant) -> (Duration, Duration) {
        let mut sum = Duration::ZERO;
        let mut longest = Duration::ZERO;
        for entry in self.entries.values() {
            if let Place::Running { since, .. } = entry.place {
                let age = now.saturating_duration_since(since);
                sum += age;
                longest = longest.max(age);
            }
        }
        (sum, longest)
    }

    fn make_ready(&mut self, key: ObjectKey, attempts: u32, now: Instant) {
        self.unlink(&key);
        self.adds += 1;
        self.ready.push_back(key.clone());
        let place = Place::Ready { since: now };
        self.entries.insert(key, Entry { place, attempts });
    }

    fn wait(&mut self, key: ObjectKey, attempts: u32, due: Instant, back_off: bool) {
        self.unlink(&key);
        self.seq += 1;
        let seq = self.seq;
        self.timers.insert((due, seq), key.clone());
        let place = Place::Waiting { due, seq, back_off };
        self.entries.insert(key, Entry { place, attempts });
    }

    /// Takes `key` out of the list in which its entry says it is.
    fn unlink(&mut self, key: &ObjectKey) {
        match self.entries.get(key).map(|entry| entry.place) {
            Some(Place::Waiting { due, seq, .. }) => {
                self.timers.remove(&(due, seq));
            }
            Some(Place::Ready { .. }) => self.ready.retain(|ready| ready != key),
            Some(Place::Running { .. }) | None => {}
        }
    }
}

#[cfg(test)]
mod tests;
