//! One collection of the mirror: what is known, since when, what went away, and what is in doubt.
//!
//! Time is counted in ticks: every change of the mirror and every request sent gets the next one, so that "touched after
//! that list was requested" is a comparison of two numbers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::super::wire::List;

/// Something GARM has, as the mirror keeps it.
pub(in crate::garm) trait Record: Clone + PartialEq {
    /// What tells it from others of its collection.
    type Key: Clone + Eq + Hash + Ord + Debug;

    /// Whether GARM may give a deleted object's key to a new one.
    const KEY_IS_REUSED: bool = false;

    /// Tells it from others of its collection.
    fn key(&self) -> Self::Key;

    /// Writes a key as lists do.
    fn key_text(key: &Self::Key) -> String;

    /// When GARM last changed it, where GARM says so.
    fn updated_at(&self) -> Option<Timestamp>;

    /// Takes over from an older state what this answer did not carry, as far as it still holds.
    fn inherit(&mut self, _older: &Self) {}

    /// Says whether a list showed something that makes a read by key necessary.
    fn needs_details(&self, _before: Option<&Self>, _list: ListKind) -> bool {
        false
    }
}

/// What a list stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::garm) enum ListKind {
    /// The whole collection, for the first time.
    First,
    /// The whole collection, again.
    Again,
    /// A part of the collection.
    Part,
}

/// Where a payload comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// An event: of any age.
    Frame,
    /// The answer to a read that was sent at this tick.
    Read(u64),
    /// The answer to a write of ours that was sent at this tick.
    Write(u64),
}

/// A change of one entry.
pub(in crate::garm) struct Change<R> {
    pub before: Option<Arc<R>>,
    pub after: Option<Arc<R>>,
}

struct Entry<R> {
    value: Arc<R>,
    touched: u64,
}

struct Tombstone {
    tick: u64,
    until: Instant,
    /// Whether GARM said of this very object that it is gone; a list only leaves it out.
    told: bool,
}

/// An object whose state has to be read.
struct Doubt<R> {
    /// A read sent later than this settles it.
    tick: u64,
    /// When to read; `None` while a read is under way.
    due: Option<Instant>,
    /// The one state that contradicts ours; `None` when there were several.
    rival: Option<R>,
}

/// One collection.
pub(in crate::garm) struct Table<R: Record> {
    entries: HashMap<R::Key, Entry<R>>,
    tombstones: HashMap<R::Key, Tombstone>,
    doubts: HashMap<R::Key, Doubt<R>>,
    queue: BTreeSet<(Instant, R::Key)>,
    tombstone: Duration,
    delay: Duration,
}

impl<R: Record> Table<R> {
    /// Makes an empty one: deleted objects are mistrusted for `tombstone`, doubtful ones read after `delay`.
    pub(super) fn new(tombstone: Duration, delay: Duration) -> Self {
        Self {
            entries: HashMap::new(),
            tombstones: HashMap::new(),
            doubts: HashMap::new(),
            queue: BTreeSet::new(),
            tombstone,
            delay,
        }
    }

    pub(super) fn get(&self, key: &R::Key) -> Option<&Arc<R>> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Whether GARM said lately of this very object that it is gone.
    pub(super) fn was_told_gone(&self, key: &R::Key) -> bool {
        self.tombstones.get(key).is_some_and(|stone| stone.told)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<R>> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Counts the objects whose keys fit.
    pub(super) fn count(&self, fits: impl Fn(&R::Key) -> bool) -> usize {
        self.entries.keys().filter(|&key| fits(key)).count()
    }

    /// Counts the objects whose keys fit and whose state has to be read.
    pub(super) fn count_doubts(&self, fits: impl Fn(&R::Key) -> bool) -> usize {
        self.doubts.keys().filter(|&key| fits(key)).count()
    }

    /// Takes in one payload, or raises a doubt where its age cannot be told.
    pub(super) fn apply(
        &mut self,
        record: R,
        source: Source,
        tick: u64,
        now: Instant,
    ) -> Option<Change<R>> {
        let key = record.key();
        if let Some(tombstone) = self.tombstones.get(&key) {
            match source {
                // A late frame of something deleted, or a new object of the same name: only GARM knows.
                Source::Frame if tombstone.until > now => {
                    self.raise(key, tick, now, Some(record));
                    return None;
                }
                Source::Read(asked) | Source::Write(asked) if tombstone.tick > asked => {
                    return None;
                }
                _ => {}
            }
        }
        let (take, doubt) = match self.entries.get(&key) {
            None => (true, false),
            Some(entry) => verdict(entry, &record, source),
        };
        // What is taken all the same is no rival of ours: nothing that agrees with it settles the doubt.
        let rival = (doubt && !take).then(|| record.clone());
        let asked = match source {
            Source::Frame => None,
            Source::Read(asked) | Source::Write(asked) => Some(asked),
        };
        let change = if take {
            self.put(&key, record, asked, tick)
        } else {
            if !doubt
                && source == Source::Frame
                && record.updated_at().is_none()
                && let Some(entry) = self.entries.get_mut(&key)
            {
                // It may tell of a change back: an answer that is under way may be of the time before that.
                entry.touched = tick;
            }
            None
        };
        if let Some(asked) = asked {
            self.settle(&key, asked);
        }
        if doubt {
            self.raise(key, tick, now, rival);
        }
        change
    }

    /// Takes in a list: what it shows, and the absence of what it does not show and `in_scope` says it should.
    pub(super) fn apply_list(
        &mut self,
        list: List<R>,
        kind: ListKind,
        in_scope: impl Fn(&R) -> bool,
        asked: u64,
        tick: u64,
        now: Instant,
    ) -> Vec<Change<R>> {
        self.tombstones.retain(|_, tombstone| tombstone.until > now);
        let mut missing: HashSet<R::Key> = self
            .entries
            .iter()
            .filter(|(key, entry)| {
                entry.touched <= asked
                    && in_scope(&entry.value)
                    && !list.has_unreadable(&R::key_text(key))
            })
            .map(|(key, _)| key.clone())
            .collect();
        if !list.is_complete() {
            missing.clear();
        }
        let mut changes = Vec::new();
        for record in list.items {
            let key = record.key();
            missing.remove(&key);
            let before = self.entries.get(&key);
            let is_late = before.is_some_and(|entry| entry.touched > asked)
                || self
                    .tombstones
                    .get(&key)
                    .is_some_and(|stone| stone.tick > asked);
            if is_late {
                continue;
            }
            let needs_details = {
                let before = before.map(|entry| entry.value.as_ref());
                let mut merged = record.clone();
                if let Some(before) = before {
                    merged.inherit(before);
                }
                merged.needs_details(before, kind)
            };
            changes.extend(self.put(&key, record, Some(asked), tick));
            if needs_details {
                self.raise(key, tick, now, None);
            }
        }
        for key in missing {
            changes.extend(self.remove(&key, tick, now, false));
        }
        changes
    }

    /// Takes in a deletion that an event told of.
    pub(super) fn deleted(&mut self, key: &R::Key, tick: u64, now: Instant) -> Option<Change<R>> {
        let change = self.remove(key, tick, now, true);
        if R::KEY_IS_REUSED && change.is_some() {
            // The event may be older than what we had: a new object of the same key.
            self.raise(key.clone(), tick, now, None);
        }
        change
    }

    /// Takes in that GARM answered "not found", or did a deletion of ours, asked for at this tick.
    pub(super) fn absent(
        &mut self,
        key: &R::Key,
        asked: u64,
        tick: u64,
        now: Instant,
    ) -> Option<Change<R>> {
        let was_touched = self
            .entries
            .get(key)
            .is_some_and(|entry| entry.touched > asked);
        self.settle(key, asked);
        let change = self.remove(key, tick, now, true);
        if was_touched {
            // Something was heard of it meanwhile.
            self.raise(key.clone(), tick, now, None);
        }
        change
    }

    /// When the next doubtful object is to be read.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Hands out a doubtful object to be read now. The reader must say when it is done.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<R::Key> {
        let (due, key) = self.queue.first().filter(|(due, _)| *due <= now)?.clone();
        self.queue.remove(&(due, key.clone()));
        if let Some(doubt) = self.doubts.get_mut(&key) {
            doubt.due = None;
        }
        Some(key)
    }

    /// Takes in that a read is done; what it did not settle is read again after `pause`.
    pub(super) fn done(&mut self, key: &R::Key, pause: Option<Duration>, now: Instant) {
        if let Some(doubt) = self.doubts.get_mut(key)
            && doubt.due.is_none()
        {
            let due = now + pause.unwrap_or(self.delay);
            doubt.due = Some(due);
            self.queue.insert((due, key.clone()));
        }
    }

    /// Takes in that reads under way will never be done.
    pub(super) fn restart(&mut self, now: Instant) {
        let lost: Vec<R::Key> = self
            .doubts
            .iter()
            .filter(|(_, doubt)| doubt.due.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        for key in lost {
            self.done(&key, None, now);
        }
    }

    /// Puts a record in. One that says what is known only confirms it as of when it was asked for, if it was.
    fn put(
        &mut self,
        key: &R::Key,
        mut record: R,
        asked: Option<u64>,
        tick: u64,
    ) -> Option<Change<R>> {
        let before = match self.entries.get_mut(key) {
            Some(entry) => {
                record.inherit(&entry.value);
                if *entry.value == record {
                    entry.touched = entry.touched.max(asked.unwrap_or_default());
                    return None;
                }
                Some(Arc::clone(&entry.value))
            }
            None => None,
        };
        self.tombstones.remove(key);
        let value = Arc::new(record);
        let entry = Entry {
            value: Arc::clone(&value),
            touched: tick,
        };
        self.entries.insert(key.clone(), entry);
        Some(Change {
            before,
            after: Some(value),
        })
    }

    fn remove(&mut self, key: &R::Key, tick: u64, now: Instant, told: bool) -> Option<Change<R>> {
        let until = now + self.tombstone;
        self.tombstones
            .insert(key.clone(), Tombstone { tick, until, told });
        self.drop_doubt(key);
        let entry = self.entries.remove(key)?;
        Some(Change {
            before: Some(entry.value),
            after: None,
        })
    }

    fn raise(&mut self, key: R::Key, tick: u64, now: Instant, rival: Option<R>) {
        if let Some(doubt) = self.doubts.get_mut(&key) {
            doubt.tick = tick;
            if doubt.rival != rival {
                doubt.rival = None;
            }
            return;
        }
        let due = now + self.delay;
        let doubt = Doubt {
            tick,
            due: Some(due),
            rival,
        };
        self.doubts.insert(key.clone(), doubt);
        self.queue.insert((due, key));
    }

    /// Ends a doubt that an answer settles: one asked for later, or one that says what the doubt said.
    fn settle(&mut self, key: &R::Key, asked: u64) {
        let Some(doubt) = self.doubts.get(key) else {
            return;
        };
        let agrees = match (&doubt.rival, self.entries.get(key)) {
            (Some(rival), Some(entry)) => *rival == *entry.value,
            _ => false,
        };
        if doubt.tick <= asked || agrees {
            self.drop_doubt(key);
        }
    }

    fn drop_doubt(&mut self, key: &R::Key) {
        if let Some(doubt) = self.doubts.remove(key)
            && let Some(due) = doubt.due
        {
            self.queue.remove(&(due, key.clone()));
        }
    }
}

/// Says whether a payload is taken, and whether the object has to be read.
fn verdict<R: Record>(entry: &Entry<R>, record: &R, source: Source) -> (bool, bool) {
    if let Source::Read(asked) | Source::Write(asked) = source
        && entry.touched <= asked
    {
        return (true, false);
    }
    match (entry.value.updated_at(), record.updated_at()) {
        (Some(ours), Some(theirs)) => (theirs >= ours, false),
        (None, Some(_)) => (true, false),
        (_, None) => {
            let mut merged = record.clone();
            merged.inherit(&entry.value);
            let differs = merged != *entry.value;
            // Our own write is the better guess until the read.
            (differs && matches!(source, Source::Write(_)), differs)
        }
    }
}
