//! Objects of one kind in memory, and what a change of one means; without a watch and without a clock.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use kube::{Resource, core::ObjectMeta};
use serde::{Serialize, de::DeserializeOwned};

use super::guard::{Guarded, Invalid, LAST_APPLIED};
use crate::runtime::ObjectKey;

/// An object as it is stored.
#[derive(Debug)]
pub enum Stored<K> {
    /// The object.
    Valid(Arc<K>),
    /// What is left of an object that does not decode.
    Invalid(Arc<Invalid>),
}

impl<K> Clone for Stored<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Valid(object) => Self::Valid(Arc::clone(object)),
            Self::Invalid(invalid) => Self::Invalid(Arc::clone(invalid)),
        }
    }
}

impl<K: Resource> Stored<K> {
    /// Gives the metadata, which every stored object has.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Valid(object) => object.meta(),
            Self::Invalid(invalid) => &invalid.metadata,
        }
    }

    /// Gives the object if it decodes.
    pub fn valid(&self) -> Option<&Arc<K>> {
        match self {
            Self::Valid(object) => Some(object),
            Self::Invalid(_) => None,
        }
    }
}

/// Says that an object came, changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubEvent {
    /// The object.
    pub key: ObjectKey,
    /// The change asks for work: new or gone, another generation, finalizers, deletion or annotations of ours. A
    /// change of the status alone does not. Kinds without a generation (Secrets) trigger on every change.
    pub trigger: bool,
    /// The object no longer exists.
    pub gone: bool,
}

impl HubEvent {
    fn gone(key: ObjectKey) -> Self {
        Self {
            key,
            trigger: true,
            gone: true,
        }
    }
}

/// How the objects of a kind are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decoded, and shared with all readers.
    Decoded,
    /// As JSON, decoded anew for each reader: a third of the memory, for kinds with many objects of which few are read at a time.
    Text,
}

/// An object as it lies in memory.
enum Kept<K> {
    Decoded(Arc<K>),
    Text(Box<str>),
    Invalid(Arc<Invalid>),
}

impl<K: Resource + Serialize + DeserializeOwned> Kept<K> {
    fn new(stored: Stored<K>, form: Form) -> Self {
        match stored {
            Stored::Valid(object) if form == Form::Text => match serde_json::to_string(&*object) {
                Ok(text) => Self::Text(text.into_boxed_str()),
                Err(_) => Self::Decoded(object),
            },
            Stored::Valid(object) => Self::Decoded(object),
            Stored::Invalid(invalid) => Self::Invalid(invalid),
        }
    }

    fn read(&self, key: &ObjectKey) -> Stored<K> {
        match self {
            Self::Decoded(object) => Stored::Valid(Arc::clone(object)),
            Self::Invalid(invalid) => Stored::Invalid(Arc::clone(invalid)),
            Self::Text(text) => match serde_json::from_str(text) {
                Ok(object) => Stored::Valid(Arc::new(object)),
                // A kind that does not read what it wrote.
                Err(error) => Stored::Invalid(Arc::new(Invalid {
                    metadata: ObjectMeta {
                        namespace: Some(key.namespace.clone()),
                        name: Some(key.name.clone()),
                        ..ObjectMeta::default()
                    },
                    id: None,
                    error: error.to_string(),
                })),
            },
        }
    }
}

/// All objects of one kind, by namespace and name.
pub(super) struct Store<K> {
    objects: BTreeMap<Arc<ObjectKey>, Kept<K>>,
    form: Form,
    /// Annotations with this prefix trigger, but for those in `silent`.
    prefix: String,
    silent: Vec<String>,
    /// Values under which an object is found besides its name.
    index: Index<K>,
    indexed: HashMap<Box<str>, Keys>,
    /// Objects that stand as an answer showed them, until the watch has caught up with it.
    offered: HashSet<Arc<ObjectKey>>,
}

/// Gives the values under which an object is found: an id, or what it refers to.
pub type Index<K> = fn(&K) -> Vec<String>;

/// The objects under one value of an index: most often one, for which a set would take ten times the room.
enum Keys {
    One(Arc<ObjectKey>),
    Many(BTreeSet<Arc<ObjectKey>>),
}

impl Keys {
    fn add(&mut self, key: &Arc<ObjectKey>) {
        match self {
            Self::One(one) if one == key => {}
            Self::One(one) => *self = Self::Many([Arc::clone(one), Arc::clone(key)].into()),
            Self::Many(keys) => {
                keys.insert(Arc::clone(key));
            }
        }
    }

    /// Removes a key and tells whether none is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(one) => **one == *key,
            Self::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<ObjectKey>> {
        let (one, many) = match self {
            Self::One(one) => (Some(one), None),
            Self::Many(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl<K: Resource + Serialize + DeserializeOwned> Store<K> {
    /// Makes an empty store in which changes of annotations below `prefix`, except `silent` ones, trigger.
    pub(super) fn new(prefix: &str, silent: &[&str], index: Index<K>, form: Form) -> Self {
        Self {
            objects: BTreeMap::new(),
            form,
            prefix: prefix.to_owned(),
            silent: silent.iter().map(|&name| name.to_owned()).collect(),
            index,
            indexed: HashMap::new(),
            offered: HashSet::new(),
        }
    }

    /// Goes through the objects with this index value that decode, in the order of their keys.
    pub(super) fn by(&self, value: &str) -> impl Iterator<Item = Arc<K>> {
        self.keys_by(value)
            .filter_map(|key| self.get(key)?.valid().cloned())
    }

    /// Goes through the keys of the objects with this index value, in order.
    pub(super) fn keys_by(&self, value: &str) -> impl Iterator<Item = &ObjectKey> {
        let keys = self.indexed.get(value).into_iter();
        keys.flat_map(Keys::iter).map(|key| &**key)
    }

    /// Stores what one of our own writes was answered with, so that nobody decides on the object as it was before. Only an object that is
    /// still there takes it, and only if it is newer; the watch brings the same version later, and what it brings is what stays.
    ///
    /// The answer may also show, for the first and only time, what somebody else wrote just before: a deletion, or an annotation of ours.
    /// That asks for work as if the watch had told it.
    pub(super) fn offer(&mut self, mut object: K) -> Option<HubEvent> {
        prune(object.meta_mut());
        let key = ObjectKey::of(object.meta());
        let old = self.get(&key)?;
        // An object that goes with its last finalizer keeps its version until the watch tells of its end.
        let count = |meta: &ObjectMeta| meta.finalizers.iter().flatten().count();
        let lost_finalizer = count(object.meta()) < count(old.meta());
        let newer = version(object.meta()) > version(old.meta())
            || (lost_finalizer && version(object.meta()) == version(old.meta()));
        if old.meta().uid != object.meta().uid || !newer {
            return None;
        }
        let (before, after) = (old.meta(), object.meta());
        let event = HubEvent {
            trigger: before.deletion_timestamp.is_some() != after.deletion_timestamp.is_some()
                || !self.ours(before).eq(self.ours(after)),
            gone: false,
            key: key.clone(),
        };
        let key = self.insert(key, Some(&old), Stored::Valid(Arc::new(object)));
        self.offered.insert(key);
        Some(event)
    }

    /// Puts an object in the place of the one that is there.
    fn insert(
        &mut self,
        key: ObjectKey,
        old: Option<&Stored<K>>,
        stored: Stored<K>,
    ) -> Arc<ObjectKey> {
        self.unindex(&key, old);
        self.offered.remove(&key);
        let known = self.objects.get_key_value(&key);
        let key = known.map_or_else(|| Arc::new(key), |(known, _)| Arc::clone(known));
        if let Some(object) = stored.valid() {
            for value in (self.index)(object) {
                self.indexed
                    .entry(value.into_boxed_str())
                    .and_modify(|keys| keys.add(&key))
                    .or_insert_with(|| Keys::One(Arc::clone(&key)));
            }
        }
        let kept = Kept::new(stored, self.form);
        self.objects.insert(Arc::clone(&key), kept);
        key
    }

    fn unindex(&mut self, key: &ObjectKey, old: Option<&Stored<K>>) {
        let Some(old) = old.and_then(Stored::valid) else {
            return;
        };
        for value in (self.index)(old) {
            if let Some(keys) = self.indexed.get_mut(value.as_str())
                && keys.remove(key)
            {
                self.indexed.remove(value.as_str());
            }
        }
    }

    /// Finds an object.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Stored<K>> {
        self.objects.get(key).map(|kept| kept.read(key))
    }

    /// Goes through the objects of a namespace by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = Stored<K>> {
        let first = ObjectKey::new(namespace, "");
        let from = self.objects.range::<ObjectKey, _>(first..);
        from.take_while(move |(key, _)| key.namespace == namespace)
            .map(|(key, kept)| kept.read(key))
    }

    /// Goes through all objects; those of one namespace together and by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = Stored<K>> {
        self.objects.iter().map(|(key, kept)| kept.read(key))
    }

    /// Goes through the keys of all objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys().map(|key| &**key)
    }

    /// Counts the objects: all, and those that do not decode.
    pub(super) fn count(&self) -> (usize, usize) {
        let kept = self.objects.values();
        let invalid = kept.filter(|kept| matches!(kept, Kept::Invalid(_))).count();
        (self.objects.len(), invalid)
    }

    /// Stores an object. `None` when it is stored already, which a new list shows of most objects.
    pub(super) fn put(&mut self, object: Guarded<K>) -> Option<HubEvent> {
        let stored = match object.0 {
            Ok(object) => Stored::Valid(Arc::new(object)),
            Err(invalid) => Stored::Invalid(Arc::from(invalid)),
        };
        let key = ObjectKey::of(stored.meta());
        let old = self.get(&key);
        let trigger = match &old {
            None => true,
            // Older than the answer to our own write that is stored.
            Some(old)
                if self.offered.contains(&key)
                    && old.meta().uid == stored.meta().uid
                    && version(stored.meta()) < version(old.meta()) =>
            {
                return None;
            }
            // An answer shows metadata only, so that the watch's word of the same version replaces it.
            Some(old) if unchanged(old.meta(), stored.meta()) && !self.offered.contains(&key) => {
                return None;
            }
            Some(old) => self.triggers(old, &stored),
        };
        self.insert(key.clone(), old.as_ref(), stored);
        Some(HubEvent {
            key,
            trigger,
            gone: false,
        })
    }

    /// Removes an object. `None` when it is not there.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<HubEvent> {
        let old = self.get(key)?;
        self.unindex(key, Some(&old));
        self.offered.remove(key);
        self.objects.remove(key);
        Some(HubEvent::gone(key.clone()))
    }

    /// Ends a complete list of `namespace` (of all for `None`): what it did not show is gone.
    pub(super) fn keep_only(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<ObjectKey>,
    ) -> Vec<HubEvent> {
        let vanished: Vec<ObjectKey> = self
            .keys()
            .filter(|key| namespace.is_none_or(|namespace| namespace == key.namespace))
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        vanished.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn triggers(&self, old: &Stored<K>, new: &Stored<K>) -> bool {
        let decodes_otherwise = match (old, new) {
            (Stored::Valid(_), Stored::Valid(_)) => false,
            (Stored::Invalid(old), Stored::Invalid(new)) => old.error != new.error,
            _ => true,
        };
        let (old, new) = (old.meta(), new.meta());
        let other_content = match (old.generation, new.generation) {
            (Some(old), Some(new)) => old != new,
            // Without a generation there is no telling what changed.
            _ => true,
        };
        decodes_otherwise
            || other_content
            || old.uid != new.uid
            || old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
            || old.finalizers != new.finalizers
            || !self.ours(old).eq(self.ours(new))
    }

    fn ours<'a>(&'a self, meta: &'a ObjectMeta) -> impl Iterator<Item = (&'a String, &'a String)> {
        meta.annotations
            .iter()
            .flatten()
            .filter(|(name, _)| name.starts_with(&self.prefix) && !self.silent.contains(name))
    }
}

/// Drops from an answer what the watch drops before it decodes.
fn prune(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

/// Says whether two readings show the same version of the same object.
fn unchanged(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.resource_version.is_some()
        && old.resource_version == new.resource_version
        && old.uid == new.uid
}

/// Reads a resource version as the number that it is in every API server on etcd; the API promises order for our kinds since 1.35.
fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
