//! Secrets show nowhere: not in logs, events, conditions, annotations or metrics.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::documents::entity;
use crate::metrics::probe;
use crate::secrets::app_key;
use crate::world::{World, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("secrets_show_nowhere_at_any_level", nowhere);
}

/// What extra specs hold: for nobody's eyes but those who ask for the highest level.
const EXTRA: &str = "planted-extra-spec";

async fn nowhere(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let mut documents = world.manifests();
    let good = format!(
        "flavor: specs\n  minIdleRunners: 0\n  maxRunners: 1\n  extraSpecs: '{{\"token\": \"{EXTRA}\"}}'"
    );
    let bad = format!(
        "flavor: bad\n  minIdleRunners: 0\n  maxRunners: 1\n  extraSpecs: '{{\"token\": {EXTRA}'"
    );
    let app = "kind: GitHubCredential\nmetadata: {name: app}\nspec:\n  description: app\n  authType: app\n  appId: 1\n  endpointRef: {kind: GitHubEndpoint, name: ghes}\n  secretRef: {name: app-key, key: key}\n";
    documents.extend([
        pool("specs", &good),
        pool("bad", &bad),
        app_key("app-key"),
        app.to_owned(),
        entity("Organization", "acme", "pat"),
    ]);
    // What GitHub refuses comes back from GARM in words.
    world.garm.github().refuse_token("ghp_planted-token");
    for level in ["5", "4"] {
        // The last one counts.
        let command = world
            .command()
            .argument(format!("--operator-log-verbosity-level={level}"))
            .argument("--operator-state-metrics=true");
        let operator = world.start(&command).await?;
        world.apply(&documents).await?;
        world
            .wait_condition("pool", "bad", "Ready", "False", "InvalidSpec")
            .await?;
        world
            .wait_condition("githubcredential", "app", "Ready", "False", "InvalidSpec")
            .await?;
        world.wait_ready("pool", "specs").await?;
        let change = json!({"spec": {"extraSpecs": format!("{{\"token\": \"{EXTRA}-{level}\"}}")}});
        world.change("pool", "specs", change).await?;
        world
            .wait_condition("organization", "acme", "PoolManager", "False", "")
            .await?;
        let metrics = operator.metrics().await?;
        ensure!(metrics.contains("garm_operator_pool_info"), "no state");
        let (status, state) = probe(&operator, "/debug/state").await?;
        ensure!(status == 200, "{status}: {state}");
        let log = operator.stderr();
        world.finish(operator).await?;
        let shown = shown(&world).await?;
        for planted in planted(&world) {
            for (place, text) in [
                ("log", &log),
                ("objects and events", &shown),
                ("metrics", &metrics),
                ("diagnosis", &state),
            ] {
                ensure!(
                    !text.contains(&planted),
                    "the {place} show a secret at level {level}"
                );
            }
        }
        ensure!(!shown.contains(EXTRA), "extra specs show: {shown}");
        ensure!(!metrics.contains(EXTRA), "the metrics show extra specs");
        ensure!(!state.contains(EXTRA), "the diagnosis shows extra specs");
        ensure!(
            level == "5" || !log.contains(EXTRA),
            "extra specs are logged at level {level}"
        );
    }
    Ok(())
}

/// All secrets there are, as they are and as requests carry them.
fn planted(world: &World<'_>) -> Vec<String> {
    let key = app_key("app-key");
    let line = key.split("\\n").nth(3).unwrap_or_default();
    let plain = [
        "ghp_planted-token",
        "planted-webhook-secret",
        world.garm.password(),
        line,
    ];
    let encoded = plain.map(|text| BASE64.encode(text).trim_end_matches('=').to_owned());
    plain
        .map(str::to_owned)
        .into_iter()
        .chain(encoded)
        .collect()
}

/// What the operator tells in Kubernetes: statuses, its annotations, events.
async fn shown(world: &World<'_>) -> Result<String> {
    let mut shown = String::new();
    for kind in [
        "githubendpoint",
        "githubcredential",
        "repository",
        "organization",
        "pool",
        "runner",
    ] {
        for object in world.list(kind).await? {
            shown += &object["status"].to_string();
            let annotations = object["metadata"]["annotations"].as_object().cloned();
            let ours = annotations.unwrap_or_default().into_iter();
            let ours = ours.filter(|(name, _)| name.starts_with("garm-operator"));
            shown += &Value::Object(ours.collect()).to_string();
        }
    }
    for event in world.list("event").await? {
        shown += &event.to_string();
    }
    Ok(shown)
}
