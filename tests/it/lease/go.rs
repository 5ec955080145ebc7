//! The Go operator stands for the same Lease.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{DURATION, LEASE, Replica, TAKE_OVER, leases, spec};
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "a_lease_of_the_go_operator_is_waited_for_until_it_expires",
        held_by_go,
    );
    suite.test(
        "a_lease_that_the_go_operator_gives_back_is_taken_at_once",
        given_back_by_go,
    );
}

/// A holder that was a Go operator: its host name and a UUID.
const GO: &str = "garm-operator-controller-manager-6d5f_0c9d4f60-5f0a-4c26-8f39-5a0b8a4ad7a5";

/// A Lease as the Go operator leaves it.
fn of_go(holder: &str, seconds: i32) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    let now = format!("{now:.6}");
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 2,
        },
    })
}

async fn write_as_go(world: &World<'_>, holder: &str, seconds: i32) -> Result<()> {
    let patch = Patch::Merge(of_go(holder, seconds));
    leases(world)
        .patch(LEASE, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn held_by_go(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let lease = serde_json::from_value(of_go(GO, 4))?;
    leases(&world)
        .create(&PostParams::default(), &lease)
        .await?;
    let ours = Replica::start(&world).await?;
    ours.wait_log(GO).await?;
    // For longer than the Lease lasts, it is renewed.
    let mut renewed = Instant::now();
    let begun = renewed;
    let mut rounds = tokio::time::interval(Duration::from_millis(500));
    while begun.elapsed() < Duration::from_secs(6) {
        rounds.tick().await;
        renewed = Instant::now();
        write_as_go(&world, GO, 4).await?;
    }
    let deeds = ours.deeds(0, 0);
    ensure!(deeds.is_empty(), "while another holds the Lease: {deeds:?}");
    ensure!(ours.lease_writes(0).is_empty(), "it wrote the Lease");

    ours.wait_leads(true).await?;
    let asked = poll_until(SOON, "a request to GARM", async || {
        let first = ours.garm.requests().first().map(|request| request.at);
        Ok(first.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Yes))
    })
    .await?;
    ensure!(
        asked.duration_since(renewed) >= Duration::from_secs(4),
        "too early: {:?}",
        asked.duration_since(renewed)
    );
    let spec = spec(&world).await?;
    ensure!(spec["leaseTransitions"] == 3, "{spec}");
    ensure!(spec["leaseDurationSeconds"] == DURATION.as_secs(), "{spec}");
    world.finish(ours.operator).await
}

async fn given_back_by_go(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let lease = serde_json::from_value(of_go(GO, 600))?;
    leases(&world)
        .create(&PostParams::default(), &lease)
        .await?;
    let ours = Replica::start(&world).await?;
    ours.wait_log(GO).await?;
    ensure!(ours.deeds(0, 0).is_empty(), "while another holds the Lease");
    let given = Instant::now();
    write_as_go(&world, "", 1).await?;
    ours.wait_leads(true).await?;
    let taken = ours.lease_writes(0);
    let taken = taken.first().context("not taken")?.at;
    ensure!(
        taken.duration_since(given) < TAKE_OVER,
        "taken after {:?}",
        taken.duration_since(given)
    );
    world.finish(ours.operator).await
}
