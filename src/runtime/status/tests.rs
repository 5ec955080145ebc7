use super::*;
use crate::runtime::testing::{FakeApi, Reply};

fn object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

fn diff(stored: Value, desired: Value) -> Option<Value> {
    difference(Some(&object(stored)), &object(desired), &Fields::new()).map(Value::Object)
}

fn ready(status: &str, time: &str) -> Value {
    json!([{"type": "Ready", "status": status, "reason": "R", "message": "", "lastTransitionTime": time}])
}

#[test]
fn sends_differing_fields_only() {
    let stored = json!({"id": "1", "count": 2, "list": [1, 2]});
    assert_eq!(diff(stored.clone(), stored.clone()), None);
    assert_eq!(
        diff(stored, json!({"id": "1", "count": 3, "list": [1, 2]})),
        Some(json!({"count": 3}))
    );
}

#[test]
fn sends_null_for_a_field_that_goes_away() {
    assert_eq!(
        diff(json!({"id": "1", "fault": "x"}), json!({"id": "1"})),
        Some(json!({"fault": null}))
    );
}

#[test]
fn sends_all_fields_the_first_time_even_empty_ones() {
    let desired = object(json!({"id": "", "count": 0, "selector": ""}));
    assert_eq!(difference(None, &desired, &Fields::new()), Some(desired));
}

#[test]
fn ignores_a_transition_time_that_moved_alone() {
    let stored = json!({"conditions": ready("True", "2026-01-01T00:00:00Z")});
    let later = json!({"conditions": ready("True", "2026-01-01T00:00:09Z")});
    assert_eq!(diff(stored.clone(), later), None);
    let changed = json!({"conditions": ready("False", "2026-01-01T00:00:09Z")});
    assert_eq!(diff(stored, changed.clone()), Some(changed));
}

#[test]
fn does_not_send_again_what_was_not_kept() {
    let desired = object(json!({"id": "1", "tags": ["a"], "runners": {"idle": 1}}));
    let stored = object(json!({"id": "1", "runners": {}}));
    let refused = not_kept(&desired, &stored);
    assert_eq!(
        refused,
        object(json!({"tags": ["a"], "runners": {"idle": 1}}))
    );
    assert_eq!(difference(Some(&stored), &desired, &refused), None);
    let other = object(json!({"id": "1", "tags": ["b"], "runners": {"idle": 1}}));
    assert_eq!(
        difference(Some(&stored), &other, &refused),
        Some(object(json!({"tags": ["b"]})))
    );
}

fn meta(version: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some("a".into()),
        namespace: Some("ns".into()),
        uid: Some("u".into()),
        resource_version: Some(version.into()),
        ..ObjectMeta::default()
    }
}

fn sent() -> Written {
    Written::Sent(Box::default())
}

type Kind = k8s_openapi::api::core::v1::ConfigMap;

fn api(fake: &FakeApi) -> Api<Kind> {
    Api::namespaced(fake.client(), "ns")
}

#[tokio::test]
async fn writes_once_while_the_cache_is_behind_and_carries_the_version_with_an_id() {
    let fake = FakeApi::new(|request| {
        Reply::json(&json!({"metadata": {}, "status": request.body["status"]}))
    });
    let writer = StatusWriter::new();
    let desired = json!({"id": "7", "conditions": ready("True", "2026-01-01T00:00:00Z")});
    let again = json!({"id": "7", "conditions": ready("True", "2026-01-01T00:00:05Z")});

    let none: Option<&Value> = None;
    let written = writer
        .write(&api(&fake), &meta("1"), none, &desired)
        .await
        .unwrap();
    assert_eq!(written, sent());
    // The cache still shows version 1, without a status.
    let written = writer
        .write(&api(&fake), &meta("1"), none, &again)
        .await
        .unwrap();
    assert_eq!(written, Written::Unchanged);

    let requests = fake.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method, "PATCH");
    assert_eq!(
        requests[0].path,
        "/api/v1/namespaces/ns/configmaps/a/status"
    );
    assert_eq!(
        requests[0].body["metadata"],
        json!({"resourceVersion": "1"})
    );

    // Another version: the cache counts again.
    let written = writer
        .write(&api(&fake), &meta("2"), Some(&json!({"id": "7"})), &again)
        .await;
    assert_eq!(written.unwrap(), sent());
    assert_eq!(fake.requests()[1].body.get("metadata"), None);
}

#[tokio::test]
async fn a_pruning_crd_gets_each_status_once() {
    let fake = FakeApi::new(|_| Reply::json(&json!({"metadata": {}, "status": {"id": "7"}})));
    let writer = StatusWriter::new();
    let cached = json!({"id": "7"});
    let desired = json!({"id": "7", "tags": ["a"]});
    for version in ["1", "2", "3"] {
        writer
            .write(&api(&fake), &meta(version), Some(&cached), &desired)
            .await
            .unwrap();
    }
    assert_eq!(fake.requests().len(), 1);
    let other = json!({"id": "7", "tags": ["b"]});
    assert_eq!(
        writer
            .write(&api(&fake), &meta("4"), Some(&cached), &other)
            .await
            .unwrap(),
        sent()
    );
    writer.forget("u");
    assert!(writer.lock().refused.is_empty());
}

#[tokio::test]
async fn sends_everything_when_the_schema_misses_a_field() {
    let fake = FakeApi::new(|request| {
        if request.body["status"].get("selector").is_none() {
            return Reply::status(422, "Invalid", "status.selector: Required value");
        }
        Reply::json(&json!({"metadata": {}, "status": request.body["status"]}))
    });
    let writer = StatusWriter::new();
    // As decoded, with the default for what is not stored.
    let cached = json!({"id": "7", "selector": "", "count": 1});
    let desired = json!({"id": "7", "selector": "", "count": 2});
    let written = writer
        .write(&api(&fake), &meta("1"), Some(&cached), &desired)
        .await;
    assert_eq!(written.unwrap(), sent());
    assert_eq!(fake.requests()[1].body["status"], desired);
}

#[tokio::test]
async fn hands_a_conflict_to_the_caller() {
    let fake = FakeApi::new(|_| Reply::status(409, "Conflict", "changed meanwhile"));
    let desired = json!({"id": "7"});
    let none: Option<&Value> = None;
    let error = StatusWriter::new()
        .write(&api(&fake), &meta("1"), none, &desired)
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
}

#[tokio::test]
async fn an_object_that_is_gone_needs_no_status() {
    let fake = FakeApi::new(|_| Reply::status(404, "NotFound", "gone"));
    let none: Option<&Value> = None;
    let written = StatusWriter::new()
        .write(&api(&fake), &meta("1"), none, &json!({"id": "7"}))
        .await;
    assert_eq!(written.unwrap(), Written::Gone);
}
