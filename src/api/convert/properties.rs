//! What holds for all objects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::convert;
use crate::api::meta::{API_VERSION, API_VERSION_V1ALPHA1, V1BETA1_FIELD};

fn to_old(object: Value) -> Value {
    convert(object, API_VERSION_V1ALPHA1).unwrap()
}

fn to_new(object: Value) -> Value {
    convert(object, API_VERSION).unwrap()
}

/// Any JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::of(value)
}

fn word() -> impl Strategy<Value = Value> {
    ".{0,12}".prop_map(Value::from)
}

/// An object of these fields, those that are there.
fn fields<const N: usize>(pairs: [(&str, Option<Value>); N]) -> Value {
    let there = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(there.collect())
}

fn metadata() -> impl Strategy<Value = Value> {
    let annotations = prop::collection::btree_map("[a-z]{1,6}", ".{0,8}", 1..4);
    (
        maybe(annotations.prop_map(|map| json!(map))),
        maybe(any_json()),
    )
        .prop_map(|(annotations, managed)| {
            fields([
                ("name", Some(json!("x"))),
                ("annotations", annotations),
                ("managedFields", managed),
            ])
        })
}

const KINDS: [&str; 6] = [
    "Enterprise",
    "Organization",
    "Repository",
    "Pool",
    "Image",
    "Runner",
];

/// Any v1beta1 object that its schema lets in; what both versions have alike is anything.
fn any_new() -> impl Strategy<Value = Value> {
    let reference = (maybe(word()), word(), word()).prop_map(|(group, kind, name)| {
        fields([
            ("apiGroup", group),
            ("kind", Some(kind)),
            ("name", Some(name)),
        ])
    });
    let spec = (
        maybe(reference),
        maybe(word()),
        maybe(any::<bool>().prop_map(Value::from)),
        maybe(any::<i64>().prop_map(Value::from)),
        maybe(any_json()),
    );
    let parts = (
        prop::sample::select(&KINDS[..]),
        metadata(),
        spec,
        maybe(any_json()),
    );
    parts.prop_map(|(kind, metadata, spec, status)| {
        let (reference, balancer, webhook, priority, same) = spec;
        let spec = match kind {
            "Enterprise" => fields([
                ("credentialsRef", reference),
                ("poolBalancerType", balancer),
                ("webhookSecretRef", same),
            ]),
            "Pool" => fields([("priority", priority), ("githubScopeRef", same)]),
            "Image" | "Runner" => fields([("tag", same)]),
            _ => fields([
                ("credentialsRef", reference),
                ("poolBalancerType", balancer),
                ("installWebhook", webhook),
                ("webhookSecretRef", same),
            ]),
        };
        fields([
            ("apiVersion", Some(json!(API_VERSION))),
            ("kind", Some(json!(kind))),
            ("metadata", Some(metadata)),
            ("spec", Some(spec)),
            ("status", status),
        ])
    })
}

/// Any v1alpha1 object that its schema lets in and no conversion has made.
fn any_old() -> impl Strategy<Value = Value> {
    let parts = (
        prop::sample::select(&KINDS[..]),
        metadata(),
        maybe(word()),
        maybe(any_json()),
        maybe(any_json()),
    );
    parts.prop_map(|(kind, metadata, name, same, status)| {
        let spec = match kind {
            "Pool" | "Image" | "Runner" => fields([("flavor", same)]),
            _ => fields([("credentialsName", name), ("webhookSecretRef", same)]),
        };
        fields([
            ("apiVersion", Some(json!(API_VERSION_V1ALPHA1))),
            ("kind", Some(json!(kind))),
            ("metadata", Some(metadata)),
            ("spec", Some(spec)),
            ("status", status),
        ])
    })
}

fn field() -> impl Strategy<Value = &'static str> {
    let fields = [
        "credentialsRef",
        "poolBalancerType",
        "installWebhook",
        "priority",
        "owner",
    ];
    prop::sample::select(fields.to_vec())
}

/// Puts anything in the place of one part of an object.
fn spoil(mut object: Value, path: &str, by: Value) -> Value {
    if let Some(part) = object.pointer_mut(path) {
        *part = by;
    }
    object
}

proptest! {
    #[test]
    fn any_v1beta1_object_survives_the_way_down_and_up(object in any_new()) {
        let old = to_old(object.clone());
        prop_assert_eq!(&old["status"], &object["status"]);
        prop_assert_eq!(to_new(old), object);
    }

    #[test]
    fn any_v1alpha1_object_survives_the_way_up_and_down(object in any_old()) {
        let new = to_new(object.clone());
        prop_assert!(!new.to_string().contains(V1BETA1_FIELD));
        prop_assert_eq!(to_old(new), object);
    }

    #[test]
    fn any_annotation_leads_to_an_object_that_survives(object in any_new(), field in field(), text in ".{0,40}", kept in any_json()) {
        for annotation in [json!(text), json!(kept.to_string()), kept] {
            let mut old = to_old(object.clone());
            old["metadata"]["annotations"] = json!({format!("{V1BETA1_FIELD}{field}"): annotation});
            let new = to_new(old);
            prop_assert_eq!(new["metadata"].get("annotations"), None);
            prop_assert_eq!(to_new(to_old(new.clone())), new);
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        object in prop_oneof![any_new(), any_old(), any_json()],
        path in prop::sample::select(&["", "/kind", "/apiVersion", "/metadata", "/metadata/annotations", "/spec", "/spec/credentialsRef", "/spec/credentialsName"][..]),
        by in any_json(),
    ) {
        let object = spoil(object, path, by);
        for desired in [API_VERSION, API_VERSION_V1ALPHA1, "x"] {
            let _ = convert(object.clone(), desired);
        }
    }
}
