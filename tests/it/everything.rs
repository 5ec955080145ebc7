//! All kinds together: come up in any order, rest, and go with their namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::documents::entity;
use crate::world::{SOON, World, condition, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "all_kinds_come_up_rest_and_go_with_their_namespace",
        all_kinds,
    );
    suite.test_on_each_garm(
        "the_time_of_the_last_push_moves_with_pushes_only",
        last_push,
    );
}

/// Kinds that say Ready, with the names they have here.
pub const READY: [(&str, &str); 9] = [
    ("garmserverconfig", "garm"),
    ("githubendpoint", "ghes"),
    ("githubcredential", "pat"),
    ("repository", "tools"),
    ("organization", "acme"),
    ("enterprise", "big"),
    ("pool", "small"),
    ("pool", "large"),
    ("pool", "of-org"),
];

/// All of them, with what they need.
pub fn documents(world: &World<'_>) -> Vec<String> {
    let url = world.garm.direct_url();
    let of_org = pool(
        "of-org",
        "flavor: org\n  minIdleRunners: 1\n  maxRunners: 1\n  extraSpecs: '{\"a\": [1, 2]}'",
    );
    let mut documents = vec![format!(
        "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec:\n  metadataUrl: {url}/api/v1/metadata\n  callbackUrl: {url}/api/v1/callbacks\n  webhookUrl: {url}/webhooks\n"
    )];
    documents.extend(world.manifests());
    documents.extend([
        entity("Organization", "acme", "pat"),
        entity("Enterprise", "big", "pat"),
        of_org.replace(
            "kind: Repository, name: tools",
            "kind: Organization, name: acme",
        ),
    ]);
    documents
}

async fn all_kinds(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // GARM answers its lists in no order that one could rely on.
    shuffle(&world);
    // A resync each 3 s.
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    let mut documents = documents(&world);
    documents.reverse();
    let applied = Instant::now();
    world.apply(&documents).await?;
    for (kind, name) in READY {
        let object = world.wait_ready(kind, name).await?;
        let generation = &object["metadata"]["generation"];
        for condition in object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
        {
            ensure!(
                condition["observedGeneration"] == *generation,
                "{kind} {name}: {condition}"
            );
            ensure!(
                condition["reason"]
                    .as_str()
                    .is_some_and(|reason| !reason.is_empty()),
                "{condition}"
            );
        }
    }
    ensure!(
        applied.elapsed() < SOON,
        "Ready only after {:?}",
        applied.elapsed()
    );
    world.wait_idle_runners(3).await?;
    world.wait_counted().await?;
    world
        .wait("pool", "of-org", "one idle runner counted", |pool| {
            pool["status"]["runners"]["idle"] == 1
        })
        .await?;
    resyncs(&world, 1).await?;

    let mark = world.mark();
    resyncs(&world, 10).await?;
    world.ensure_nothing_written(mark)?;

    ensure_no_spec_is_ours(&world).await?;
    gone_with_its_namespace(&world).await?;
    let whole = world.kube.requests();
    let mut whole = whole
        .iter()
        .filter(|request| request.method == http::Method::PUT);
    ensure!(whole.next().is_none(), "whole objects were written");
    ensure_labels_are_bounded(&operator.metrics().await?)?;
    world.finish(operator).await
}

/// Fails when the operator owns a field of any spec.
async fn ensure_no_spec_is_ours(world: &World<'_>) -> Result<()> {
    let mut ours = 0;
    for (kind, _) in READY.into_iter().chain([("image", ""), ("runner", "")]) {
        for object in world.list(kind).await? {
            let managers = object["metadata"]["managedFields"].as_array();
            for manager in managers.into_iter().flatten() {
                if manager["manager"] != "garm-operator" {
                    continue;
                }
                ours += 1;
                // A Runner is made by us, with a spec that has no fields.
                let spec = &manager["fieldsV1"]["f:spec"];
                let is_empty = spec.as_object().is_some_and(serde_json::Map::is_empty);
                ensure!(
                    spec.is_null() || (kind == "runner" && is_empty),
                    "{kind}: {manager}"
                );
            }
        }
    }
    ensure!(ours > 0, "nobody is called garm-operator");
    Ok(())
}

/// Names of labels whose values are few, whatever the operator works on.
const LABELS: [&str; 11] = [
    "code",
    "controller",
    "host",
    "kind",
    "le",
    "method",
    "name",
    "result",
    "route",
    "status",
    "webhook",
];

/// Fails when a metric tells one object from another. Names are those of queues.
fn ensure_labels_are_bounded(metrics: &str) -> Result<()> {
    let objects = READY.map(|(_, name)| name);
    let mut series = 0;
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        series += 1;
        let labels = line
            .split_once('{')
            .and_then(|(_, rest)| rest.rsplit_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split("\",");
        for (name, value) in labels.filter_map(|label| label.split_once("=\"")) {
            let value = value.trim_end_matches('"');
            ensure!(LABELS.contains(&name), "the label {name} in {line}");
            let is_id = value.starts_with("garm-") || value.len() == 36;
            ensure!(!is_id && !objects.contains(&value), "an object in {line}");
        }
    }
    ensure!((50..2_000).contains(&series), "{series} series");
    Ok(())
}

/// Turns every second list round.
fn shuffle(world: &World<'_>) {
    let turned = AtomicBool::new(false);
    let turn = move |body: axum::body::Bytes| match serde_json::from_slice::<Value>(&body) {
        Ok(Value::Array(mut list)) if turned.fetch_xor(true, Ordering::SeqCst) => {
            list.reverse();
            serde_json::to_vec(&list).map_or(body, Into::into)
        }
        _ => body,
    };
    let lists = Matcher::any()
        .method(http::Method::GET)
        .path_contains("/api/v1/");
    world
        .garm
        .proxy()
        .rule(lists, Fault::Rewrite(Arc::new(turn)));
}

async fn gone_with_its_namespace(world: &World<'_>) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.plane.client());
    namespaces
        .delete(&world.namespace, &kube::api::DeleteParams::default())
        .await
        .context("delete the namespace")?;
    let gone = async || {
        let left = namespaces.get_opt(&world.namespace).await?;
        let conditions = left.map(|left| left.status.unwrap_or_default().conditions);
        Ok(Seen::when(conditions, Option::is_none).map(drop))
    };
    // A busy machine may take longer for its own part of it, which is most of that.
    poll_until(Duration::from_secs(90), "the namespace is gone", gone).await?;
    for path in [
        "/pools",
        "/instances",
        "/repositories",
        "/organizations",
        "/enterprises",
        "/github/credentials",
    ] {
        let left = world.garm.api().list(path).await?;
        ensure!(left.is_empty(), "{path} still holds {left:?}");
    }
    let endpoints = world.garm.api().list("/github/endpoints").await?;
    ensure!(
        endpoints
            .iter()
            .all(|endpoint| endpoint["name"] == "github.com"),
        "{endpoints:?}"
    );
    let refused = world.kube.requests();
    let refused = refused.iter().filter(|request| request.status == Some(422));
    ensure!(refused.count() == 0, "the API server refused a write");
    Ok(())
}

const LAST_SYNC: &str = "garm-operator.mercedes-benz.com/last-sync-time";

async fn last_push(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let time = async || {
        let pool = world.object("pool", "small").await?;
        let text = pool["metadata"]["annotations"][LAST_SYNC]
            .as_str()
            .context("no time")?;
        ensure!(text.ends_with('Z'), "{text} is not UTC");
        anyhow::Ok(text.parse::<jiff::Timestamp>()?)
    };
    let made = time().await?;
    let refused = world.garm.proxy().rule(
        Matcher::route("PUT /pools/{id}"),
        Fault::garm_error(http::StatusCode::BAD_REQUEST, "Bad Request", "not today"),
    );
    world
        .patch("pool", "small", json!({"spec": {"maxRunners": 7}}))
        .await?;
    let failed = world
        .wait_condition("pool", "small", "Ready", "False", "GarmAPIError")
        .await?;
    ensure!(
        condition(&failed, "Ready")["message"]
            .to_string()
            .contains("not today"),
        "{failed}"
    );
    resyncs(&world, 2).await?;
    ensure!(time().await? == made, "nothing was pushed");
    refused.remove();
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 8}}))
        .await?;
    let pushed = time().await?;
    ensure!(pushed > made, "{pushed} is not after {made}");
    resyncs(&world, 2).await?;
    ensure!(time().await? == pushed, "a resync is no push");
    world.finish(operator).await
}
