//! Who leads and who stands by.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use kube::api::DeleteParams;

use super::{DURATION, LEASE, Replica, ensure_two_pools, holder, leases, pair, spec};
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("of_two_replicas_one_works_and_both_serve", one_works);
    suite.test("the_times_of_an_election_can_be_set", set_times);
    suite.test("a_lease_deleted_by_hand_stays_with_its_holder", deleted);
}

async fn one_works(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    world.wait_idle_runners(2).await?;

    let deeds = second.deeds(0, 0);
    ensure!(deeds.is_empty(), "the standby did {deeds:#?}");
    ensure!(second.lease_writes(0).is_empty(), "it wrote the Lease");
    ensure!(!second.leads().await? && first.leads().await?, "metrics");
    let client = reqwest::Client::new();
    for replica in [&first, &second] {
        for path in ["/healthz", "/readyz"] {
            let answer = client.get(replica.operator.health_url(path)).send().await?;
            ensure!(answer.status() == 200, "{path}: {}", answer.status());
        }
    }

    let spec = spec(&world).await?;
    ensure!(
        spec["leaseDurationSeconds"] == DURATION.as_secs() && spec["leaseTransitions"] == 0,
        "{spec}"
    );
    let holder = holder(&world).await?;
    let log = first.operator.stderr();
    ensure!(log.contains(&holder), "{holder} is not in the log");
    let events = world.events(LEASE, "Normal", "LeaderElection").await?;
    let note = events.first().map(|event| event["note"].to_string());
    ensure!(
        note.is_some_and(|note| note.contains("became leader")),
        "{events:?}"
    );
    world.finish(first.operator).await?;
    world.finish(second.operator).await
}

async fn set_times(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true")
        .argument("--operator-lease-duration=30m")
        .argument("--operator-lease-renew-deadline=20m")
        .argument("--operator-lease-retry-period=100ms");
    let replica = Replica::run(&world, world.plane.proxy().await?, command).await?;
    replica.wait_leads(true).await?;
    let spec = spec(&world).await?;
    ensure!(spec["leaseDurationSeconds"] == 1800, "{spec}");
    // By the default it would take a minute.
    world
        .wait_for("30 renewals", || replica.lease_writes(0).len() > 30)
        .await?;
    world.finish(replica.operator).await
}

async fn deleted(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    let before = holder(&world).await?;
    leases(&world)
        .delete(LEASE, &DeleteParams::default())
        .await?;
    poll_until(SOON, "the Lease is made anew", async || {
        let holder = holder(&world).await?;
        Ok(Seen::when(holder, |holder| *holder == before))
    })
    .await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    ensure!(first.leads().await? && !second.leads().await?, "metrics");
    ensure!(
        !first.operator.stderr().contains("lost the Lease"),
        "it was lost meanwhile"
    );
    let deeds = second.deeds(0, 0);
    ensure!(deeds.is_empty(), "the standby did {deeds:?}");
    world.finish(second.operator).await?;
    world.finish(first.operator).await
}
