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
mod tests {
    use k8s_openapi::{
        api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
    };

    use super::*;

    fn store() -> Store<Lease> {
        Store::new(
            "our.group/",
            &["our.group/last-sync-time"],
            by_holder,
            Form::Decoded,
        )
    }

    fn lease(namespace: &str, name: &str, version: u32) -> Lease {
        Lease {
            metadata: ObjectMeta {
                namespace: Some(namespace.into()),
                name: Some(name.into()),
                uid: Some(format!("{namespace}-{name}")),
                resource_version: Some(version.to_string()),
                generation: Some(1),
                ..ObjectMeta::default()
            },
            spec: None,
        }
    }

    fn by_holder(lease: &Lease) -> Vec<String> {
        lease
            .spec
            .iter()
            .filter_map(|spec| spec.holder_identity.clone())
            .collect()
    }

    fn held(name: &str, version: u32, holder: &str) -> Lease {
        let mut lease = lease("ns", name, version);
        lease.spec.get_or_insert_default().holder_identity = Some(holder.into());
        lease
    }

    fn names(found: impl Iterator<Item = Arc<Lease>>) -> Vec<String> {
        found
            .filter_map(|lease| lease.metadata.name.clone())
            .collect()
    }

    #[test]
    fn finds_objects_by_index_through_every_change() {
        let mut store = store();
        store.put(Guarded(Ok(held("a", 1, "x"))));
        store.put(Guarded(Ok(held("b", 2, "x"))));
        assert_eq!(names(store.by("x")), ["a", "b"]);
        store.put(Guarded(Ok(held("a", 3, "y"))));
        assert_eq!(
            (names(store.by("x")), names(store.by("y"))),
            (vec!["b".to_owned()], vec!["a".to_owned()])
        );
        store.remove(&ObjectKey::new("ns", "b"));
        store.keep_only(None, &HashSet::new());
        assert_eq!(store.by("x").chain(store.by("y")).count(), 0);
        assert!(store.indexed.is_empty(), "nothing is left behind");
    }

    #[test]
    fn an_offered_version_holds_until_the_watch_has_caught_up() {
        let mut store = store();
        assert_eq!(
            store.offer(held("a", 5, "early")),
            None,
            "it is not there, or not there any more"
        );
        store.put(Guarded(Ok(held("a", 1, "old"))));
        assert_eq!(
            store.offer(held("a", 5, "ours")),
            Some(event("a", false, false))
        );
        assert_eq!(store.put(Guarded(Ok(held("a", 3, "late")))), None);
        assert_eq!(names(store.by("ours")), ["a"]);
        assert_eq!(store.offer(held("a", 4, "older")), None);
        store.put(Guarded(Ok(held("a", 6, "newer"))));
        assert_eq!(
            (names(store.by("newer")), names(store.by("ours"))),
            (vec!["a".to_owned()], vec![])
        );
    }

    #[test]
    fn a_finalizer_that_went_stays_away_though_the_version_is_the_same() {
        let mut store = store();
        let mut object = held("a", 5, "x");
        object.meta_mut().finalizers = Some(vec!["f".to_owned()]);
        store.put(Guarded(Ok(object.clone())));
        object.meta_mut().finalizers = None;
        assert!(store.offer(object.clone()).is_some());
        let stored = store.get(&ObjectKey::of(object.meta())).unwrap();
        assert_eq!(stored.meta().finalizers, None);
        assert_eq!(store.offer(object), None, "nothing more went");
    }

    #[test]
    fn the_watch_has_the_last_word_on_an_offered_version() {
        let mut store = store();
        store.put(Guarded(Ok(held("a", 1, "old"))));
        store.offer(held("a", 3, "guess"));
        assert_eq!(
            store.put(Guarded(Ok(held("a", 3, "stored")))),
            Some(event("a", false, false))
        );
        assert_eq!(names(store.by("stored")), ["a"]);
        assert_eq!(store.by("guess").count(), 0);
        assert_eq!(store.put(Guarded(Ok(held("a", 3, "stored")))), None);
        assert!(
            store.put(Guarded(Ok(held("a", 2, "restored")))).is_some(),
            "versions fall when etcd comes back from a backup"
        );
        assert!(store.offered.is_empty());
    }

    #[test]
    fn an_answer_that_shows_what_others_wrote_asks_for_work() {
        let annotated = |version, name: &str| {
            let mut lease = held("a", version, "x");
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(name.to_owned(), "1".to_owned());
            lease
        };
        let mut store = store();
        store.put(Guarded(Ok(held("a", 1, "x"))));
        assert_eq!(
            store.offer(annotated(2, "our.group/last-sync-time")),
            Some(event("a", false, false))
        );
        assert_eq!(
            store.offer(annotated(3, "our.group/paused")),
            Some(event("a", true, false))
        );
        let mut terminating = annotated(4, "our.group/paused");
        terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(store.offer(terminating), Some(event("a", true, false)));
    }

    #[test]
    fn an_answer_is_kept_without_what_nobody_reads() {
        let mut store = store();
        store.put(Guarded(Ok(held("a", 1, "x"))));
        let mut answer = held("a", 2, "x");
        answer.metadata.managed_fields = Some(Vec::new());
        let annotations = answer.metadata.annotations.get_or_insert_default();
        annotations.insert(LAST_APPLIED.to_owned(), "{}".to_owned());
        store.offer(answer);
        let meta = store.by("x").next().unwrap().metadata.clone();
        assert_eq!(meta.managed_fields, None);
        assert!(meta.annotations.unwrap().is_empty());
    }

    fn event(name: &str, trigger: bool, gone: bool) -> HubEvent {
        HubEvent {
            key: ObjectKey::new("ns", name),
            trigger,
            gone,
        }
    }

    fn put(
        store: &mut Store<Lease>,
        version: u32,
        change: impl FnOnce(&mut ObjectMeta),
    ) -> Option<HubEvent> {
        let mut lease = lease("ns", "a", version);
        change(&mut lease.metadata);
        store.put(Guarded(Ok(lease)))
    }

    #[test]
    fn tells_work_from_our_own_status_writes() {
        let mut store = store();
        let annotate = |meta: &mut ObjectMeta, name: &str, value: &str| {
            meta.annotations
                .get_or_insert_default()
                .insert(name.into(), value.into());
        };
        assert_eq!(put(&mut store, 1, |_| {}), Some(event("a", true, false)));
        assert_eq!(put(&mut store, 1, |_| {}), None);
        assert_eq!(put(&mut store, 2, |_| {}), Some(event("a", false, false)));
        assert_eq!(
            put(&mut store, 3, |meta| meta.generation = Some(2)),
            Some(event("a", true, false))
        );
        let other = |meta: &mut ObjectMeta| {
            meta.generation = Some(2);
            meta.labels = Some([("team".into(), "x".into())].into());
            annotate(meta, "other/note", "1");
            annotate(meta, "our.group/last-sync-time", "now");
        };
        assert_eq!(put(&mut store, 4, other), Some(event("a", false, false)));
        let paused = |meta: &mut ObjectMeta| {
            meta.generation = Some(2);
            annotate(meta, "our.group/paused", "true");
        };
        assert_eq!(put(&mut store, 5, paused), Some(event("a", true, false)));
        let held = |meta: &mut ObjectMeta| {
            paused(meta);
            meta.finalizers = Some(vec!["our.group/pool".into()]);
        };
        assert_eq!(put(&mut store, 6, held), Some(event("a", true, false)));
        let terminating = |meta: &mut ObjectMeta| {
            held(meta);
            meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        };
        assert_eq!(
            put(&mut store, 7, terminating),
            Some(event("a", true, false))
        );
        let recreated = |meta: &mut ObjectMeta| {
            terminating(meta);
            meta.uid = Some("another".into());
        };
        assert_eq!(put(&mut store, 8, recreated), Some(event("a", true, false)));
    }

    #[test]
    fn every_change_of_a_kind_without_generation_triggers() {
        let mut store = store();
        put(&mut store, 1, |meta| meta.generation = None);
        assert_eq!(
            put(&mut store, 2, |meta| meta.generation = None),
            Some(event("a", true, false))
        );
    }

    #[test]
    fn an_object_that_stops_decoding_triggers_and_is_not_listed_as_valid() {
        let mut store = store();
        put(&mut store, 1, |_| {});
        let invalid = |version: u32, error: &str| {
            Guarded(Err(Box::new(Invalid {
                metadata: lease("ns", "a", version).metadata,
                id: None,
                error: error.into(),
            })))
        };
        assert_eq!(store.put(invalid(2, "bad")), Some(event("a", true, false)));
        assert_eq!(store.put(invalid(3, "bad")), Some(event("a", false, false)));
        assert_eq!(
            store.put(invalid(4, "worse")),
            Some(event("a", true, false))
        );
        assert!(
            store
                .get(&ObjectKey::new("ns", "a"))
                .unwrap()
                .valid()
                .is_none()
        );
        assert_eq!(put(&mut store, 5, |_| {}), Some(event("a", true, false)));
        assert_eq!(
            store
                .in_namespace("ns")
                .filter(|one| one.valid().is_some())
                .count(),
            1
        );
    }

    #[test]
    fn text_is_read_as_it_was_put() {
        let mut texts = Store::new("our.group/", &[], by_holder, Form::Text);
        texts.put(Guarded(Ok(held("a", 1, "x"))));
        texts.put(Guarded(Ok(held("b", 1, "x"))));
        let key = ObjectKey::new("ns", "a");
        assert!(matches!(texts.objects[&key], Kept::Text(_)));
        assert_eq!(
            texts
                .get(&key)
                .unwrap()
                .valid()
                .map(|lease| (**lease).clone()),
            Some(held("a", 1, "x"))
        );
        assert_eq!(names(texts.by("x")), ["a", "b"]);
        assert_eq!(texts.put(Guarded(Ok(held("a", 1, "x")))), None);
        assert!(texts.offer(held("a", 2, "y")).is_some());
        assert_eq!(names(texts.by("x")), ["b"]);
        texts.remove(&ObjectKey::new("ns", "b"));
        assert_eq!((texts.count(), texts.indexed.len()), ((1, 0), 1));
    }

    #[test]
    fn removes_once() {
        let mut store = store();
        put(&mut store, 1, |_| {});
        let key = ObjectKey::new("ns", "a");
        assert_eq!(store.remove(&key), Some(event("a", true, true)));
        assert_eq!(store.remove(&key), None);
        assert_eq!(store.iter().count(), 0);
    }

    #[test]
    fn a_complete_list_removes_what_it_does_not_show_in_its_namespace_only() {
        let mut store = store();
        for (namespace, name) in [("ns", "a"), ("ns", "b"), ("other", "a")] {
            store.put(Guarded(Ok(lease(namespace, name, 1))));
        }
        let listed = HashSet::from([ObjectKey::new("ns", "b")]);
        assert_eq!(
            store.keep_only(Some("ns"), &listed),
            [event("a", true, true)]
        );
        assert_eq!(store.iter().count(), 2);
        assert_eq!(store.keep_only(None, &listed).len(), 1);
        assert_eq!(store.iter().count(), 1);
    }
}
