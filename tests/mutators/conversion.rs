//! Reviews of conversions.

use garm_operator::admission::convert::review;
use garm_operator::api::convert::convert;
use garm_operator::api::meta::{API_VERSION, API_VERSION_V1ALPHA1, V1BETA1_FIELD};
use http::StatusCode;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Map, Value, json};

use crate::mutate::{any_json, change_bytes, change_somewhere};

const VERSIONS: [&str; 2] = [API_VERSION, API_VERSION_V1ALPHA1];

const KINDS: [&str; 6] = [
    "Enterprise",
    "Organization",
    "Repository",
    "Pool",
    "Image",
    "Runner",
];

/// What reviews and objects are made of.
const WORDS: [&str; 32] = [
    API_VERSION,
    API_VERSION_V1ALPHA1,
    "garm-operator.mercedes-benz.com/v2",
    "garm-operator.mercedes-benz.com/v1beta1.poolBalancerType",
    "garm-operator.mercedes-benz.com/v1beta1.installWebhook",
    "garm-operator.mercedes-benz.com/v1beta1.credentialsRef",
    "garm-operator.mercedes-benz.com/v1beta1.priority",
    "garm-operator.mercedes-benz.com/v1beta1.",
    "{\"kind\":\"X\",\"apiGroup\":\"g\"}",
    "\"pack\"",
    "true",
    "7",
    "null",
    "{",
    "apiVersion",
    "kind",
    "metadata",
    "annotations",
    "name",
    "namespace",
    "spec",
    "status",
    "credentialsName",
    "credentialsRef",
    "apiGroup",
    "poolBalancerType",
    "installWebhook",
    "priority",
    "GitHubCredential",
    "Pool",
    "Repository",
    "Gadget",
];

/// Makes a review of a few objects, most of them good, and spoils it more often than not.
fn review_bytes(rng: &mut StdRng) -> Vec<u8> {
    let objects: Vec<_> = (0..rng.random_range(0..4)).map(|_| object(rng)).collect();
    let mut review = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "u-1",
            "desiredAPIVersion": VERSIONS.choose(rng),
            "objects": objects,
        },
    });
    for _ in 0..rng.random_range(0..4) {
        // Seldom the envelope: what is behind it is the greater part.
        let envelope = rng.random_bool(0.1);
        let place = if envelope {
            Some(&mut review)
        } else {
            review.pointer_mut("/request/objects")
        };
        if let Some(place) = place {
            change_somewhere(rng, place, &WORDS);
        }
    }
    let mut bytes = review.to_string().into_bytes();
    if rng.random_bool(0.2) {
        change_bytes(rng, &mut bytes);
    }
    bytes
}

/// Makes an object that may hold anything where either version has a field.
fn object(rng: &mut StdRng) -> Value {
    let mut object = json!({
        "apiVersion": VERSIONS.choose(rng),
        "kind": KINDS.choose(rng),
        "metadata": {"name": "x", "namespace": "n", "annotations": {"a": "b"}},
        "spec": {},
        "status": any_json(rng, 2, &WORDS),
    });
    let reference = json!({"kind": "X", "name": "pat"});
    let fields = [
        ("credentialsName", json!("pat")),
        ("credentialsRef", reference.clone()),
        ("poolBalancerType", json!("pack")),
        ("installWebhook", json!(true)),
        ("priority", json!(7)),
        ("owner", json!("acme")),
    ];
    for (field, value) in fields {
        if rng.random_bool(0.5) {
            object["spec"][field] = value.clone();
        }
        if rng.random_bool(0.2) {
            let text = if rng.random_bool(0.7) {
                value
            } else {
                any_json(rng, 2, &WORDS)
            };
            let name = format!("{V1BETA1_FIELD}{field}");
            object["metadata"]["annotations"][name] = text.to_string().into();
        }
    }
    object
}

/// Demands an answer of the right form, and that what was converted can be converted on without end.
fn check(bytes: &[u8]) {
    let (status, answer) = review(bytes);
    if status == StatusCode::BAD_REQUEST {
        let text = String::from_utf8(answer).unwrap();
        assert!(text.starts_with("this is no ConversionReview"), "{text}");
        return;
    }
    assert_eq!(status, StatusCode::OK);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let Ok(asked) = serde_json::from_slice::<Value>(bytes) else {
        // What is passed over need not even be text.
        return;
    };
    let asked = &asked["request"];
    assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
    let response = &answer["response"];
    assert_eq!(response["uid"], asked["uid"]);
    let converted = response["convertedObjects"].as_array().unwrap();
    let sent = asked["objects"].as_array().unwrap();
    if response["result"]["status"] == "Failed" {
        let message = response["result"]["message"].as_str().unwrap();
        assert!(converted.is_empty() && !message.is_empty());
        return;
    }
    assert_eq!(response["result"], json!({"status": "Success"}));
    assert_eq!(converted.len(), sent.len());
    for (sent, converted) in sent.iter().zip(converted) {
        check_object(sent, converted, &asked["desiredAPIVersion"]);
    }
}

fn check_object(sent: &Value, converted: &Value, desired: &Value) {
    assert_eq!(converted["apiVersion"], *desired);
    if sent["apiVersion"] == *desired {
        assert_eq!(sent, converted);
        return;
    }
    assert_eq!(sent["kind"], converted["kind"]);
    assert_eq!(sent["status"], converted["status"]);
    for field in ["name", "namespace", "labels", "finalizers"] {
        assert_eq!(
            sent["metadata"].get(field),
            converted["metadata"].get(field)
        );
    }
    if *desired == API_VERSION {
        let names = converted["metadata"]["annotations"].as_object();
        let mut names = names.into_iter().flat_map(|map| map.keys());
        assert!(names.all(|name| !name.starts_with(V1BETA1_FIELD)));
    }
    let metadata = &converted["metadata"];
    let has_form = |value: &Value| value.is_null() || value.is_object();
    if !(has_form(metadata) && has_form(&metadata["annotations"])) {
        // There is no place to keep anything in.
        return;
    }
    // What came out is settled: there and back it is the same.
    let desired = desired.as_str().unwrap();
    let other = sent["apiVersion"].as_str().unwrap();
    let there = convert(converted.clone(), other).unwrap();
    let back = convert(there, desired).unwrap();
    assert_eq!(tidy(back), tidy(converted.clone()));
}

/// The object without metadata and annotations that hold nothing.
fn tidy(mut object: Value) -> Value {
    let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, value| name != "annotations" || !empty(value));
    }
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, value| name != "metadata" || !empty(value));
    }
    object
}

#[test]
fn reviews_of_conversions() {
    crate::run(review_bytes, check);
}
