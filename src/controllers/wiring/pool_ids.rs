//! What Pools stand for in GARM, and stood for when they were last seen: a store tells only what they are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::api::v1beta1::Pool;
use crate::domain::pool::adoption::wanted;
use crate::runtime::ObjectKey;

/// Ids of pools in GARM that have to do with an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolIds {
    /// The one that it has.
    pub(super) own: Option<String>,
    /// The one that it asks to take over.
    pub(super) wanted: Option<String>,
}

impl PoolIds {
    /// Reads what a Pool stands for.
    pub(super) fn of(pool: &Pool) -> Self {
        let own = pool.status.as_ref().map(|status| status.id.clone());
        Self {
            own: own.filter(|id| !id.is_empty()),
            wanted: wanted(&pool.metadata),
        }
    }
}

/// The ids by which Pools were last seen.
#[derive(Default)]
pub(super) struct KnownIds(Mutex<HashMap<ObjectKey, PoolIds>>);

impl KnownIds {
    /// Remembers what a Pool stands for; answers what it stood for before.
    pub(super) fn note(&self, key: &ObjectKey, ids: &PoolIds) -> PoolIds {
        // A panic while the lock was held leaves a map that is still whole.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if *ids == PoolIds::default() {
            known.remove(key)
        } else {
            known.insert(key.clone(), ids.clone())
        };
        before.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_remembered_by_its_ids_until_it_is_gone() {
        let known = KnownIds::default();
        let key = ObjectKey::new("ns", "a");
        let none = PoolIds::default();
        let ids = |id: &str| PoolIds {
            own: Some(id.to_owned()),
            wanted: None,
        };
        assert_eq!(known.note(&key, &none), none);
        assert_eq!(known.note(&key, &ids("1")), none);
        assert_eq!(known.note(&key, &ids("1")), ids("1"));
        assert_eq!(known.note(&key, &ids("2")), ids("1"));
        assert_eq!(known.note(&key, &none), ids("2"));
        assert!(known.0.lock().unwrap().is_empty(), "gone");
    }
}
