//! Objects that cannot work, or not yet: they say why, others go on, and a correction is all it takes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::world::{SOON, World, condition, message, pool, secret, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_missing_secret_or_key_is_named_and_waited_for", secrets);
    suite.test_on_each_garm("an_impossible_pool_names_its_field_and_others_go_on", pools);
}

/// How soon an object is Ready after its Secret came, on a busy machine. Back-offs would be longer.
const WOKEN: Duration = Duration::from_secs(5);

async fn secrets(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Secret"));
    documents.push(secret("webhook-secret", "other", "planted-webhook-secret"));
    world.apply(&documents).await?;
    let reason = "FetchingWebhookSecretRefFailed";
    let waiting = world
        .wait_condition("githubcredential", "pat", "Ready", "False", reason)
        .await?;
    ensure!(
        message(&waiting, "Ready").contains("github-token"),
        "{}",
        condition(&waiting, "Ready")
    );
    // Longer than the first steps of a back-off.
    world.wait_calm(Duration::from_secs(3)).await?;
    ensure!(world.garm.proxy().count(0, "POST /github/credentials") == 0);

    world
        .apply(&[secret("github-token", "token", "ghp_planted-token")])
        .await?;
    let came = Instant::now();
    world.wait_ready("githubcredential", "pat").await?;
    ensure!(came.elapsed() < WOKEN, "{:?}", came.elapsed());

    let waiting = world
        .wait_condition("repository", "tools", "Ready", "False", reason)
        .await?;
    let shown = message(&waiting, "Ready");
    ensure!(
        shown.contains("webhook-secret") && shown.contains("\"secret\""),
        "{shown}"
    );
    world
        .apply(&[secret("webhook-secret", "secret", "planted-webhook-secret")])
        .await?;
    let came = Instant::now();
    // Ready comes with GARM's pool manager, of whose start v0.1.5 sends no word.
    let made = |object: &Value| {
        object["status"]["id"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    };
    world.wait("repository", "tools", "made", made).await?;
    ensure!(came.elapsed() < WOKEN, "{:?}", came.elapsed());
    world.wait_all_ready().await?;
    for name in ["pat", "tools", "small", "large"] {
        let warnings = world.events(name, "Warning", "Error").await?;
        ensure!(warnings.is_empty(), "waiting is no Warning: {warnings:?}");
    }

    // Another key, a label: nothing that GARM would have to know.
    world.wait_idle_runners(2).await?;
    world.wait_counted().await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    world
        .apply(
            &[secret("webhook-secret", "secret", "planted-webhook-secret")
                .replace("metadata: {", "metadata: {labels: {team: a}, ")],
        )
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    world.ensure_nothing_written(mark)?;
    world.finish(operator).await
}

async fn pools(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    let fields = "flavor: bad\n  minIdleRunners: 0\n  maxRunners: 1";
    let bad = [
        ("none", "maxRunners: 1", "maxRunners: 0", "spec.maxRunners"),
        (
            "huge",
            "maxRunners: 1",
            "maxRunners: 1000000000000",
            "spec.maxRunners",
        ),
        ("foreign", "osType: linux", "osType: foo", "spec.osType"),
        (
            "untagged",
            "tags: [untagged, linux]",
            "tags: []",
            "spec.tags",
        ),
        (
            "stray",
            "kind: Repository, name: tools",
            "kind: Image, name: runner",
            "spec.githubScopeRef.kind",
        ),
        (
            "garbled",
            "flavor: bad",
            "flavor: bad\n  extraSpecs: '{'",
            "spec.extraSpecs",
        ),
    ];
    for (name, from, to, _) in bad {
        documents.push(pool(name, fields).replace(from, to));
    }
    world.apply(&documents).await?;
    world.wait_all_ready().await?;
    for (name, _, _, field) in bad {
        let shown = world
            .wait_condition("pool", name, "Ready", "False", "InvalidSpec")
            .await?;
        let message = message(&shown, "Ready");
        ensure!(message.contains(field), "{name}: {message}");
        poll_until(SOON, "a Warning", async || {
            let events = world.events(name, "Warning", "Error").await?;
            Ok(Seen::when(events, |events| events.len() == 1))
        })
        .await?;
    }
    ensure!(
        world.garm.api().list("/pools").await?.len() == 2
            && world.garm.proxy().count(0, "POST /repositories/{id}/pools") == 2,
        "GARM was bothered"
    );
    world.wait_idle_runners(2).await?;
    world.wait_counted().await?;
    world.wait_calm(Duration::from_secs(2)).await?;

    let mark = world.mark();
    world
        .patch("pool", "none", json!({"spec": {"maxRunners": 1}}))
        .await?;
    world.wait_ready("pool", "none").await?;
    for (name, ..) in bad {
        world.delete("pool", name).await?;
    }
    for (name, ..) in bad {
        world.wait_gone("pool", name).await?;
    }
    let mut writes = told(&world.garm_writes(mark));
    writes.retain(|write| !write.starts_with("DELETE /instances"));
    ensure!(
        writes.len() == 4
            && writes[0].starts_with("POST")
            && writes[1].starts_with("PUT")
            && writes[3].starts_with("DELETE /pools"),
        "{writes:?}"
    );
    world.finish(operator).await
}
