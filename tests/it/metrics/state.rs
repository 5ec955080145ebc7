//! The state of objects as metrics.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use super::scrape::{Sample, Scrape};
use super::{names, queries};
use crate::documents::entity;
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "objects_show_as_metrics_only_when_asked_for_and_go_with_their_series",
        shown,
    );
}

/// By kind: its plural, an object, and what kube-state-metrics shows of it with our configuration.
const KINDS: &[(&str, &str, &str, &[&str])] = &[
    (
        "enterprise",
        "big",
        "enterprise",
        &["created", "info", "status_conditions"],
    ),
    (
        "organization",
        "acme",
        "org",
        &["created", "info", "status_conditions"],
    ),
    (
        "repository",
        "tools",
        "repo",
        &["created", "info", "status_conditions"],
    ),
    (
        "pool",
        "small",
        "pool",
        &[
            "created",
            "enabled",
            "info",
            "max_runners",
            "min_idle_runners",
            "runners",
            "status_conditions",
        ],
    ),
    ("image", "runner", "image", &["created", "info"]),
    (
        "garmserverconfig",
        "garm",
        "garmserverconfig",
        &["created", "info", "status_conditions"],
    ),
    (
        "githubendpoint",
        "ghes",
        "githubendpoint",
        &["created", "info", "status_conditions"],
    ),
    (
        "githubcredential",
        "pat",
        "githubcredential",
        &["created", "info", "status_conditions"],
    ),
];

/// The samples about one object, by name.
fn about<'a>(scrape: &'a Scrape, kind: &str, name: &str) -> BTreeMap<&'a str, Vec<&'a Sample>> {
    let mut samples: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &scrape.samples {
        if sample.has(&[("crd_type", kind), ("name", name)]) {
            samples.entry(&sample.name).or_default().push(sample);
        }
    }
    samples
}

async fn shown(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let url = world.garm.direct_url();
    let mut documents = world.manifests();
    documents.extend([
        format!(
            "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec:\n  metadataUrl: {url}/api/v1/metadata\n  callbackUrl: {url}/api/v1/callbacks\n  webhookUrl: {url}/webhooks\n"
        ),
        entity("Organization", "acme", "pat"),
        entity("Enterprise", "big", "pat"),
    ]);
    world.apply(&documents).await?;
    let operator = world.operator().await?;
    world.wait_all_ready().await?;
    let scrape = Scrape::of(&operator).await?;
    let on = scrape
        .families()
        .into_iter()
        .find(|name| name.ends_with("_info"));
    ensure!(on.is_none(), "{on:?} without being asked for");
    world.finish(operator).await?;

    let command = world.command().variable("OPERATOR_STATE_METRICS", "true");
    let operator = world.start(&command).await?;
    world.wait_all_ready().await?;
    world.wait_ready("organization", "acme").await?;
    world.wait_ready("enterprise", "big").await?;
    let scrape = poll_until(SOON, "the state of all objects", async || {
        let scrape = Scrape::of(&operator).await?;
        let all = KINDS
            .iter()
            .all(|(kind, name, ..)| !about(&scrape, kind, name).is_empty());
        Ok(Seen::when(scrape, |_| all))
    })
    .await?;
    for &(kind, name, stem, metrics) in KINDS {
        let found = about(&scrape, kind, name);
        let mut expected: BTreeSet<String> = metrics
            .iter()
            .map(|metric| format!("garm_operator_{stem}_{metric}"))
            .collect();
        if kind == "pool" {
            expected.insert("garm_operator_status_long_running_idle_runners".to_owned());
        }
        let names: BTreeSet<String> = found.keys().map(|&name| name.to_owned()).collect();
        ensure!(names == expected, "{kind}: {names:?}, not {expected:?}");
        let object = world.object(kind, name).await?;
        ensure_base(&object, &found, stem)?;
    }
    ensure_pool(&world, &scrape).await?;
    ensure_asked_for(&scrape)?;
    let runners = scrape
        .samples
        .iter()
        .filter(|one| one.has(&[("crd_type", "runner")]));
    ensure!(runners.count() == 0, "there may be ten thousand Runners");

    come_and_go(&world, &operator).await?;
    world.finish(operator).await
}

/// Fails when an alert or the dashboard asks for what is not exposed. Some families have series only while an object is paused or goes.
fn ensure_asked_for(scrape: &Scrape) -> Result<()> {
    let shown = scrape.families().into_iter().map(str::to_owned);
    let known = names::known().map(str::to_owned);
    let mut families: BTreeSet<String> = shown.chain(known).collect();
    for (_, _, stem, _) in KINDS {
        for now_and_then in ["annotation_paused_info", "deletion_timestamp"] {
            families.insert(format!("garm_operator_{stem}_{now_and_then}"));
        }
    }
    // There is one only where the operator makes its own certificates.
    families.insert("garm_operator_webhook_ca_expiration_timestamp_seconds".to_owned());
    queries::ensure_reads()?;
    queries::ensure_exposed(&families)
}

/// Fails unless all series of an object bear its labels, and its creation time and conditions are right.
fn ensure_base(object: &Value, found: &BTreeMap<&str, Vec<&Sample>>, stem: &str) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for sample in found.values().flatten() {
        let base = [
            (
                "customresource_group",
                "garm-operator.mercedes-benz.com".to_owned(),
            ),
            ("customresource_version", "v1beta1".to_owned()),
            ("customresource_kind", text(&object["kind"])),
            ("namespace", text(&object["metadata"]["namespace"])),
        ];
        let base = base.each_ref().map(|(name, value)| (*name, value.as_str()));
        ensure!(sample.has(&base), "{sample:?}");
    }
    let created = &found[format!("garm_operator_{stem}_created").as_str()];
    let time: jiff::Timestamp = text(&object["metadata"]["creationTimestamp"]).parse()?;
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let time = time.as_second() as f64;
    ensure!(
        created.len() == 1 && (created[0].value - time).abs() < 0.5,
        "{created:?}"
    );
    let shown = found.get(format!("garm_operator_{stem}_status_conditions").as_str());
    for sample in shown.into_iter().flatten() {
        let conditions = object["status"]["conditions"]
            .as_array()
            .context("conditions")?;
        let condition = conditions
            .iter()
            .find(|one| one["type"] == sample.labels["type"]);
        let status = &condition.context("a condition")?["status"];
        ensure!(
            (sample.value > 0.5) == (status == "True"),
            "{sample:?}: {status}"
        );
    }
    Ok(())
}

async fn ensure_pool(world: &World<'_>, scrape: &Scrape) -> Result<()> {
    let id = world.id("pool", "small").await?;
    let info = [
        ("name", "small"),
        ("scopeKind", "Repository"),
        ("scopeName", "tools"),
        ("imageName", "runner"),
        ("osArch", "amd64"),
        ("osType", "linux"),
        ("providerName", "fake"),
        ("runnerBootstrapTimeout", "20"),
        ("tags", "[small linux]"),
        ("id", id.as_str()),
    ];
    ensure!(
        scrape.value("garm_operator_pool_info", &info) == Some(1.0),
        "no {info:?}"
    );
    for (name, value) in [
        ("garm_operator_pool_enabled", 1.0),
        ("garm_operator_pool_min_idle_runners", 1.0),
        ("garm_operator_pool_max_runners", 3.0),
    ] {
        let found = scrape.value(name, &[("name", "small")]);
        ensure!(found == Some(value), "{name}: {found:?}");
    }
    let ready = [("name", "small"), ("type", "Ready")];
    let found = scrape.value("garm_operator_pool_status_conditions", &ready);
    ensure!(found == Some(1.0), "{found:?}");
    Ok(())
}

/// Pauses a Pool and lets it go on, and deletes it.
async fn come_and_go(world: &World<'_>, operator: &garm_operator_ground::Operator) -> Result<()> {
    let paused = "garm-operator.mercedes-benz.com/paused";
    let name = "garm_operator_pool_annotation_paused_info";
    let labels = [("name", "small"), ("paused_value", "on holiday")];
    for (value, shown) in [(json!("on holiday"), true), (Value::Null, false)] {
        let change = json!({"metadata": {"annotations": {(paused): value}}});
        world.patch("pool", "small", change).await?;
        poll_until(SOON, &format!("a pause shows: {shown}"), async || {
            let scrape = Scrape::of(operator).await?;
            let found = scrape.value(name, &labels).is_some();
            Ok(Seen::when(found, |found| *found == shown))
        })
        .await?;
    }
    world.delete("pool", "small").await?;
    world.wait_gone("pool", "small").await?;
    poll_until(SOON, "nothing is left of the Pool", async || {
        let scrape = Scrape::of(operator).await?;
        let left = about(&scrape, "pool", "small").len();
        Ok(Seen::when(left, |left| *left == 0))
    })
    .await?;
    let scrape = Scrape::of(operator).await?;
    ensure!(
        !about(&scrape, "pool", "large").is_empty(),
        "the other one is there"
    );
    let open = reqwest::Client::new()
        .get(operator.metrics_url())
        .header("accept", "application/openmetrics-text; version=1.0.0")
        .send()
        .await?
        .text()
        .await?;
    ensure!(
        open.contains("# TYPE garm_operator_pool info\n"),
        "an info metric"
    );
    ensure!(open.ends_with("# EOF\n"), "no end mark");
    Ok(())
}
