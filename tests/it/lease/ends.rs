//! However a leader goes, in the midst of a creation: another one takes over, and what was begun is finished once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use serde_json::json;

use super::{DURATION, Replica, TAKE_OVER, ensure_two_pools, pair, spec};
use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_killed_leader_is_followed_when_its_lease_expires", killed);
    suite.test_on_each_garm("a_stopped_leader_is_followed_at_once", stopped);
    suite.test("a_frozen_leader_begins_nothing_when_it_thaws", frozen);
    suite.test("a_leader_cut_off_stops_and_comes_back", cut_off);
}

const POST_POOL: &str = "POST /repositories/{id}/pools";

async fn killed(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_1_5).await?;
    let (mut first, second) = pair(&world).await?;
    let held = first
        .garm
        .rule(Matcher::route(POST_POOL), Fault::HoldAnswer(Release::new()));
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a pool is made", async || {
        let pools = world.garm.api().list("/pools").await?;
        Ok(Seen::when(pools.len(), |count| {
            *count == held.hits() && *count > 0
        }))
    })
    .await?;
    first.operator.kill().await?;
    let renewals = first.lease_writes(0);
    let renewed = renewals.last().context("it never had the Lease")?.at;

    second.wait_leads(true).await?;
    ensure_two_pools(&world).await?;
    let asked = second.garm.requests();
    let asked = asked.first().context("it has asked for nothing")?.at;
    ensure!(
        asked.duration_since(renewed) >= DURATION,
        "taken over after {:?}",
        asked.duration_since(renewed)
    );
    ensure!(spec(&world).await?["leaseTransitions"] == 1, "transitions");
    world.finish(second.operator).await
}

async fn stopped(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let (mut first, second) = pair(&world).await?;
    let held = first.garm.rule(
        Matcher::route(POST_POOL).times(1),
        Fault::HoldAnswer(Release::new()),
    );
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a held creation", async || {
        Ok(Seen::when(held.hits(), |hits| *hits > 0))
    })
    .await?;
    let asked_to_end = Instant::now();
    let status = first.operator.terminate(Duration::from_secs(10)).await?;
    ensure!(status.success(), "it ended with {status}");
    ensure_two_pools(&world).await?;

    let release = first.lease_writes(0).pop().context("no Lease")?;
    ensure!(
        release.json()["spec"]["holderIdentity"] == ""
            && release.json()["spec"]["leaseDurationSeconds"] == 1,
        "not given back: {}",
        release.json()
    );
    let taken = second.garm.requests();
    let taken = taken.first().context("the second did nothing")?.at;
    ensure!(
        taken.duration_since(asked_to_end) < TAKE_OVER,
        "taken over after {:?}",
        taken.duration_since(asked_to_end)
    );
    // What it had begun was on its way when it asked.
    let late = release.at + Duration::from_millis(100);
    let mut after = first.garm.requests();
    after.extend(first.kube.writes_since(0));
    after.retain(|one| one.at > late);
    ensure!(after.is_empty(), "it went on with {:?}", told(&after));
    ensure!(second.garm.count(0, "PUT /pools/{id}") >= 2, "not finished");
    world.finish(second.operator).await
}

async fn frozen(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    let release = Release::new();
    let held = first.garm.rule(
        Matcher::route(POST_POOL).times(1),
        Fault::HoldAnswer(release.clone()),
    );
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a held creation", async || {
        Ok(Seen::when(held.hits(), |hits| *hits > 0))
    })
    .await?;
    first.operator.freeze();
    second.wait_leads(true).await?;
    ensure_two_pools(&world).await?;

    // Work for whoever believes to lead: changes of objects, and an answer that a pass waits for.
    let more = json!({"spec": {"maxRunners": 7}});
    world.change("pool", "small", more.clone()).await?;
    release.release();
    let (garm, kube) = (first.garm.mark(), first.kube.mark());
    first.operator.thaw();
    first.wait_leads(false).await?;
    first.wait_log("another replica leads").await?;
    world.change("pool", "large", more).await?;
    let deeds = first.deeds(garm, kube);
    ensure!(deeds.is_empty(), "the thawed one did {deeds:#?}");
    ensure!(
        first.lease_writes(kube).is_empty(),
        "it wrote the Lease: {:?}",
        told(&first.lease_writes(kube))
    );

    // It is a standby like any other, and can lead again.
    let mark = world.garm.api().list("/pools").await?.len();
    world.finish(second.operator).await?;
    first.wait_leads(true).await?;
    let fewer = json!({"spec": {"maxRunners": 5}});
    world.change("pool", "small", fewer).await?;
    ensure!(first.garm.count(garm, "PUT /pools/{id}") == 1, "one change");
    ensure!(
        world.garm.api().list("/pools").await?.len() == mark,
        "a pool was doubled"
    );
    world.finish(first.operator).await
}

async fn cut_off(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let first = Replica::start(&world).await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    ensure!(first.garm.sockets() == 1, "no events socket");

    first.kube.refuse(true);
    first.wait_leads(false).await?;
    poll_until(SOON, "the connection to GARM is given up", async || {
        Ok(Seen::when(first.garm.sockets(), |sockets| *sockets == 0))
    })
    .await?;
    let mark = first.garm.mark();
    // News from GARM, which nobody may act upon.
    let id = world.id("pool", "small").await?;
    let drift = json!({"max_runners": 9});
    world
        .garm
        .api()
        .put(&format!("/pools/{id}"), &drift)
        .await?;
    let second = Replica::start(&world).await?;
    second.wait_leads(true).await?;
    poll_until(SOON, "the drift is undone", async || {
        let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
        Ok(Seen::when(pool["max_runners"].clone(), |max| *max == 3))
    })
    .await?;
    ensure!(
        first.garm.since(mark).is_empty(),
        "{:?}",
        told(&first.garm.since(mark))
    );

    let kube = first.kube.mark();
    first.kube.refuse(false);
    first.wait_log("another replica leads").await?;
    ensure!(first.deeds(mark, kube).is_empty(), "it is a standby");
    second.kube.refuse(true);
    first.wait_leads(true).await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    ensure_two_pools(&world).await?;
    second.wait_leads(false).await?;
    world.finish(first.operator).await?;

    // The one that is cut off still ends in good time, and what it cannot give back is not its own any more.
    world.finish(second.operator).await
}
