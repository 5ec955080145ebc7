//! What creations and providers leave behind.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{FAILING_FLAVOR, Ground};
use serde_json::{Value, json};

use crate::world::{Mark, SOON, World, condition, message, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "a_marked_pool_of_nobody_goes_when_it_is_old_and_empty",
        orphans,
    );
    suite.test_on_each_garm("runners_that_cannot_be_made_show_on_their_pool", failed);
    suite.test_on_each_garm(
        "failed_runners_go_after_their_time_if_asked_for",
        failed_ttl,
    );
    suite.test_on_each_garm(
        "an_unknown_provider_is_named_and_not_tried_for_ever",
        provider,
    );
}

const DELETE: &str = "DELETE /instances/{name}";

/// Everything but pools.
async fn base(world: &World<'_>) -> Result<()> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    Ok(())
}

/// A pool made by hand; answers its id.
async fn by_hand(world: &World<'_>, prefix: &str, enabled: bool) -> Result<String> {
    let wanted = json!({
        "provider_name": "fake",
        "max_runners": 1,
        "min_idle_runners": u8::from(enabled),
        "image": "hand",
        "flavor": "hand",
        "os_type": "linux",
        "os_arch": "amd64",
        "tags": ["hand"],
        "runner_bootstrap_timeout": 20,
        "enabled": enabled,
        "runner_prefix": prefix,
    });
    let path = format!(
        "/repositories/{}/pools",
        world.id("repository", "tools").await?
    );
    let made = world.garm.api().post(&path, &wanted).await?;
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

async fn orphans(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // Old is 15 s.
    let command = world.command().argument("--timings-scale=0.05");
    let operator = world.start(&command).await?;
    base(&world).await?;
    let marker = |n: u8| format!("new-01234567-89ab-cdef-0123-4567890000{n:02}");
    let plain = by_hand(&world, "team", false).await?;
    let enabled = by_hand(&world, &marker(1), true).await?;
    let with_runner = by_hand(&world, &marker(2), true).await?;
    let runners = async || {
        let instances = world
            .garm
            .api()
            .list(&format!("/pools/{with_runner}/instances"))
            .await?;
        Ok(Seen::when(instances.len(), |count| *count == 1))
    };
    poll_until(SOON, "it has a runner", runners).await?;
    let disabled = json!({"enabled": false});
    world
        .garm
        .api()
        .put(&format!("/pools/{with_runner}"), &disabled)
        .await?;
    let mark = world.mark();
    let old = by_hand(&world, &marker(3), false).await?;
    let made = std::time::Instant::now();
    world
        .wait_for("the old one goes", || {
            world.garm_count(mark, "DELETE /pools/{id}") > 0
        })
        .await?;
    ensure!(
        made.elapsed() > Duration::from_secs(12),
        "it was just made: {:?}",
        made.elapsed()
    );
    for id in [&enabled, &with_runner] {
        world
            .wait_for("the others are looked at", || {
                world.garm_requests(mark).iter().any(|request| {
                    request.method == http::Method::GET && request.path.ends_with(id)
                })
            })
            .await?;
    }
    let writes = world.garm_writes(mark);
    ensure!(
        writes.len() == 1 && writes[0].path.ends_with(&old),
        "{:?}",
        told(&writes)
    );
    let left = world.garm.api().list("/pools").await?;
    for id in [&plain, &enabled, &with_runner] {
        ensure!(
            left.iter().any(|pool| pool["id"] == id.as_str()),
            "{id} is gone"
        );
    }
    world.finish(operator).await
}

/// A pool whose runners the provider cannot make.
fn failing() -> String {
    pool(
        "failing",
        &format!("flavor: {FAILING_FLAVOR}\n  minIdleRunners: 1\n  maxRunners: 1"),
    )
}

/// Waits until the Pool tells of one failed runner and why.
async fn shows_failure(world: &World<'_>) -> Result<Value> {
    world
        .wait("pool", "failing", "it tells of the failed runner", |pool| {
            condition(pool, "FailedRunners")["status"] == "True"
        })
        .await
}

async fn failed(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    base(&world).await?;
    world.apply(&[failing()]).await?;
    let pool = shows_failure(&world).await?;
    let told = message(&pool, "FailedRunners");
    ensure!(told.starts_with("1 of the runners"), "{told}");
    ensure!(!told.contains("gives no cause"), "{told}");
    ensure!(
        condition(&pool, "Ready")["status"] == "True",
        "the pool itself is as it should be: {pool}"
    );
    world
        .wait("pool", "failing", "it is counted", |pool| {
            pool["status"]["runners"]["failed"] == 1
        })
        .await?;
    let runners = world.list("runners").await?;
    let fault = runners[0]["status"]["providerFault"]
        .as_str()
        .unwrap_or_default();
    ensure!(told.contains(fault.trim()), "{fault:?} is not in {told}");
    // Nobody asked for more than to be told.
    ensure!(world.garm_count(Mark::START, DELETE) == 0, "it was removed");
    world.finish(operator).await
}

async fn failed_ttl(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    base(&world).await?;
    world.apply(&[failing()]).await?;
    shows_failure(&world).await?;
    // Nothing comes of this time: that is the test. Calm it is not, since v0.1.5 tries again.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let runners = world.list("runners").await?;
    let name = runners[0]["status"]["name"].as_str().unwrap_or_default();
    ensure!(world.garm_count(Mark::START, DELETE) == 0, "off by default");
    world.finish(operator).await?;

    let mark = world.mark();
    let command = world.command().argument("--operator-failed-runner-ttl=5s");
    let operator = world.start(&command).await?;
    world
        .wait_for("the failed one goes", || world.garm_count(mark, DELETE) > 0)
        .await?;
    let writes = world.garm_writes(mark);
    ensure!(
        writes.len() == 1 && writes[0].path.ends_with(name),
        "{:?}",
        told(&writes)
    );
    let events = async || {
        Ok(Seen::when(
            world.events("failing", "Normal", "Scaling").await?,
            |events| !events.is_empty(),
        ))
    };
    poll_until(SOON, "an event tells", events).await?;
    world
        .garm
        .provider()
        .fail_creates_of_flavor(FAILING_FLAVOR, None)?;
    world.finish(operator).await
}

async fn provider(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    base(&world).await?;
    let mark = world.mark();
    let wrong = pool(
        "small",
        "flavor: small\n  minIdleRunners: 0\n  maxRunners: 1",
    )
    .replace("providerName: fake", "providerName: nimbus");
    world.apply(std::slice::from_ref(&wrong)).await?;
    let refused = world
        .wait_condition("pool", "small", "Ready", "False", "GarmAPIError")
        .await?;
    let told_so = message(&refused, "Ready");
    ensure!(
        told_so.contains("spec.providerName")
            && told_so.contains("nimbus")
            && told_so.contains("fake"),
        "{told_so}"
    );
    // v0.1.5 answers to it as if its database were locked.
    let posts = || {
        let requests = world.garm_requests(mark).into_iter();
        requests
            .filter(|request| request.route == "POST /repositories/{id}/pools")
            .count()
    };
    world.wait_for("three tries", || posts() >= 3).await?;
    // A label is no new spec.
    world
        .patch(
            "pool",
            "small",
            json!({"metadata": {"labels": {"team": "a"}}}),
        )
        .await?;
    world.wait_calm(Duration::from_secs(8)).await?;
    ensure!(posts() == 3, "{:?}", told(&world.garm_writes(mark)));

    world
        .patch("pool", "small", json!({"spec": {"providerName": "fake"}}))
        .await?;
    world.wait_ready("pool", "small").await?;
    ensure!(posts() == 4, "{:?}", told(&world.garm_writes(mark)));
    world.finish(operator).await
}
