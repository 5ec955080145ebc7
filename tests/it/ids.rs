//! Ids in statuses that belong to somebody else: copied by a script, restored from a backup, given out again.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::documents::entity;
use crate::place::Place;
use crate::world::{World, condition, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("of_two_pools_with_one_id_the_older_keeps_it", one_id);
    suite.test_on_each_garm(
        "of_two_organizations_with_one_id_the_older_keeps_it",
        organizations,
    );
    suite.test_on_each_garm("an_id_of_other_credentials_is_not_used", other_credentials);
}

/// Writes a status, as a script or a restore does.
async fn set_status(place: &Place<'_>, kind: &str, name: &str, status: &Value) -> Result<()> {
    let change = json!({"status": status}).to_string();
    place
        .kubectl(
            &[
                "patch",
                kind,
                name,
                "--subresource=status",
                "--type=merge",
                "-p",
                &change,
            ],
            "",
        )
        .await?;
    Ok(())
}

async fn one_id(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    let fields = "flavor: small\n  minIdleRunners: 0\n  maxRunners: 1";
    documents.push(pool("a-first", fields));
    world.apply(&documents).await?;
    world.wait_ready("pool", "a-first").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    world.finish(operator).await?;
    world.apply(&[pool("b-copy", fields)]).await?;
    let before = world.object("pool", "a-first").await?;
    set_status(&world, "pool", "b-copy", &before["status"]).await?;

    let mark = world.mark();
    let operator = world.operator().await?;
    let copy = world
        .wait("pool", "b-copy", "a pool of its own", |copy| {
            copy["status"]["id"] != before["status"]["id"]
                && condition(copy, "Ready")["status"] == "True"
        })
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = world.garm_writes(mark);
    let own = copy["status"]["id"].as_str().context("an id")?;
    ensure!(
        writes.len() == 2
            && writes[0].route == "POST /repositories/{id}/pools"
            && writes[1].path.ends_with(own),
        "{:?}",
        told(&writes)
    );
    ensure!(
        world.object("pool", "a-first").await?["metadata"]["resourceVersion"]
            == before["metadata"]["resourceVersion"],
        "the older one was written"
    );
    world.delete("pool", "a-first").await?;
    world.wait_gone("pool", "a-first").await?;
    let left = world.garm.api().list("/pools").await?;
    ensure!(
        left.len() == 1 && left[0]["id"] == own && left[0]["enabled"] == true,
        "{left:?}"
    );
    world.finish(operator).await
}

async fn other_credentials(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    world.apply(&world.manifests()[..5]).await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    world.finish(operator).await?;
    let id: i64 = world.id("githubcredential", "pat").await?.parse()?;
    let by_hand = json!({
        "name": "other",
        "description": "made by hand",
        "endpoint": "ghes",
        "auth_type": "pat",
        "pat": {"oauth2_token": "ghp_other"},
    });
    let other = world
        .garm
        .api()
        .post("/github/credentials", &by_hand)
        .await?;
    set_status(
        &world,
        "githubcredential",
        "pat",
        &json!({"id": other["id"]}),
    )
    .await?;

    let mark = world.mark();
    let operator = world.operator().await?;
    world
        .wait("githubcredential", "pat", "its own id again", |object| {
            object["status"]["id"] == id
        })
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );
    world.finish(operator).await
}

async fn organizations(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()[..4]).await?;
    world
        .apply(&[entity("Organization", "acme", "pat")])
        .await?;
    world.wait_ready("organization", "acme").await?;
    resyncs(&world, 1).await?;
    world.finish(operator).await?;
    let acme = world.object("organization", "acme").await?;
    world
        .apply(&[entity("Organization", "other", "pat")])
        .await?;
    set_status(&world, "organization", "other", &acme["status"]).await?;

    let mark = world.mark();
    let operator = world.start(&command).await?;
    world
        .wait_condition("organization", "other", "Ready", "False", "NameConflict")
        .await?;
    resyncs(&world, 2).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );
    let other = world.object("organization", "other").await?;
    ensure!(
        condition(&other, "Ready")["reason"] == "NameConflict",
        "{other}"
    );
    let still = world.object("organization", "acme").await?;
    ensure!(
        still["metadata"]["resourceVersion"] == acme["metadata"]["resourceVersion"],
        "the older one was written"
    );

    // Of another name: nothing to hand over.
    world.delete("organization", "acme").await?;
    world.wait_gone("organization", "acme").await?;
    let other = world.wait_ready("organization", "other").await?;
    ensure!(other["status"]["id"] != acme["status"]["id"], "{other}");
    let writes = world.garm_writes(mark);
    let routes: Vec<&str> = writes.iter().map(|write| write.route.as_str()).collect();
    ensure!(
        routes == ["DELETE /organizations/{id}", "POST /organizations"],
        "{:?}",
        told(&writes)
    );
    world.finish(operator).await
}
