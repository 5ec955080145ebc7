//! The mirror: an in-memory copy of what GARM has.
//!
//! It is a state machine without I/O and without a clock. Lists, events and answers go in, in any order and as late as
//! they like; what changed comes out, and which objects have to be read because their payloads do not say how old they
//! are. Its rules:
//!
//! - a list never changes or removes what was touched after it was requested, and never clears what lists omit;
//! - a payload with a time of change is taken when it is not older; one without is taken when it cannot be older,
//!   and otherwise, if it differs, the object is read;
//! - what was deleted stays away until an answer that was asked for later shows it;
//! - only a complete list, or "not found", is absence.

mod places;
mod records;
mod state;
mod table;

#[cfg(test)]
mod model_test;
#[cfg(test)]
mod stale_test;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::settings::Timings;
use super::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Instance, List, Pool};
pub(super) use places::Mirrored;
pub use state::{Collection, CollectionState};
use table::{Change, ListKind, Record, Source, Table};

/// Something in GARM, or about it, changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Changed {
    /// What GARM says about itself.
    Controller,
    /// The endpoint of this name.
    Endpoint(String),
    /// The credentials of this number, or who uses them.
    Credential(i64),
    /// The entity of this id.
    Entity(EntityKind, String),
    /// The pool of this id.
    Pool(String),
    /// An instance; a mere sign of life is not a change.
    Instance {
        /// Its name.
        name: String,
        /// Id of its pool; empty for a scale set's.
        pool_id: String,
    },
    /// Whether GARM can be worked with.
    Availability,
    /// A complete list was taken in. What it changed was told before, one by one.
    Resynced(Collection),
    /// All that objects decide by is listed for the first time since GARM came back, or is another one; instances apart, which may take long.
    Listed,
}

/// An object that has to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Controller,
    Endpoint(String),
    Credential(i64),
    Entity(EntityKind, String),
    Pool(String),
    Instance(String),
}

/// Remembers when a request was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    tick: u64,
    epoch: u64,
    sent: Instant,
}

/// How often a standing pool manager is looked at.
struct ManagerWatch {
    since: Instant,
    next: Instant,
}

/// Keys by what they belong to.
struct Index<O, K>(HashMap<O, BTreeSet<K>>);

impl<O: Eq + Hash, K: Ord> Index<O, K> {
    fn insert(&mut self, owner: O, key: K) {
        self.0.entry(owner).or_default().insert(key);
    }

    fn remove(&mut self, owner: &O, key: &K) {
        if let Some(keys) = self.0.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    fn of(&self, owner: &O) -> impl Iterator<Item = &K> {
        self.0.get(owner).into_iter().flatten()
    }
}

/// The copy.
pub(super) struct Mirror {
    manager_watch: (Duration, Duration, Duration),
    tick: u64,
    epoch: u64,
    controller: Table<Controller>,
    endpoints: Table<Endpoint>,
    credentials: Table<Credential>,
    entities: Table<Entity>,
    pools: Table<Pool>,
    instances: Table<Instance>,
    entities_of: Index<i64, (EntityKind, String)>,
    pools_of: Index<(EntityKind, String), String>,
    pools_by_prefix: Index<String, String>,
    instances_of: Index<String, String>,
    complete: HashMap<Collection, Instant>,
    /// How many objects of the last whole list could not be read.
    unreadable: HashMap<Collection, usize>,
    standing: HashMap<(EntityKind, String), ManagerWatch>,
}

impl Mirror {
    pub(super) fn new(timings: &Timings) -> Self {
        fn table<R: Record>(timings: &Timings) -> Table<R> {
            Table::new(timings.tombstone, timings.reread_delay)
        }
        Self {
            manager_watch: timings.manager_watch,
            tick: 0,
            epoch: 0,
            controller: table(timings),
            endpoints: table(timings),
            credentials: table(timings),
            entities: table(timings),
            pools: table(timings),
            instances: table(timings),
            entities_of: Index(HashMap::new()),
            pools_of: Index(HashMap::new()),
            pools_by_prefix: Index(HashMap::new()),
            instances_of: Index(HashMap::new()),
            complete: HashMap::new(),
            unreadable: HashMap::new(),
            standing: HashMap::new(),
        }
    }

    // === reads

    pub(super) fn get<R: Mirrored>(&self, key: &R::Key) -> Option<Arc<R>> {
        R::table(self).get(key).cloned()
    }

    /// Whether GARM said lately of this very object that it is gone: by an event, or as an answer.
    pub(super) fn was_told_gone<R: Mirrored>(&self, key: &R::Key) -> bool {
        R::table(self).was_told_gone(key)
    }

    pub(super) fn all<R: Mirrored>(&self) -> Vec<Arc<R>> {
        R::table(self).values().cloned().collect()
    }

    pub(super) fn entities_using(&self, credential: i64) -> Vec<Arc<Entity>> {
        let keys = self.entities_of.of(&credential);
        keys.filter_map(|key| self.entities.get(key).cloned())
            .collect()
    }

    pub(super) fn pools_of(&self, kind: EntityKind, id: &str) -> Vec<Arc<Pool>> {
        let owner = (kind, id.to_owned());
        let keys = self.pools_of.of(&owner);
        keys.filter_map(|key| self.pools.get(key).cloned())
            .collect()
    }

    pub(super) fn pools_by_prefix(&self, prefix: &str) -> Vec<Arc<Pool>> {
        let prefix = prefix.to_owned();
        let keys = self.pools_by_prefix.of(&prefix);
        keys.filter_map(|key| self.pools.get(key).cloned())
            .collect()
    }

    pub(super) fn instances_of(&self, pool_id: &str) -> Vec<Arc<Instance>> {
        let owner = pool_id.to_owned();
        let keys = self.instances_of.of(&owner);
        keys.filter_map(|key| self.instances.get(key).cloned())
            .collect()
    }

    /// When the request for the last complete list was sent, if one was taken in since GARM became ready.
    pub(super) fn complete(&self, collection: Collection) -> Option<Instant> {
        self.complete.get(&collection).copied()
    }

    // === what comes in

    /// Marks that a request is sent now.
    pub(super) fn ticket(&mut self, now: Instant) -> Ticket {
        Ticket {
            tick: self.next_tick(),
            epoch: self.epoch,
            sent: now,
        }
    }

    /// Begins anew with proving absence: GARM was away, or is another one.
    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.complete.clear();
    }

    /// Begins anew after GARM was away: reads that were under way are lost.
    pub(super) fn restart(&mut self, now: Instant) {
        self.begin_epoch();
        self.controller.restart(now);
        self.endpoints.restart(now);
        self.credentials.restart(now);
        self.entities.restart(now);
        self.pools.restart(now);
        self.instances.restart(now);
    }

    /// Takes in the payload of an event.
    pub(super) fn heard<R: Mirrored>(&mut self, record: R, now: Instant) -> Vec<Changed> {
        self.apply(record, Source::Frame, now)
    }

    /// Takes in the answer to a read.
    pub(super) fn read<R: Mirrored>(
        &mut self,
        record: R,
        ticket: Ticket,
        now: Instant,
    ) -> Vec<Changed> {
        self.apply(record, Source::Read(ticket.tick), now)
    }

    /// Takes in the answer to a write of ours.
    pub(super) fn written<R: Mirrored>(
        &mut self,
        record: R,
        ticket: Ticket,
        now: Instant,
    ) -> Vec<Changed> {
        self.apply(record, Source::Write(ticket.tick), now)
    }

    /// Takes in a list of a whole collection. One that was requested before GARM went away says nothing of today.
    pub(super) fn listed<R: Mirrored>(
        &mut self,
        collection: Collection,
        list: List<R>,
        ticket: Ticket,
        in_scope: impl Fn(&R) -> bool,
        now: Instant,
    ) -> Vec<Changed> {
        if ticket.epoch != self.epoch {
            return Vec::new();
        }
        let kind = match self.complete(collection) {
            None => ListKind::First,
            Some(_) => ListKind::Again,
        };
        let is_complete = list.is_complete();
        self.unreadable.insert(collection, list.unreadable.len());
        let mut out = self.apply_list(list, kind, ticket, in_scope, now);
        if is_complete {
            let sent = self.complete.entry(collection).or_insert(ticket.sent);
            *sent = ticket.sent.max(*sent);
            out.push(Changed::Resynced(collection));
            if kind == ListKind::First && collection != Collection::Instances && self.is_listed() {
                out.push(Changed::Listed);
            }
        }
        out
    }

    fn is_listed(&self) -> bool {
        let mut all = Collection::all().filter(|one| *one != Collection::Instances);
        all.all(|collection| self.complete(collection).is_some())
    }

    /// Takes in a list of a part of a collection.
    pub(super) fn listed_part<R: Mirrored>(
        &mut self,
        list: List<R>,
        ticket: Ticket,
        in_scope: impl Fn(&R) -> bool,
        now: Instant,
    ) -> Vec<Changed> {
        self.apply_list(list, ListKind::Part, ticket, in_scope, now)
    }

    /// Takes in a deletion that an event told of.
    pub(super) fn deleted<R: Mirrored>(&mut self, key: &R::Key, now: Instant) -> Vec<Changed> {
        let tick = self.next_tick();
        let change = R::table_mut(self).deleted(key, tick, now);
        self.note(change, now)
    }

    /// Takes in that GARM answered "not found", or did a deletion of ours.
    pub(super) fn absent<R: Mirrored>(
        &mut self,
        key: &R::Key,
        ticket: Ticket,
        now: Instant,
    ) -> Vec<Changed> {
        let tick = self.next_tick();
        let change = R::table_mut(self).absent(key, ticket.tick, tick, now);
        self.note(change, now)
    }

    // === what has to be read

    /// When there is something to read next.
    pub(super) fn next_read(&self) -> Option<Instant> {
        let managers = self.standing.values().map(|watch| watch.next).min();
        [
            self.controller.next_due(),
            self.endpoints.next_due(),
            self.credentials.next_due(),
            self.entities.next_due(),
            self.pools.next_due(),
            self.instances.next_due(),
            managers,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Hands out something to read now; the reader says when it is [`done`](Self::done).
    pub(super) fn take_read(&mut self, now: Instant) -> Option<Subject> {
        if self.controller.take_due(now).is_some() {
            return Some(Subject::Controller);
        }
        if let Some(name) = self.endpoints.take_due(now) {
            return Some(Subject::Endpoint(name));
        }
        if let Some(id) = self.credentials.take_due(now) {
            return Some(Subject::Credential(id));
        }
        if let Some((kind, id)) = self
            .entities
            .take_due(now)
            .or_else(|| self.take_standing(now))
        {
            return Some(Subject::Entity(kind, id));
        }
        if let Some(id) = self.pools.take_due(now) {
            return Some(Subject::Pool(id));
        }
        self.instances.take_due(now).map(Subject::Instance)
    }

    /// Takes in that a read is done; one that failed is tried again after `pause`.
    pub(super) fn done(&mut self, subject: &Subject, pause: Option<Duration>, now: Instant) {
        match subject {
            Subject::Controller => self.controller.done(&(), pause, now),
            Subject::Endpoint(name) => self.endpoints.done(name, pause, now),
            Subject::Credential(id) => self.credentials.done(id, pause, now),
            Subject::Entity(kind, id) => self.entities.done(&(*kind, id.clone()), pause, now),
            Subject::Pool(id) => self.pools.done(id, pause, now),
            Subject::Instance(name) => self.instances.done(name, pause, now),
        }
    }

    /// Hands out an entity whose manager stands still: often at first, then now and then.
    fn take_standing(&mut self, now: Instant) -> Option<(EntityKind, String)> {
        let (often, at_first, then) = self.manager_watch;
        let (key, watch) = self
            .standing
            .iter_mut()
            .find(|(_, watch)| watch.next <= now)?;
        let pause = if now < watch.since + at_first {
            often
        } else {
            then
        };
        watch.next = now + pause;
        Some(key.clone())
    }

    // === inside

    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    fn apply<R: Mirrored>(&mut self, record: R, source: Source, now: Instant) -> Vec<Changed> {
        let tick = self.next_tick();
        let change = R::table_mut(self).apply(record, source, tick, now);
        self.note(change, now)
    }

    fn apply_list<R: Mirrored>(
        &mut self,
        list: List<R>,
        kind: ListKind,
        ticket: Ticket,
        in_scope: impl Fn(&R) -> bool,
        now: Instant,
    ) -> Vec<Changed> {
        let tick = self.next_tick();
        let changes = R::table_mut(self).apply_list(list, kind, in_scope, ticket.tick, tick, now);
        self.note(changes, now)
    }

    fn note<R: Mirrored>(
        &mut self,
        changes: impl IntoIterator<Item = Change<R>>,
        now: Instant,
    ) -> Vec<Changed> {
        let mut out = Vec::new();
        for change in changes {
            R::note(self, &change, now, &mut out);
        }
        out
    }
}
