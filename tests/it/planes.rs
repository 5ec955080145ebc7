//! What needs a control plane of its own: all namespaces at once, and CRDs of another release.

use anyhow::{Context as _, Result, ensure};
use garm_operator::generate::crds;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, GarmOptions, Ground};
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::documents::apart;
use crate::place::Place;
use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("an_empty_list_of_namespaces_means_all", all_namespaces);
    suite.test(
        "a_status_field_that_an_older_crd_cuts_is_sent_once",
        older_crd,
    );
}

async fn all_namespaces(ground: &Ground) -> Result<()> {
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = three_namespaces(ground, &plane).await;
    plane.stop().await?;
    result
}

/// Waits until each of the two Pools of a namespace has its idle Runner there; answers the Runners.
async fn wait_runners(place: &Place<'_>) -> Result<Vec<Value>> {
    poll_until(SOON * 2, "two idle runners", async || {
        let runners = place.list("runners").await?;
        Ok(Seen::when(runners, |runners| {
            runners.len() == 2 && runners.iter().all(|one| one["status"]["status"] == "idle")
        }))
    })
    .await
}

async fn three_namespaces(ground: &Ground, plane: &ControlPlane) -> Result<()> {
    plane.install_crds(crds::definitions(), None).await?;
    let world = World::on(ground, plane, GarmVersion::V0_2_1, GarmOptions::default()).await?;
    let (second, third) = (Place::new(plane).await?, Place::new(plane).await?);
    let operator = world.start(&world.command_watching(&[])).await?;
    let of_second = apart(&world.manifests());
    let of_third: Vec<String> = of_second
        .iter()
        .map(|document| {
            document
                .replace("name: ghes-b}", "name: ghes-c}")
                .replace("name: pat-b}", "name: pat-c}")
                .replace("owner: umbrella", "owner: third")
        })
        .collect();
    world.apply(&world.manifests()).await?;
    second.apply(&of_second).await?;
    third.apply(&of_third).await?;
    for place in [&*world, &second, &third] {
        for runner in wait_runners(place).await? {
            let pool = runner["status"]["poolId"].as_str().context("no pool")?;
            let pool = place.object("pool", pool).await?;
            ensure!(
                runner["metadata"]["ownerReferences"][0]["uid"] == pool["metadata"]["uid"],
                "{runner}"
            );
        }
    }
    ensure!(world.garm.api().list("/pools").await?.len() == 6);
    let watches = world.kube.requests();
    ensure!(
        watches.iter().any(|request| {
            request.query.contains("watch=true") && !request.path.contains("/namespaces/")
        }),
        "one watch for all namespaces"
    );
    world.finish(operator).await
}

async fn older_crd(ground: &Ground) -> Result<()> {
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = without_counts(ground, &plane).await;
    plane.stop().await?;
    result
}

/// Takes the counts of runners out of the schema of Pools, which the Go operator does not have either.
async fn forget_counts(plane: &ControlPlane) -> Result<()> {
    // In both versions, the stored one last.
    let cut = [0, 1].map(|version| {
        let schema = format!("/spec/versions/{version}/schema/openAPIV3Schema");
        json!({"op": "remove", "path": format!("{schema}/properties/status/properties/runners")})
    });
    let patch = json!(cut).to_string();
    let name = "pools.garm-operator.mercedes-benz.com";
    plane
        .kubectl_ok(&["patch", "crd", name, "--type=json", "-p", &patch], "")
        .await
        .context("cut the CRD")
        .map(drop)
}

async fn without_counts(ground: &Ground, plane: &ControlPlane) -> Result<()> {
    plane.install_crds(crds::definitions(), None).await?;
    forget_counts(plane).await?;
    let world = World::on(ground, plane, GarmVersion::V0_2_1, GarmOptions::default()).await?;
    // A resync each 3 s.
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    resyncs(&world, 2).await?;
    let pool = world.object("pool", "small").await?;
    ensure!(pool["status"]["runners"].is_null(), "not cut: {pool}");

    let mark = world.mark();
    resyncs(&world, 10).await?;
    world.ensure_nothing_written(mark)?;

    // Something else wakes it, and then something differs.
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    world.patch("pool", "small", label).await?;
    let pause = |value: Value| json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/paused": value}}});
    world.patch("pool", "small", pause("true".into())).await?;
    world
        .wait_condition("pool", "small", "Paused", "True", "Paused")
        .await?;
    resyncs(&world, 2).await?;
    let writes = world.kube_writes(mark);
    ensure!(
        writes.len() == 1 && writes[0].path.ends_with("/pools/small/status"),
        "{:#?}",
        told(&writes)
    );
    world.finish(operator).await
}
