//! A Pool takes the pool that its annotation names, or says why not.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Setup};
use serde_json::{Value, json};

use super::fleet::{self, Fleet};
use crate::documents::{entity, pool};
use crate::world::{Mark, World, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_pool_that_is_not_the_object_s_is_never_taken", refusals);
    suite.test_on_each_garm("of_two_objects_one_takes_a_pool", two_objects);
    suite.test_on_each_garm(
        "a_pool_that_was_taken_over_is_made_anew_when_garm_has_lost_it",
        wiped,
    );
}

const ADOPT_ID: &str = "garm-operator.mercedes-benz.com/adopt-id";

/// A Pool of the repository that asks for a pool.
fn asking(name: &str, id: &str, fields: &str) -> String {
    pool(name, fields).replace(
        &format!("{{name: {name}}}"),
        &format!("{{name: {name}, annotations: {{{ADOPT_ID}: {id}}}}}"),
    )
}

const FIELDS: &str = "flavor: small\n  minIdleRunners: 0\n  maxRunners: 3";

/// The operator on a fleet that is described but for its pools.
async fn described(world: &World<'_>) -> Result<Fleet> {
    let fleet = fleet::make(world).await?;
    let mut documents = world.manifests()[..6].to_vec();
    documents.push(entity("Organization", "umbrella", "pat"));
    world.apply(&documents).await?;
    Ok(fleet)
}

/// Waits until a Pool says that it does not get what it asks for; answers why.
async fn refused(world: &World<'_>, name: &str) -> Result<String> {
    let object = world
        .wait_condition("pool", name, "Ready", "False", "AdoptionRefused")
        .await?;
    ensure!(
        object["status"]["id"]
            .as_str()
            .unwrap_or_default()
            .is_empty(),
        "{object}"
    );
    Ok(message(&object, "Ready"))
}

async fn refusals(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let fleet = described(&world).await?;
    let operator = world.operator().await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_ready("organization", "umbrella").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    let absent = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";
    let elsewhere = "flavor: elsewhere\n  minIdleRunners: 0\n  maxRunners: 3";
    let provider = asking(
        "provider",
        &fleet.small,
        "flavor: other\n  minIdleRunners: 0\n  maxRunners: 3",
    )
    .replace("providerName: fake", "providerName: aws");
    world
        .apply(&[
            asking("absent", absent, FIELDS),
            asking("elsewhere", &fleet.special, elsewhere),
            provider,
            asking(
                "form",
                "small",
                "flavor: form\n  minIdleRunners: 0\n  maxRunners: 3",
            ),
        ])
        .await?;
    for (name, word) in [
        ("absent", "GARM has no pool"),
        ("elsewhere", "belongs to the organization"),
        ("provider", "has the provider \"fake\""),
        ("form", "must be the id"),
    ] {
        let why = refused(&world, name).await?;
        ensure!(why.contains(word), "{name}: {why}");
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");

    // Without the annotation it is a Pool like any other, and its end touches nothing that it never had.
    let none = json!({"metadata": {"annotations": {(ADOPT_ID): Value::Null}}});
    world.patch("pool", "absent", none).await?;
    world.wait_ready("pool", "absent").await?;
    for name in ["elsewhere", "provider", "form"] {
        world.delete("pool", name).await?;
        world.wait_gone("pool", name).await?;
    }
    let pools = world.garm.api().list("/pools").await?;
    ensure!(pools.len() == 3, "{pools:?}");
    // A corrected annotation is taken up at once.
    world
        .apply(&[asking(
            "late",
            absent,
            "flavor: late\n  minIdleRunners: 0\n  maxRunners: 3",
        )])
        .await?;
    refused(&world, "late").await?;
    let right = json!({"metadata": {"annotations": {(ADOPT_ID): fleet.small.to_uppercase()}}});
    world.patch("pool", "late", right).await?;
    world.wait_ready("pool", "late").await?;
    ensure!(
        world.id("pool", "late").await? == fleet.small,
        "another pool"
    );
    let taken = world
        .garm
        .api()
        .get(&format!("/pools/{}", fleet.small))
        .await?;
    ensure!(
        taken["flavor"] == "late",
        "what differs is an update: {taken}"
    );
    world.finish(operator).await
}

async fn two_objects(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let fleet = described(&world).await?;
    let operator = world.operator().await?;
    world.wait_ready("repository", "tools").await?;
    world
        .apply(&[
            asking("a", &fleet.small, FIELDS),
            asking(
                "b",
                &fleet.small,
                "flavor: other\n  minIdleRunners: 0\n  maxRunners: 3",
            ),
        ])
        .await?;
    // Of two of one second the lower name comes first, unless the other was seen before it was there.
    let owner = world
        .wait("pool", "a", "it knows where it stands", |pool| {
            let ready = crate::world::condition(pool, "Ready");
            ready["status"] == "True" || ready["reason"] == "AdoptionRefused"
        })
        .await?;
    let is_a = owner["status"]["id"] == fleet.small.as_str();
    let (owner, other) = if is_a { ("a", "b") } else { ("b", "a") };
    world.wait_ready("pool", owner).await?;
    let why = refused(&world, other).await?;
    ensure!(
        why.contains(&format!("{}/{owner}", world.namespace)),
        "{why}"
    );
    ensure!(
        world.id("pool", owner).await? == fleet.small,
        "another pool"
    );

    // Let go of without a word to GARM, the pool becomes the other's.
    let force = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/force-delete": "true"}}});
    let mark = world.mark();
    world.patch("pool", owner, force).await?;
    world.delete("pool", owner).await?;
    world.wait_gone("pool", owner).await?;
    world.wait_ready("pool", other).await?;
    ensure!(
        world.id("pool", other).await? == fleet.small,
        "another pool"
    );
    let deleted = world.garm_writes(mark).into_iter().filter(|write| {
        write.method == http::Method::DELETE && write.route.starts_with("DELETE /pools")
    });
    ensure!(deleted.count() == 0, "the pool was deleted");
    let made = world
        .garm_writes(Mark::START)
        .into_iter()
        .filter(|write| write.route.ends_with("/pools"));
    ensure!(made.count() == 0, "a pool was made");
    world.finish(operator).await
}

async fn wiped(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let fleet = described(&world).await?;
    let operator = world.operator().await?;
    world
        .apply(&[asking("small", &fleet.small, FIELDS)])
        .await?;
    world.wait_ready("pool", "small").await?;
    ensure!(
        world.id("pool", "small").await? == fleet.small,
        "another pool"
    );
    world.garm.wipe(Setup::Complete).await?;
    let object = world
        .wait("pool", "small", "another pool", |pool| {
            let id = pool["status"]["id"].as_str().unwrap_or_default();
            let is_ready = crate::world::condition(pool, "Ready")["status"] == "True";
            is_ready && !id.is_empty() && id != fleet.small
        })
        .await?;
    let id = object["status"]["id"].as_str().context("an id")?;
    let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(pool["flavor"] == "small", "{pool}");
    world.finish(operator).await
}
