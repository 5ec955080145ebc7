//! What the mirror has to know of each kind of object.

use jiff::Timestamp;

use super::super::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Instance, Pool};
use super::table::{ListKind, Record};

impl Record for Controller {
    type Key = ();

    fn key(&self) -> Self::Key {}

    fn key_text((): &Self::Key) -> String {
        String::new()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        None
    }

    /// Events, and answers to a PUT, lack the host name.
    fn inherit(&mut self, older: &Self) {
        if self.hostname.is_empty() && self.controller_id == older.controller_id {
            self.hostname.clone_from(&older.hostname);
        }
    }
}

impl Record for Endpoint {
    /// Its name in lower case.
    type Key = String;

    const KEY_IS_REUSED: bool = true;

    fn key(&self) -> Self::Key {
        self.name.to_lowercase()
    }

    fn key_text(key: &Self::Key) -> String {
        key.clone()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }
}

impl Record for Credential {
    type Key = i64;

    const KEY_IS_REUSED: bool = true;

    fn key(&self) -> Self::Key {
        self.id
    }

    fn key_text(key: &Self::Key) -> String {
        key.to_string()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }
}

impl Record for Entity {
    type Key = (EntityKind, String);

    fn key(&self) -> Self::Key {
        (self.kind, self.id.clone())
    }

    fn key_text((_, id): &Self::Key) -> String {
        id.clone()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// Only a read by id carries events.
    fn inherit(&mut self, older: &Self) {
        if self.events.is_none() {
            self.events.clone_from(&older.events);
        }
    }
}

impl Record for Pool {
    type Key = String;

    fn key(&self) -> Self::Key {
        self.id.clone()
    }

    fn key_text(key: &Self::Key) -> String {
        key.clone()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// Lists lack `extra_specs`. What is known holds while GARM's marks of change stand still; v0.1.5 has none, and
    /// there it holds until it is read again.
    fn inherit(&mut self, older: &Self) {
        if self.extra_specs.is_some() {
            return;
        }
        let holds = match (self.generation, older.generation) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.updated_at == older.updated_at,
        };
        if holds {
            self.extra_specs.clone_from(&older.extra_specs);
        }
    }

    fn needs_details(&self, _before: Option<&Self>, list: ListKind) -> bool {
        let has_marks = self.generation.is_some() || self.updated_at.is_some();
        list != ListKind::Part && !has_marks && self.extra_specs.is_some()
    }
}

impl Record for Instance {
    /// Its name.
    type Key = String;

    fn key(&self) -> Self::Key {
        self.name.clone()
    }

    fn key_text(key: &Self::Key) -> String {
        key.clone()
    }

    fn updated_at(&self) -> Option<Timestamp> {
        self.updated_at
    }

    /// Lists lack addresses.
    fn inherit(&mut self, older: &Self) {
        if self.addresses.is_none() && self.id == older.id {
            self.addresses.clone_from(&older.addresses);
        }
    }

    /// An instance has its addresses once it runs. Of those that ran before we came, who wants them reads them.
    fn needs_details(&self, before: Option<&Self>, list: ListKind) -> bool {
        let ran_before = match before {
            Some(before) => before.status == self.status,
            None => list == ListKind::First,
        };
        self.addresses.is_none() && self.status == "running" && !ran_before
    }
}
