//! A v1alpha1 client reads objects and writes them back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use serde_json::{Value, json};

use super::endpoint::{client, converting};
use super::objects::{NEW, OLD, Objects, timeless};

/// What the annotations begin with that keep a field.
const KEPT: &str = "garm-operator.mercedes-benz.com/v1beta1.";
const GROUP: &str = "garm-operator.mercedes-benz.com";

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_v1alpha1_client_loses_nothing", loses_nothing);
    suite.test(
        "an_object_born_as_v1alpha1_is_stored_as_v1beta1",
        born_as_v1alpha1,
    );
    suite.test(
        "a_forged_annotation_gives_nothing_that_v1beta1_refuses",
        forged_annotation,
    );
    suite.test(
        "an_object_full_of_annotations_can_be_read_as_v1alpha1",
        full_of_annotations,
    );
    suite.test(
        "v1alpha1_is_read_without_garm_and_without_the_lease",
        read_by_standbys,
    );
    suite.test("five_hundred_objects_are_converted_at_once", big_review);
}

/// One object of each converted kind that says all that v1alpha1 cannot.
fn rich() -> [((&'static str, &'static str), Value, Value); 5] {
    let entity = |more: &Value| {
        let mut spec = json!({
            "credentialsRef": {"kind": "GitHubCredentials", "name": "pat"},
            "webhookSecretRef": {"name": "webhook", "key": "secret"},
            "poolBalancerType": "pack",
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    };
    let status = json!({"id": "7", "conditions": [condition()]});
    [
        (
            ("Repository", "repositories"),
            entity(&json!({"owner": "acme", "installWebhook": true})),
            status.clone(),
        ),
        (
            ("Organization", "organizations"),
            entity(
                &json!({"installWebhook": false, "credentialsRef": {"kind": "X", "name": "pat", "apiGroup": "g"}}),
            ),
            status.clone(),
        ),
        (("Enterprise", "enterprises"), entity(&json!({})), status),
        (
            ("Pool", "pools"),
            pool(&json!({"priority": -2, "extraSpecs": "{\"a\": 1}"})),
            json!({
                "id": "7", "longRunningIdleRunners": 1, "selector": "a=b", "tags": ["x", "y"],
                "runners": {"total": 1, "pending": 0, "idle": 1, "active": 0, "failed": 0, "deleting": 0, "other": 0},
                "conditions": [condition()],
            }),
        ),
        (
            ("Runner", "runners"),
            json!({}),
            json!({"agentId": 3, "githubRunnerGroup": "", "conditions": [condition()]}),
        ),
    ]
}

fn condition() -> Value {
    json!({"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

fn pool(more: &Value) -> Value {
    let mut spec = json!({
        "githubScopeRef": {"kind": "Repository", "name": "tools"},
        "providerName": "fake", "imageName": "runner", "flavor": "small", "osType": "linux", "osArch": "amd64",
        "tags": ["linux"], "enabled": true, "runnerBootstrapTimeout": 20, "maxRunners": 3, "minIdleRunners": 1,
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    spec
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "annotations": {"note": "x"},
        "labels": {"team": "a"},
        "finalizers": ["example.com/keep"],
    })
}

async fn loses_nothing(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    for (kind, spec, status) in rich() {
        let plural = kind.1;
        let mut created = objects
            .create(NEW, kind, metadata("one"), spec.clone())
            .await?;
        created["status"] = status.clone();
        objects
            .put(NEW, &format!("{plural}/one/status"), &created)
            .await?;
        let before = objects.get(NEW, plural, "one").await?;
        ensure!(before["spec"] == spec && before["status"] == status);

        let old = objects.get(OLD, plural, "one").await?;
        for field in [
            "credentialsRef",
            "poolBalancerType",
            "installWebhook",
            "priority",
        ] {
            ensure!(old["spec"].get(field).is_none(), "{plural}: {old}");
        }
        ensure!(
            old["status"] == status,
            "{plural}: the status is {}",
            old["status"]
        );
        objects.put(OLD, &format!("{plural}/one"), &old).await?;
        let after = objects.get(NEW, plural, "one").await?;
        ensure!(
            after == before,
            "{plural}: a write that changes nothing gave\n{after}\nfor\n{before}"
        );

        let mut old = old;
        old["metadata"]["labels"]["team"] = json!("b");
        let mut expected = before;
        expected["metadata"]["labels"]["team"] = json!("b");
        if old["spec"].get("credentialsName").is_some() {
            old["spec"]["credentialsName"] = json!("app");
            expected["spec"]["credentialsRef"]["name"] = json!("app");
            expected["metadata"]["generation"] = json!(2);
        }
        objects.put(OLD, &format!("{plural}/one"), &old).await?;
        let after = objects.get(NEW, plural, "one").await?;
        ensure!(
            timeless(after.clone()) == timeless(expected.clone()),
            "{plural}: got\n{after}\nfor\n{expected}"
        );
        let listed = objects.get(OLD, plural, "").await?;
        ensure!(listed["items"].as_array().map(Vec::len) == Some(1));
    }
    // What scales an old client's Pools goes the same way.
    let scale = [
        "scale",
        "pools.v1alpha1.garm-operator.mercedes-benz.com/one",
    ];
    objects
        .kubectl(&[&scale[..], &["--replicas=2"]].concat(), "")
        .await?;
    let pool = objects.get(NEW, "pools", "one").await?;
    ensure!(pool["spec"]["minIdleRunners"] == 2 && pool["spec"]["priority"] == -2);
    ensure!(pool["status"]["tags"] == json!(["x", "y"]));
    Ok(())
}

async fn born_as_v1alpha1(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let spec = json!({
        "owner": "acme", "credentialsName": "pat",
        "webhookSecretRef": {"name": "webhook", "key": "secret"},
    });
    let kind = ("Repository", "repositories");
    let created = objects
        .create(OLD, kind, json!({"name": "one"}), spec)
        .await?;
    let new = objects.get(NEW, kind.1, "one").await?;
    ensure!(
        new["spec"]["credentialsRef"]
            == json!({"apiGroup": GROUP, "kind": "GitHubCredential", "name": "pat"}),
        "{new}"
    );
    ensure!(new["metadata"].get("annotations").is_none(), "{new}");
    let old = objects.get(OLD, kind.1, "one").await?;
    ensure!(old == created, "{old}\nis not\n{created}");
    // A null is as good as nothing.
    let spec = json!({
        "credentialsRef": {"kind": "GitHubCredential", "apiGroup": null, "name": "pat"},
        "webhookSecretRef": {"name": "webhook", "key": "secret"}, "installWebhook": null,
    });
    let kind = ("Organization", "organizations");
    objects
        .create(NEW, kind, json!({"name": "one"}), spec)
        .await?;
    let before = objects.get(NEW, kind.1, "one").await?;
    let old = objects.get(OLD, kind.1, "one").await?;
    objects.put(OLD, "organizations/one", &old).await?;
    let after = objects.get(NEW, kind.1, "one").await?;
    ensure!(after == before, "{after}\nis not\n{before}");
    Ok(())
}

async fn forged_annotation(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let spec =
        json!({"credentialsName": "pat", "webhookSecretRef": {"name": "webhook", "key": "secret"}});
    let kind = ("Enterprise", "enterprises");
    for (name, balancer, expected) in [
        ("broken", "{", json!({})),
        ("wrong", r#"{"a": 1}"#, json!({})),
        ("right", "\"pack\"", json!({"poolBalancerType": "pack"})),
    ] {
        let annotations = json!({
            format!("{KEPT}poolBalancerType"): balancer,
            format!("{KEPT}credentialsRef"): r#"{"kind": []}"#,
            format!("{KEPT}installWebhook"): "true",
            format!("{KEPT}webhookSecretRef"): "{}",
        });
        let metadata = json!({"name": name, "annotations": annotations});
        objects.create(OLD, kind, metadata, spec.clone()).await?;
        let new = objects.get(NEW, kind.1, name).await?;
        let mut wanted = json!({
            "credentialsRef": {"apiGroup": GROUP, "kind": "GitHubCredential", "name": "pat"},
            "webhookSecretRef": {"name": "webhook", "key": "secret"},
        });
        for (field, value) in expected.as_object().into_iter().flatten() {
            wanted[field] = value.clone();
        }
        ensure!(new["spec"] == wanted, "{name}: {new}");
        ensure!(
            new["metadata"].get("annotations").is_none(),
            "{name}: {new}"
        );
    }
    Ok(())
}

async fn full_of_annotations(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let (kind, spec, _) = rich()[0].clone();
    // As much as the API server takes.
    let filler = "x".repeat(256 * 1024 - "a".len());
    let metadata = json!({"name": "full", "annotations": {"a": filler}});
    objects.create(NEW, kind, metadata, spec).await?;
    let list = objects.get(OLD, kind.1, "").await?;
    ensure!(list["items"][0]["spec"]["credentialsName"] == "pat");
    Ok(())
}

async fn read_by_standbys(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    for (kind, spec, _) in rich() {
        objects
            .create(NEW, kind, json!({"name": "one"}), spec)
            .await?;
    }
    for plural in ["enterprises", "organizations", "pools", "repositories"] {
        let mut took = Duration::MAX;
        // The fastest of three: the machine may be busy with other tests.
        for _ in 0..3 {
            let begun = Instant::now();
            let list = objects.get(OLD, plural, "").await?;
            took = took.min(begun.elapsed());
            ensure!(list["items"].as_array().map(Vec::len) == Some(1), "{list}");
        }
        ensure!(took < Duration::from_secs(1), "{plural} took {took:?}");
    }
    Ok(())
}

async fn big_review(ground: &Ground) -> Result<()> {
    let endpoint = &converting(ground).await?.endpoint;
    let client = client(endpoint)?;
    let object = |index: usize| {
        let (kind, spec, status) = rich()[index % 4].clone();
        json!({
            "apiVersion": format!("{GROUP}/{}", if index.is_multiple_of(3) { OLD } else { NEW }),
            "kind": kind.0,
            "metadata": {"name": format!("o-{index}"), "namespace": "n", "uid": index.to_string()},
            "spec": spec,
            "status": status,
        })
    };
    let objects: Vec<_> = (0..500).map(object).collect();
    let ask = async |objects: &[Value]| -> Result<Value> {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": format!("{GROUP}/{OLD}"), "objects": objects},
        });
        let answer = client.post(&endpoint.url).json(&review).send().await?;
        ensure!(answer.status() == 200, "{}", answer.status());
        let review: Value = answer.json().await?;
        ensure!(review["apiVersion"] == "apiextensions.k8s.io/v1");
        ensure!(review["response"]["uid"] == "u-1");
        Ok(review["response"].clone())
    };
    let response = ask(&objects).await?;
    ensure!(
        response["result"]["status"] == "Success",
        "{}",
        response["result"]
    );
    let converted = response["convertedObjects"].as_array();
    let names: Vec<_> = converted
        .into_iter()
        .flatten()
        .map(|o| &o["metadata"]["uid"])
        .collect();
    ensure!(
        names
            == objects
                .iter()
                .map(|o| &o["metadata"]["uid"])
                .collect::<Vec<_>>()
    );

    let mut objects = objects;
    objects[250]["kind"] = json!("Gadget");
    let response = ask(&objects).await?;
    ensure!(response["result"]["status"] == "Failed");
    ensure!(response["convertedObjects"] == json!([]));
    let message = response["result"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains("n/o-250"), "{message}");
    Ok(())
}
