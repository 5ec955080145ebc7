//! The main path: everything applied, everything Ready, runners visible, everything deleted.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;

use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "everything_in_reverse_order_becomes_ready_and_goes_again",
        reverse_order,
    );
}

async fn reverse_order(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.reverse();
    world.apply(&documents).await?;
    world.wait_all_ready().await?;

    let runners = world.wait_idle_runners(2).await?;
    for runner in &runners {
        ensure!(
            runner["metadata"]["ownerReferences"][0]["kind"] == "Pool",
            "owner: {runner}"
        );
        ensure!(
            runner["metadata"]["finalizers"][0] == "garm-operator.mercedes-benz.com/runner",
            "finalizer: {runner}"
        );
    }

    world
        .kubectl(
            &["delete", "-f", "-", "--wait=false"],
            &crate::world::join(&world.manifests()),
        )
        .await?;
    for (kind, name) in [
        ("pool", "small"),
        ("pool", "large"),
        ("repository", "tools"),
        ("githubcredential", "pat"),
        ("githubendpoint", "ghes"),
    ] {
        world.wait_gone(kind, name).await?;
    }
    for path in [
        "/pools",
        "/repositories",
        "/github/credentials",
        "/instances",
    ] {
        let left = world.garm.api().list(path).await?;
        ensure!(left.is_empty(), "{path} still holds {left:?}");
    }
    ensure!(
        world.list("runners").await?.is_empty(),
        "runner objects are left"
    );
    world.finish(operator).await
}
