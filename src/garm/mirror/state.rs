//! What the mirror holds, as numbers.

use std::time::Instant;

use super::super::wire::EntityKind;
use super::Mirror;
use super::table::{Record, Table};

/// A kind of objects that GARM lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collection {
    /// GitHub endpoints.
    Endpoints,
    /// GitHub credentials.
    Credentials,
    /// Repositories, organizations or enterprises.
    Entities(EntityKind),
    /// Pools of all entities.
    Pools,
    /// Instances of all pools and scale sets.
    Instances,
}

impl Collection {
    /// Lists all of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let [repositories, organizations, enterprises] = EntityKind::ALL;
        [
            Self::Endpoints,
            Self::Credentials,
            Self::Entities(repositories),
            Self::Entities(organizations),
            Self::Entities(enterprises),
            Self::Pools,
            Self::Instances,
        ]
        .into_iter()
    }

    /// Names it as GARM's routes do.
    pub fn name(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoints",
            Self::Credentials => "credentials",
            Self::Entities(kind) => kind.path(),
            Self::Pools => "pools",
            Self::Instances => "instances",
        }
    }
}

/// One collection at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionState {
    /// Which one.
    pub collection: Collection,
    /// How many objects are known.
    pub objects: usize,
    /// How many are to be read, because nobody knows which of two states is the newer.
    pub doubtful: usize,
    /// How many objects of the last list could not be read.
    pub unreadable: usize,
    /// When the last complete list was requested, if there was one since GARM became ready.
    pub complete: Option<Instant>,
}

impl Mirror {
    /// Looks at one collection.
    pub(in crate::garm) fn state(&self, collection: Collection) -> CollectionState {
        let (objects, doubtful) = match collection {
            Collection::Endpoints => numbers(&self.endpoints, |_| true),
            Collection::Credentials => numbers(&self.credentials, |_| true),
            Collection::Entities(kind) => numbers(&self.entities, |(of, _)| *of == kind),
            Collection::Pools => numbers(&self.pools, |_| true),
            Collection::Instances => numbers(&self.instances, |_| true),
        };
        CollectionState {
            collection,
            objects,
            doubtful,
            unreadable: self
                .unreadable
                .get(&collection)
                .copied()
                .unwrap_or_default(),
            complete: self.complete(collection),
        }
    }
}

/// Counts the objects whose keys fit, and the doubtful ones among them.
fn numbers<R: Record>(table: &Table<R>, fits: impl Fn(&R::Key) -> bool) -> (usize, usize) {
    (table.count(&fits), table.count_doubts(&fits))
}
