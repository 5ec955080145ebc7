//! What the API server makes of our kinds: the CRDs apply twice and silently, columns, selectors and `/scale` work.

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, Ground};

use crate::world::{World, condition};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("crds_apply_twice_without_a_warning", apply_twice);
    suite.test("kubectl_selects_scales_and_shows_columns", kubectl_view);
}

async fn apply_twice(ground: &Ground) -> Result<()> {
    // As they are shipped they name a conversion webhook, which the tests on the shared control plane do not have.
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    for expected in ["created", "unchanged"] {
        let answer = plane.kubectl(&["apply", "-f", folder]).await?;
        let (out, err) = (
            String::from_utf8_lossy(&answer.stdout),
            String::from_utf8_lossy(&answer.stderr),
        );
        ensure!(answer.status.success() && err.is_empty(), "{err}");
        let count = out.lines().filter(|line| line.ends_with(expected)).count();
        ensure!(count == 9, "not all nine are {expected}:\n{out}");
    }
    plane.stop().await
}

async fn kubectl_view(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;

    for (selector, expected) in [
        ("status.poolId=small", 1),
        ("status.poolId=small,status.status=idle", 1),
        ("status.instanceStatus=running", 2),
        ("status.status=active", 0),
    ] {
        let names = world
            .kubectl(
                &["get", "runners", "--field-selector", selector, "-o", "name"],
                "",
            )
            .await?;
        ensure!(names.lines().count() == expected, "{selector}: {names}");
    }

    let pool = world.object("pool", "small").await?;
    let selector = pool["status"]["selector"].as_str().unwrap_or_default();
    let selected = world
        .kubectl(&["get", "runners", "-l", selector, "-o", "name"], "")
        .await?;
    ensure!(
        selected.lines().count() == 1,
        "{selector} selects {selected}"
    );

    let mark = world.garm.proxy().mark();
    world
        .kubectl(&["scale", "pool", "small", "--replicas=2"], "")
        .await?;
    world.wait_idle_runners(3).await?;
    let writes = world.garm.proxy().writes_since(mark);
    ensure!(writes.len() == 1, "one PUT for a scale, not {writes:?}");
    ensure!(
        writes[0].json() == serde_json::json!({"min_idle_runners": 2}),
        "{:?}",
        writes[0].json()
    );
    let all = [
        "-n",
        &world.namespace,
        "scale",
        "pool",
        "small",
        "--replicas=9",
    ];
    let refused = world.plane.kubectl(&all).await?;
    ensure!(
        !refused.status.success(),
        "more idle runners than the maximum were accepted"
    );

    let table = world.kubectl(&["get", "pools", "-o", "wide"], "").await?;
    for column in [
        "ID",
        "MINIDLERUNNERS",
        "MAXRUNNERS",
        "IMAGENAME",
        "FLAVOR",
        "PROVIDER",
        "SCOPETYPE",
        "SCOPENAME",
        "READY",
        "ERROR",
        "ENABLED",
        "AGE",
    ] {
        ensure!(
            table
                .lines()
                .next()
                .is_some_and(|head| head.contains(column)),
            "{column} is missing in\n{table}"
        );
    }
    for kind in [
        "githubendpoint ghes",
        "githubcredential pat",
        "repository tools",
        "pool small",
    ] {
        let (kind, name) = kind.split_once(' ').unwrap_or_default();
        let object = world.object(kind, name).await?;
        let ready = condition(&object, "Ready");
        ensure!(
            ready["observedGeneration"] == object["metadata"]["generation"],
            "{kind}: {ready}"
        );
        ensure!(ready["reason"] == "ReconcileSuccess", "{kind}: {ready}");
    }
    world.finish(operator).await
}
