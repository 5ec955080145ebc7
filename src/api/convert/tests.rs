use kube::CustomResourceExt;
use serde_json::json;

use super::*;
use crate::api::meta::V1BETA1_FIELD;
use crate::api::{v1alpha1, v1beta1};

fn object(version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "tools", "namespace": "team-a", "annotations": {"a": "b"}},
        "status": {"id": "7", "conditions": []},
    });
    object["spec"] = spec;
    object
}

/// A Repository with all that v1alpha1 cannot say.
fn rich() -> Value {
    let spec = json!({
        "owner": "acme",
        "credentialsRef": {"kind": "GitHubCredentials", "name": "pat"},
        "webhookSecretRef": {"name": "webhook", "key": "secret"},
        "poolBalancerType": "pack",
        "installWebhook": true,
    });
    object(API_VERSION, "Repository", spec)
}

fn to_old(object: Value) -> Value {
    convert(object, API_VERSION_V1ALPHA1).unwrap()
}

fn to_new(object: Value) -> Value {
    convert(object, API_VERSION).unwrap()
}

/// The annotations that keep a field, by the name of the field.
fn kept(object: &Value) -> Value {
    let annotations = object["metadata"]["annotations"].as_object();
    let of_ours = annotations
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let field = name.strip_prefix(V1BETA1_FIELD)?;
            Some((field.to_owned(), value.clone()))
        });
    Value::Object(of_ours.collect())
}

/// Puts an annotation for a field on an object.
fn keep(object: &mut Value, field: &str, text: impl Into<Value>) {
    object["metadata"]["annotations"][format!("{V1BETA1_FIELD}{field}")] = text.into();
}

#[test]
fn keeps_what_v1alpha1_cannot_say() {
    let old = to_old(rich());
    assert_eq!(
        old["spec"],
        json!({
            "owner": "acme",
            "credentialsName": "pat",
            "webhookSecretRef": {"name": "webhook", "key": "secret"},
        })
    );
    assert_eq!(
        (&old["status"], &old["metadata"]["annotations"]["a"]),
        (&rich()["status"], &json!("b"))
    );
    assert_eq!(
        kept(&old),
        json!({
            "credentialsRef": r#"{"kind":"GitHubCredentials"}"#,
            "poolBalancerType": r#""pack""#,
            "installWebhook": "true",
        })
    );
    assert_eq!(to_new(old), rich());
}

#[test]
fn changes_only_the_name_when_the_name_of_the_credentials_changes() {
    let mut old = to_old(rich());
    old["spec"]["credentialsName"] = json!("app");
    let mut expected = rich();
    expected["spec"]["credentialsRef"]["name"] = json!("app");
    assert_eq!(to_new(old), expected);
}

#[test]
fn an_object_born_as_v1alpha1_refers_to_a_credential_of_ours() {
    let spec = json!({"credentialsName": "pat", "webhookSecretRef": {"name": "w", "key": "k"}});
    let old = object(API_VERSION_V1ALPHA1, "Organization", spec);
    let new = to_new(old.clone());
    assert_eq!(
        new["spec"],
        json!({
            "credentialsRef": {"apiGroup": "garm-operator.mercedes-benz.com", "kind": "GitHubCredential", "name": "pat"},
            "webhookSecretRef": {"name": "w", "key": "k"},
        })
    );
    assert_eq!(to_old(new), old, "nothing is kept where nothing is lost");
}

#[test]
fn the_annotations_leave_no_trace() {
    for metadata in [
        json!({"name": "tools"}),
        json!({"annotations": {}}),
        json!({}),
    ] {
        let mut new = rich();
        new["metadata"] = metadata.clone();
        let old = to_old(new.clone());
        assert_eq!(old["metadata"]["annotations"].as_object().unwrap().len(), 3);
        let up = to_new(old);
        new["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        assert_eq!(up, new);
    }
    let mut plain = object(API_VERSION_V1ALPHA1, "Image", json!({}));
    plain["metadata"]["annotations"] = json!({});
    assert_eq!(to_new(plain.clone())["metadata"], plain["metadata"]);
}

#[test]
fn a_pool_keeps_its_priority() {
    let spec = json!({"flavor": "small", "priority": -3, "minIdleRunners": 0});
    let new = object(API_VERSION, "Pool", spec);
    let old = to_old(new.clone());
    assert_eq!(old["spec"], json!({"flavor": "small", "minIdleRunners": 0}));
    assert_eq!(to_new(old), new);
}

#[test]
fn what_is_absent_stays_absent() {
    // Fields left to the defaulting webhook, or those of one manager.
    for kind in ["Enterprise", "Organization", "Repository", "Pool"] {
        for part in [json!({}), json!({"spec": {}}), json!({"status": {}})] {
            for (from, to) in [
                (API_VERSION, API_VERSION_V1ALPHA1),
                (API_VERSION_V1ALPHA1, API_VERSION),
            ] {
                let mut object = part.clone();
                object["kind"] = json!(kind);
                object["apiVersion"] = json!(from);
                let converted = convert(object.clone(), to).unwrap();
                object["apiVersion"] = json!(to);
                assert_eq!(converted, object);
            }
        }
    }
}

#[test]
fn fields_of_the_other_version_mean_nothing() {
    let spec = json!({"credentialsRef": {"kind": "X", "name": "pat"}, "installWebhook": "yes"});
    let old = object(API_VERSION_V1ALPHA1, "Repository", spec);
    assert_eq!(to_new(old)["spec"], json!({}));
    let new = object(API_VERSION, "Repository", json!({"credentialsName": 5}));
    assert_eq!(to_old(new)["spec"], json!({}));
}

#[test]
fn fields_that_both_versions_may_learn_pass() {
    let spec = json!({"maxRunners": "many", "unheardOf": [1], "extraSpecs": null});
    let new = object(API_VERSION, "Pool", spec);
    let old = to_old(new.clone());
    assert_eq!(old["spec"], new["spec"]);
    assert_eq!(to_new(old), new);
}

#[test]
fn a_broken_annotation_counts_as_none() {
    let mut plain = to_old(rich());
    plain["metadata"]["annotations"] = json!({"a": "b"});
    let plain = to_new(plain);
    let texts = [
        "",
        "{",
        "[]",
        "null",
        "{}",
        "1.5",
        "pack",
        "\"a",
        r#"{"kind": 1}"#,
        r#"{"name": "root"}"#,
    ];
    let more = [
        Value::from("[".repeat(10_000)),
        json!(r#"{"kind": "X", "apiGroup": []}"#),
        json!(true),
        json!("18446744073709551615"),
        Value::Null,
    ];
    for text in texts.map(Value::from).into_iter().chain(more) {
        let mut old = to_old(rich());
        for field in ["credentialsRef", "poolBalancerType", "installWebhook"] {
            keep(&mut old, field, text.clone());
        }
        assert_eq!(to_new(old), plain, "{text}");
    }
}

#[test]
fn one_broken_annotation_spoils_no_other() {
    let mut old = to_old(rich());
    keep(&mut old, "installWebhook", "\"yes\"");
    let mut expected = rich();
    expected["spec"]
        .as_object_mut()
        .unwrap()
        .remove("installWebhook");
    assert_eq!(to_new(old), expected);
}

#[test]
fn the_annotations_give_no_kind_a_field_it_does_not_have() {
    for (kind, fields) in [
        ("Enterprise", vec!["poolBalancerType"]),
        ("Pool", vec!["priority"]),
        ("Image", vec![]),
        ("Runner", vec![]),
    ] {
        let mut old = object(API_VERSION_V1ALPHA1, kind, json!({}));
        keep(&mut old, "credentialsRef", r#"{"kind":"X"}"#);
        keep(&mut old, "poolBalancerType", "\"pack\"");
        keep(&mut old, "installWebhook", "true");
        keep(&mut old, "priority", "1");
        keep(&mut old, "owner", "\"umbrella\"");
        keep(&mut old, "", "1");
        let new = to_new(old);
        let found: Vec<_> = new["spec"].as_object().unwrap().keys().collect();
        assert_eq!(found, fields, "{kind}");
        assert_eq!(new["metadata"]["annotations"], json!({"a": "b"}));
    }
}

#[test]
fn the_annotations_mean_nothing_on_a_v1beta1_object() {
    let spec = json!({"credentialsRef": {"kind": "X", "name": "pat"}});
    let clean = object(API_VERSION, "Enterprise", spec);
    let mut forged = clean.clone();
    keep(&mut forged, "poolBalancerType", "\"pack\"");
    keep(&mut forged, "credentialsRef", r#"{"kind":"Y"}"#);
    let old = to_old(forged);
    assert_eq!(kept(&old), json!({"credentialsRef": r#"{"kind":"X"}"#}));
    assert_eq!(to_new(old), clean);
}

#[test]
fn an_object_without_room_for_the_annotations_can_still_be_read() {
    let limit = 256 * 1024;
    for (filler, room) in [(limit - 400, 3), (limit - 200, 2), (limit - 10, 0)] {
        let mut new = rich();
        new["metadata"]["annotations"]["a"] = "x".repeat(filler).into();
        let old = to_old(new.clone());
        assert_eq!(old["spec"]["credentialsName"], json!("pat"));
        assert_eq!(kept(&old).as_object().unwrap().len(), room);
        let total: usize = old["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| key.len() + value.as_str().unwrap().len())
            .sum();
        assert!(total <= limit, "{total}");
        if room == 3 {
            assert_eq!(to_new(old), new);
        }
    }
}

#[test]
fn the_same_version_leaves_an_object_as_it_is() {
    for object in [
        rich(),
        json!({"apiVersion": API_VERSION, "spec": 5}),
        json!({"apiVersion": API_VERSION, "kind": "Unheard", "metadata": {"annotations": {format!("{V1BETA1_FIELD}priority"): "1"}}}),
    ] {
        assert_eq!(to_new(object.clone()), object);
    }
    let stranger = json!({"apiVersion": "x/v1"});
    assert_eq!(convert(stranger.clone(), "x/v1"), Ok(stranger));
}

#[test]
fn tells_what_stands_in_the_way() {
    let told = |object: Value, desired| convert(object, desired).unwrap_err().to_string();
    let old = |kind, spec| object(API_VERSION_V1ALPHA1, kind, spec);
    let new = |kind, spec| object(API_VERSION, kind, spec);
    for (object, expected) in [
        (json!([]), "the object must be a JSON object"),
        (json!({"kind": "Pool"}), "apiVersion must be a string"),
        (
            json!({"apiVersion": API_VERSION_V1ALPHA1}),
            "kind must be a string",
        ),
        (old("Pool", json!("x")), "spec must be an object"),
        (
            old("Enterprise", json!({"credentialsName": 5})),
            "spec.credentialsName must be a string",
        ),
        (
            old("GitHubEndpoint", json!({})),
            "kind GitHubEndpoint has no versions to convert between",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Pool"}),
            "version apps/v1 does not exist",
        ),
    ] {
        assert_eq!(told(object, API_VERSION), expected);
    }
    for reference in [json!("pat"), json!({"kind": "X", "name": 1}), json!([1])] {
        let spec = json!({"credentialsRef": reference});
        assert!(
            told(new("Repository", spec), API_VERSION_V1ALPHA1).starts_with("spec.credentialsRef")
        );
    }
    let mut odd = rich();
    odd["metadata"] = json!([]);
    assert_eq!(
        told(odd, API_VERSION_V1ALPHA1),
        "metadata must be an object"
    );
    let unknown = "garm-operator.mercedes-benz.com/v2";
    assert_eq!(
        told(rich(), unknown),
        format!("version {unknown} does not exist")
    );
}

/// The fields of a spec and a status as the schema of a version has them.
fn properties<K: CustomResourceExt>(part: &str) -> Map<String, Value> {
    let crd = serde_json::to_value(K::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let properties = schema["properties"][part]["properties"].as_object();
    properties.cloned().unwrap_or_default()
}

fn agrees<Old: CustomResourceExt, New: CustomResourceExt>() {
    let kind = New::api_resource().kind;
    let differences = Differences::of(&kind).unwrap();
    assert_eq!(
        properties::<Old>("status"),
        properties::<New>("status"),
        "{kind}"
    );
    let (mut old, mut new) = (properties::<Old>("spec"), properties::<New>("spec"));
    if differences.has_credentials {
        assert!(old.remove("credentialsName").is_some(), "{kind}");
        assert!(new.remove("credentialsRef").is_some(), "{kind}");
    }
    for (field, fits) in differences.added {
        let schema = new.remove(*field).unwrap();
        let sample = match schema["type"].as_str().unwrap() {
            "string" => json!("x"),
            "boolean" => json!(true),
            "integer" => json!(1),
            other => panic!("no sample of {other}"),
        };
        assert!(fits(&sample), "{kind} {field}");
        for other in [json!([]), json!({}), json!(1.5), Value::Null] {
            assert!(!fits(&other), "{kind} {field} {other}");
        }
    }
    let names = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&old), names(&new), "{kind}");
}

#[test]
fn the_differences_are_those_of_the_schemas() {
    agrees::<v1alpha1::Enterprise, v1beta1::Enterprise>();
    agrees::<v1alpha1::Organization, v1beta1::Organization>();
    agrees::<v1alpha1::Repository, v1beta1::Repository>();
    agrees::<v1alpha1::Pool, v1beta1::Pool>();
    agrees::<v1alpha1::Image, v1beta1::Image>();
    agrees::<v1alpha1::Runner, v1beta1::Runner>();
}
