//! A change of an object reaches GARM as one request that carries what changed, and nothing else.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use serde_json::json;

use crate::world::{SOON, World, condition, image, message, pool, told};

/// How soon a Pool is Ready after what it waited for has come, and what a busy machine may add.
const WOKEN: Duration = Duration::from_secs(2);
const NOISE: Duration = Duration::from_secs(3);

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_changed_field_is_one_put_of_that_field", one_field);
    suite.test_on_each_garm("an_image_rolls_to_its_pools_and_to_no_others", image_tag);
    suite.test_on_each_garm("a_pool_waits_for_its_image", pool_before_image);
}

async fn one_field(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    let changed = world
        .patch("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    let generation = &changed["metadata"]["generation"];
    world
        .wait("pool", "small", "the new spec is Ready", |pool| {
            let ready = condition(pool, "Ready");
            ready["status"] == "True" && ready["observedGeneration"] == *generation
        })
        .await?;
    let id = world.id("pool", "small").await?;
    let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(pool["max_runners"] == 5, "{pool}");

    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = world.garm_writes(mark);
    ensure!(
        told(&writes) == ["PUT /pools/{id} {\"max_runners\":5}"],
        "{:?}",
        told(&writes)
    );
    ensure!(writes[0].path.ends_with(&id), "{}", writes[0].path);
    // The generation in the conditions, and the time of the push.
    ensure!(
        world.kube_writes(mark).len() <= 2,
        "{:?}",
        told(&world.kube_writes(mark))
    );
    for condition in world.object("pool", "small").await?["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        ensure!(
            condition["observedGeneration"] == *generation,
            "{condition}"
        );
    }
    world.finish(operator).await
}

async fn image_tag(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.push(image("other", "other:1"));
    documents.push(
        pool(
            "third",
            "flavor: third\n  minIdleRunners: 0\n  maxRunners: 1",
        )
        .replace("imageName: runner", "imageName: other"),
    );
    world.apply(&documents).await?;
    world.wait_all_ready().await?;
    world.wait_ready("pool", "third").await?;
    world.wait_idle_runners(2).await?;
    world.wait_counted().await?;
    world.wait_calm(Duration::from_secs(2)).await?;

    let mark = world.mark();
    world
        .patch("image", "runner", json!({"spec": {"tag": "runner:2"}}))
        .await?;
    poll_until(SOON, "both pools have the new image", async || {
        let pools = world.garm.api().list("/pools").await?;
        let new = pools.iter().filter(|pool| pool["image"] == "runner:2");
        Ok(Seen::when(new.count(), |count| *count == 2))
    })
    .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let put = "PUT /pools/{id} {\"image\":\"runner:2\"}";
    let writes = world.garm_writes(mark);
    ensure!(told(&writes) == [put, put], "{:?}", told(&writes));
    ensure!(
        writes[0].path != writes[1].path,
        "one pool was changed twice"
    );

    let mark = world.mark();
    world.apply(&[image("runner", "runner:2")]).await?;
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    for (kind, name) in [("image", "runner"), ("pool", "small")] {
        world.patch(kind, name, label.clone()).await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    world.ensure_nothing_written(mark)?;
    ensure!(
        world.garm_requests(mark).is_empty(),
        "a label is no reason to ask GARM: {:?}",
        told(&world.garm_requests(mark))
    );
    world.finish(operator).await
}

async fn pool_before_image(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Image"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    for name in ["small", "large"] {
        let waiting = world
            .wait_condition("pool", name, "Ready", "False", "FetchingImageRefFailed")
            .await?;
        let message = message(&waiting, "Ready");
        ensure!(
            message.contains("Image") && message.contains("runner"),
            "{message}"
        );
        let image = condition(&waiting, "ImageReference");
        ensure!(
            image["status"] == "False" && image["reason"] == "FetchingImageRefFailed",
            "{image}"
        );
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    for name in ["small", "large"] {
        ensure!(
            world.events(name, "Warning", "Error").await?.is_empty(),
            "waiting is no Warning"
        );
    }

    let mark = world.mark();
    world.apply(&[image("runner", "runner:1")]).await?;
    let applied = Instant::now();
    for name in ["small", "large"] {
        world.wait_ready("pool", name).await?;
    }
    let took = applied.elapsed();
    ensure!(
        took < WOKEN + NOISE,
        "Ready only {took:?} after the Image had come"
    );
    let writes = world.garm_writes(mark);
    for (route, times) in [("POST /repositories/{id}/pools", 2), ("PUT /pools/{id}", 2)] {
        ensure!(
            world.garm_count(mark, route) == times,
            "{:?}",
            told(&writes)
        );
    }
    ensure!(writes.len() == 4, "{:?}", told(&writes));
    world.finish(operator).await
}
