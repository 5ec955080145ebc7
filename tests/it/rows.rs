//! Promises about whole lives: hooks of others stay, a GitHub that refuses is waited for, and events tell what happens.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Job, Owner};
use serde_json::json;

use crate::documents::entity;
use crate::world::{SOON, World, pool, secret, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "a_pool_whose_runners_github_keeps_waits_and_goes_after_it",
        refused_by_github,
    );
    suite.test_on_each_garm("a_hook_outlives_the_entity_that_did_not_install_it", hooks);
    suite.test_on_each_garm("labels_and_annotations_of_others_are_no_change", labels);
    suite.test_on_each_garm("events_tell_the_life_of_a_pool", life);
}

const TOKEN: &str = "ghp_planted-token";
const LOGIN: &str = "POST /auth/login";

async fn refused_by_github(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    world.garm.github().refuse_token(TOKEN);
    world.delete("pool", "small").await?;
    world
        .wait_condition("pool", "small", "Ready", "False", "PoolManagerNotRunning")
        .await?;
    let tries = || world.garm_count(mark, "DELETE /instances/{name}");
    world.wait_for("three tries", || tries() >= 3).await?;
    ensure!(world.garm_count(mark, LOGIN) == 0, "logged in again");
    let warnings = world.events("small", "Warning", "Error").await?;
    ensure!(warnings.is_empty(), "a wait is no failure: {warnings:?}");
    ensure!(world.get("pool", "small").await?.is_some(), "it went");

    match version {
        // It tries a stopped manager again after minutes only, but at once with another token.
        GarmVersion::V0_1_5 => {
            let token = secret("github-token", "token", "ghp_planted-token-of-today");
            world.apply(&[token]).await?;
        }
        GarmVersion::V0_2_1 => world.garm.github().accept_token(TOKEN),
    }
    poll_until(Duration::from_secs(120), "the pool goes", async || {
        let pool = world.get("pool", "small").await?;
        Ok(Seen::when(pool, Option::is_none))
    })
    .await?;
    ensure!(world.garm.api().list("/pools").await?.len() == 1);
    world.finish(operator).await
}

async fn hooks(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    documents.push(entity("Organization", "umbrella", "pat"));
    documents.push(entity("Enterprise", "big", "pat"));
    world.apply(&documents).await?;
    let entities = [
        ("repository", "tools", "repositories", "repos/acme/tools"),
        ("organization", "umbrella", "organizations", "orgs/umbrella"),
    ];
    for (kind, name, route, hooks) in entities {
        world.wait_ready(kind, name).await?;
        let id = world.id(kind, name).await?;
        let path = format!("/{route}/{id}/webhook");
        world.garm.api().post(&path, &json!({})).await?;
        ensure!(world.garm.github().hooks(hooks).len() == 1);
    }
    world.wait_ready("enterprise", "big").await?;

    let mark = world.mark();
    for (kind, name, _, hooks) in entities {
        world.delete(kind, name).await?;
        world.wait_gone(kind, name).await?;
        ensure!(
            world.garm.github().hooks(hooks).len() == 1,
            "the hook of {name} is gone"
        );
    }
    world.delete("enterprise", "big").await?;
    world.wait_gone("enterprise", "big").await?;
    let asked: Vec<String> = world
        .garm_writes(mark)
        .iter()
        .map(|write| format!("{}?{}", write.route, write.query))
        .collect();
    ensure!(
        asked
            == [
                "DELETE /repositories/{id}?keepWebhook=true",
                "DELETE /organizations/{id}?keepWebhook=true",
                "DELETE /enterprises/{id}?",
            ],
        "{asked:?}"
    );
    world.finish(operator).await
}

async fn labels(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    for (kind, name) in [
        ("githubendpoint", "ghes"),
        ("githubcredential", "pat"),
        ("repository", "tools"),
        ("pool", "small"),
    ] {
        for change in [
            json!({"labels": {"team": "a"}}),
            json!({"annotations": {"example.com/note": "seen"}}),
            json!({"labels": {"team": null}, "annotations": {"example.com/note": null}}),
        ] {
            world.patch(kind, name, json!({"metadata": change})).await?;
        }
        // What comes last tells that the others have come.
        let pause = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/paused": "true"}}});
        world.patch(kind, name, pause).await?;
        world
            .wait_condition(kind, name, "Paused", "True", "Paused")
            .await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    let requests = world.garm_requests(mark);
    ensure!(requests.is_empty(), "{:?}", told(&requests));
    let writes = world.kube_writes(mark);
    ensure!(
        writes.len() == 4 && writes.iter().all(|write| write.path.ends_with("/status")),
        "more than that each is paused: {:?}",
        told(&writes)
    );
    world.finish(operator).await
}

/// Waits until an event tells that an idle runner is removed; GARM may make another one for the job, which goes as well.
async fn wait_scaling(world: &World<'_>) -> Result<()> {
    poll_until(SOON, "the idle runner is scaled down", async || {
        let events = world.events("small", "Normal", "Scaling").await?;
        Ok(Seen::when(events, |events| !events.is_empty()))
    })
    .await?;
    Ok(())
}

async fn life(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // Back-off ends at 3 s, and idle runners are old after 1 s.
    let command = world
        .command()
        .argument("--timings-scale=0.01")
        .argument("--operator-min-idle-runners-age=1s");
    let operator = world.start(&command).await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    documents.push(pool(
        "small",
        "flavor: small\n  minIdleRunners: 1\n  maxRunners: 3",
    ));
    world.apply(&documents).await?;
    world.wait_ready("pool", "small").await?;
    world.wait_idle_runners(1).await?;
    world.wait_events("small", "Normal", "Info", 1).await?;

    world
        .change("pool", "small", json!({"spec": {"maxRunners": 1}}))
        .await?;
    world.wait_events("small", "Normal", "Updating", 1).await?;
    // A job that waits keeps GARM itself from scaling down.
    let owner = Owner::repository("acme", "tools");
    let job = Job::new(owner, "planted-webhook-secret", &["small", "linux"]);
    world.garm.job_queued(&job).await?;
    let mark = world.mark();
    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 0}}))
        .await?;
    world.wait_events("small", "Normal", "Updating", 2).await?;
    wait_scaling(&world).await?;
    ensure!(
        world.garm_count(mark, "DELETE /instances/{name}") > 0,
        "nothing was scaled down"
    );

    let fault = world.garm.proxy().rule(
        Matcher::route("PUT /pools/{id}"),
        Fault::garm_error(http::StatusCode::BAD_REQUEST, "Bad Request", "not today"),
    );
    world
        .patch("pool", "small", json!({"spec": {"maxRunners": 4}}))
        .await?;
    world.wait_for("20 failures", || fault.hits() >= 20).await?;
    let failures = world.wait_events("small", "Warning", "Error", 1).await?;
    let note = failures[0]["note"].as_str().unwrap_or_default();
    ensure!(note.contains("not today"), "{note}");
    let counted = failures[0]["series"]["count"].as_u64().unwrap_or_default();
    ensure!((15..=fault.hits() as u64).contains(&counted), "{counted}");
    fault.remove();
    world.wait_ready("pool", "small").await?;

    world.delete("pool", "small").await?;
    world.wait_gone("pool", "small").await?;
    world.wait_events("small", "Normal", "Deleting", 1).await?;
    let reasons = [
        "Creating", "Updating", "Deleting", "Scaling", "Error", "Info",
    ];
    for event in world.list("event").await? {
        let note = event["note"].as_str().unwrap_or_default();
        let reason = event["reason"].as_str().unwrap_or_default();
        ensure!(
            !note.is_empty()
                && reasons.contains(&reason)
                && (event["type"] == "Warning") == (reason == "Error"),
            "{event}"
        );
    }
    world.finish(operator).await
}
