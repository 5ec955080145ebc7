//! Objects that were stored under a looser schema and cannot be read: they are reported, can be deleted, and stop nobody else.

use anyhow::{Context as _, Result, ensure};
use garm_operator::generate::crds;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, GarmOptions, Ground, Operator};
use serde_json::json;

use crate::metrics::scrape::Scrape;
use crate::world::{SOON, World, join, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "an_object_that_cannot_be_read_stops_nobody_else",
        unreadable_pool,
    );
}

async fn unreadable_pool(ground: &Ground, version: GarmVersion) -> Result<()> {
    // A change of a CRD would disturb the tests beside this one.
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = on_own_plane(ground, &plane, version).await;
    plane.stop().await?;
    result
}

async fn on_own_plane(ground: &Ground, plane: &ControlPlane, version: GarmVersion) -> Result<()> {
    plane.install_crds(crds::definitions(), None).await?;
    loosen_flavor(plane).await?;
    let world = World::on(ground, plane, version, GarmOptions::default()).await?;
    let broken = pool("broken", "flavor: 7\n  maxRunners: 1");
    let doomed = pool("doomed", "flavor: 8\n  maxRunners: 1").replace(
        "metadata: {name: doomed}",
        "metadata: {name: doomed, finalizers: [garm-operator.mercedes-benz.com/pool]}",
    );
    world.apply(&[broken, doomed]).await?;
    plane.install_crds(crds::definitions(), None).await?;

    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    poll_until(SOON, "an event about the broken Pool", async || {
        let events = world.kubectl(&["get", "events", "-o", "json"], "").await?;
        let told = events.contains("cannot be read") && events.contains("spec.flavor");
        Ok(if told {
            Seen::Yes(())
        } else {
            Seen::NotYet(
                events
                    .lines()
                    .filter(|l| l.contains("message") || l.contains("\"name\""))
                    .collect(),
            )
        })
    })
    .await?;
    wait_undecodable(&operator, 2.0).await?;
    let pools = world.garm.api().list("/pools").await?;
    ensure!(
        pools.len() == 2,
        "GARM has pools for unreadable objects: {pools:?}"
    );

    world
        .kubectl(&["delete", "pool", "doomed", "--wait=false"], "")
        .await?;
    world.wait_gone("pool", "doomed").await?;
    wait_undecodable(&operator, 1.0).await?;
    world
        .kubectl(
            &["apply", "-f", "-"],
            &join(&[pool("broken", "flavor: small\n  maxRunners: 1")]),
        )
        .await?;
    world.wait_ready("pool", "broken").await?;
    wait_undecodable(&operator, 0.0).await?;
    world.finish(operator).await
}

/// Waits until the metrics count as many Pools that do not decode, and none of another kind.
async fn wait_undecodable(operator: &Operator, count: f64) -> Result<()> {
    poll_until(SOON, &format!("{count} undecodable Pools"), async || {
        let scrape = Scrape::of(operator).await?;
        let name = "garm_operator_invalid_objects";
        let pools = scrape.value(name, &[("kind", "Pool")]);
        let all = scrape.all(name, &[]);
        let is_sum = Some(all.map(|one| one.value).sum()) == pools;
        Ok(Seen::when(pools, |pools| is_sum && *pools == Some(count)).map(drop))
    })
    .await
}

/// Lets `flavor` be anything for a while, as an older or hand-made CRD may have.
async fn loosen_flavor(plane: &ControlPlane) -> Result<()> {
    let name = "pools.garm-operator.mercedes-benz.com";
    // The older version comes first.
    let flavor = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/flavor";
    let patch = json!([
        {"op": "replace", "path": flavor, "value": {"x-kubernetes-preserve-unknown-fields": true}},
    ]);
    plane
        .kubectl_ok(
            &[
                "patch",
                "crd",
                name,
                "--type=json",
                "-p",
                &patch.to_string(),
            ],
            "",
        )
        .await
        .context("loosen the CRD")?;
    // The API server takes a moment to serve a changed schema.
    poll_until(SOON, "the looser schema", async || {
        let probe = join(&[pool("probe", "flavor: 9\n  maxRunners: 1")]);
        let answer = plane
            .kubectl_with_input(&["apply", "--dry-run=server", "-f", "-"], &probe)
            .await?;
        Ok(if answer.status.success() {
            Seen::Yes(())
        } else {
            Seen::NotYet(String::from_utf8_lossy(&answer.stderr).into_owned())
        })
    })
    .await
}
