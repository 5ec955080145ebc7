//! Equal Pools that slipped through: both work, and the younger shows it as long as it is so.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::equal_pools::{DUPLICATE, twin};
use crate::world::{World, condition, image, message};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "equal_pools_that_slipped_through_both_work_and_the_younger_says_so",
        slipped_through,
    );
    suite.test(
        "images_that_get_one_tag_make_their_pools_duplicates_until_they_part",
        by_image,
    );
}

/// Starts the operator on a namespace in which a Pool needs nothing more to work.
async fn prepared(world: &World<'_>) -> Result<garm_operator_ground::Operator> {
    let command = world.command().argument("--operator-sync-period=2s");
    let operator = world.start(&command).await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.starts_with("kind: Pool"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    Ok(operator)
}

/// Waits until a Pool shows that it is a duplicate of this other one.
async fn wait_duplicate(world: &World<'_>, name: &str, other: &str) -> Result<Value> {
    let what = format!("is a duplicate of {other}");
    world
        .wait("pool", name, &what, |pool| {
            condition(pool, DUPLICATE)["status"] == "True"
                && message(pool, DUPLICATE).contains(&format!("Pool {other:?}"))
        })
        .await
}

async fn wait_unique(world: &World<'_>, name: &str) -> Result<()> {
    let shown = world
        .wait("pool", name, "is no duplicate", |pool| {
            condition(pool, DUPLICATE).is_null()
        })
        .await;
    shown.map(|_| ())
}

async fn slipped_through(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = prepared(&world).await?;
    let mark = world.mark();
    world.apply(&[twin("a"), twin("b")]).await?;
    for name in ["a", "b"] {
        world.wait_ready("pool", name).await?;
    }
    let younger = wait_duplicate(&world, "b", "a").await?;
    ensure!(condition(&younger, "Ready")["status"] == "True");
    ensure!(condition(&younger, DUPLICATE)["reason"] == DUPLICATE);
    ensure!(condition(&world.object("pool", "a").await?, DUPLICATE).is_null());
    ensure!(world.id("pool", "a").await? != world.id("pool", "b").await?);
    ensure!(world.garm_count(mark, "POST /repositories/{id}/pools") == 2);
    ensure!(world.garm_count(mark, "PUT /pools/{id}") == 2);

    world.wait_resyncs(world.mark(), 2).await?;
    let mark = world.mark();
    world.wait_resyncs(mark, 10).await?;
    world.ensure_nothing_written(mark)?;

    let flavor = |flavor: &str| json!({"spec": {"flavor": flavor}});
    world.change("pool", "a", flavor("other")).await?;
    wait_unique(&world, "b").await?;
    world.change("pool", "a", flavor("tiny")).await?;
    wait_duplicate(&world, "b", "a").await?;
    // What is not compared parts them no more than it made them the same.
    let numbers = json!({"spec": {"maxRunners": 7, "priority": 3, "tags": ["TWIN", "Linux"]}});
    world.change("pool", "b", numbers).await?;
    wait_duplicate(&world, "b", "a").await?;
    world.delete("pool", "a").await?;
    wait_unique(&world, "b").await?;
    world.wait_gone("pool", "a").await?;
    world.finish(operator).await
}

async fn by_image(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = prepared(&world).await?;
    let other = twin("b").replace("imageName: runner", "imageName: alias");
    let documents = [image("alias", "alias:1"), twin("a"), other];
    world.apply(&documents).await?;
    for name in ["a", "b"] {
        world.wait_ready("pool", name).await?;
        wait_unique(&world, name).await?;
    }
    let tag = |tag: &str| json!({"spec": {"tag": tag}});
    world.patch("image", "alias", tag("runner:1")).await?;
    let younger = wait_duplicate(&world, "b", "a").await?;
    let shown = message(&younger, DUPLICATE);
    ensure!(shown.contains(r#"Images "alias" and "runner""#), "{shown}");
    // A change of the Image of the older one.
    world.patch("image", "runner", tag("runner:2")).await?;
    wait_unique(&world, "b").await?;
    world.patch("image", "runner", tag("runner:1")).await?;
    wait_duplicate(&world, "b", "a").await?;
    world.delete("image", "alias").await?;
    wait_unique(&world, "b").await?;
    world.apply(&documents[..1]).await?;
    world.patch("image", "alias", tag("runner:1")).await?;
    wait_duplicate(&world, "b", "a").await?;
    world.finish(operator).await
}
