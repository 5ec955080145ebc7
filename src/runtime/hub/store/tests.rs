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
