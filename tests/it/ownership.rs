//! One owner for each object in GARM, whoever else claims it.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::documents::{apart, entity};
use crate::place::Place;
use crate::world::{Mark, World, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "equal_names_of_two_owners_are_two_repositories",
        equal_names,
    );
    suite.test_on_each_garm("of_two_namespaces_one_owns_and_hands_over", two_namespaces);
    suite.test_on_each_garm("what_exists_in_garm_is_adopted", adoption);
}

async fn equal_names(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    let command = world.command_watching(&[&world.namespace, &other.namespace]);
    let operator = world.start(&command).await?;
    let no_pools = |mut documents: Vec<String>| {
        documents.retain(|document| !document.contains("kind: Pool"));
        documents
    };
    world.apply(&no_pools(world.manifests())).await?;
    let theirs = apart(&world.manifests()).into_iter();
    let theirs = theirs
        .map(|document| document.replace("planted-webhook-secret", "planted-webhook-secret-b"));
    other.apply(&no_pools(theirs.collect())).await?;
    world.wait_ready("repository", "tools").await?;
    other.wait_ready("repository", "tools").await?;
    let ids = [
        world.id("repository", "tools").await?,
        other.id("repository", "tools").await?,
    ];
    ensure!(ids[0] != ids[1], "one repository for both: {ids:?}");
    let mut secrets: Vec<Value> = world
        .garm_writes(Mark::START)
        .iter()
        .filter(|write| write.route == "POST /repositories")
        .map(|write| write.json()["webhook_secret"].clone())
        .collect();
    secrets.sort_by_key(Value::to_string);
    ensure!(
        secrets == ["planted-webhook-secret", "planted-webhook-secret-b"],
        "each has its own secret"
    );

    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    let before = other.object("repository", "tools").await?;
    world.delete("repository", "tools").await?;
    world.wait_gone("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes == ["DELETE /repositories/{id}"], "{writes:?}");
    let left = world.garm.api().list("/repositories").await?;
    ensure!(
        left.len() == 1 && left[0]["id"] == ids[1].as_str(),
        "{left:?}"
    );
    ensure!(
        other.object("repository", "tools").await? == before,
        "the other one was touched"
    );
    world.finish(operator).await
}

/// What both namespaces claim.
fn claimed(world: &World<'_>) -> Vec<String> {
    let mut documents = world.manifests()[..4].to_vec();
    documents.push(entity("Organization", "acme", "pat"));
    documents
}

const CLAIMED: [(&str, &str); 3] = [
    ("organization", "acme"),
    ("githubcredential", "pat"),
    ("githubendpoint", "ghes"),
];

async fn two_namespaces(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    // Of two of one age the lower namespace owns.
    let (older, younger) = if world.namespace < other.namespace {
        (&*world, &other)
    } else {
        (&other, &*world)
    };
    let command = world.command_watching(&[&older.namespace, &younger.namespace]);
    let operator = world.start(&command).await?;
    older.apply(&claimed(&world)).await?;
    for (kind, name) in CLAIMED {
        older.wait_ready(kind, name).await?;
    }
    let ids = ids(older).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();

    let mut documents = claimed(&world);
    documents.push(entity("Organization", "umbrella", "pat"));
    younger.apply(&documents).await?;
    for (kind, name) in &CLAIMED[1..] {
        let conflict = younger
            .wait_condition(kind, name, "Ready", "False", "NameConflict")
            .await?;
        ensure!(
            message(&conflict, "Ready").contains(&format!("{}/{name}", older.namespace)),
            "{conflict}"
        );
    }
    let conflict = younger
        .wait_condition("organization", "acme", "Ready", "False", "NameConflict")
        .await?;
    ensure!(
        message(&conflict, "Ready").contains(&older.namespace),
        "{conflict}"
    );
    // A tenant does not get at another one's token by the name of its credentials.
    let waiting = younger
        .wait_condition("organization", "umbrella", "Ready", "False", "")
        .await?;
    let waits_for = format!("GitHubCredential {}/pat", younger.namespace);
    ensure!(message(&waiting, "Ready").contains(&waits_for), "{waiting}");
    for (kind, name) in CLAIMED {
        younger.delete(kind, name).await?;
        younger.wait_gone(kind, name).await?;
    }
    younger.apply(&documents).await?;
    for (kind, name) in CLAIMED {
        younger
            .wait_condition(kind, name, "Ready", "False", "NameConflict")
            .await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );

    for (kind, name) in CLAIMED {
        older.delete(kind, name).await?;
    }
    for (kind, name) in CLAIMED {
        older.wait_gone(kind, name).await?;
        younger.wait_ready(kind, name).await?;
    }
    younger.wait_ready("organization", "umbrella").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    handed_over(&world, mark)?;
    ensure!(self::ids(younger).await? == ids, "other ids");
    world.finish(operator).await
}

async fn ids(place: &Place<'_>) -> Result<Vec<String>> {
    Ok(vec![
        place.id("organization", "acme").await?,
        place.id("githubcredential", "pat").await?,
    ])
}

/// Nothing was deleted, nothing made but what was new, and each thing changed once at most.
fn handed_over(world: &World<'_>, mark: Mark) -> Result<()> {
    let writes = world.garm_writes(mark);
    let made: Vec<Value> = writes
        .iter()
        .filter(|write| write.method == http::Method::POST)
        .map(|write| write.json()["name"].clone())
        .collect();
    ensure!(made == ["umbrella"], "{:?}", told(&writes));
    ensure!(
        writes
            .iter()
            .all(|write| write.method != http::Method::DELETE),
        "{:?}",
        told(&writes)
    );
    let mut changed: Vec<&str> = writes
        .iter()
        .filter(|write| write.method == http::Method::PUT)
        .map(|write| write.path.as_str())
        .collect();
    let puts = changed.len();
    changed.sort_unstable();
    changed.dedup();
    ensure!(changed.len() == puts, "{:?}", told(&writes));
    Ok(())
}

async fn adoption(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let documents = world.manifests();
    world.apply(&documents[..4]).await?;
    world.wait_ready("githubcredential", "pat").await?;
    let by_hand = json!({
        "owner": "ACME",
        "name": "tools",
        "credentials_name": "pat",
        "webhook_secret": "made by hand",
        "pool_balancer_type": "pack",
    });
    let made = world.garm.api().post("/repositories", &by_hand).await?;
    let mark = world.mark();
    world.apply(&documents[4..5]).await?;
    world.wait_ready("repository", "tools").await?;
    ensure!(
        made["id"] == world.id("repository", "tools").await?.as_str(),
        "another id"
    );
    let adopted = world.events("tools", "Normal", "Info").await?;
    ensure!(
        adopted
            .iter()
            .any(|event| event["note"].to_string().contains("adopted")),
        "{adopted:?}"
    );
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = world.garm_writes(mark);
    let expected =
        json!({"pool_balancer_type": "roundrobin", "webhook_secret": "planted-webhook-secret"});
    ensure!(
        writes.len() == 1 && writes[0].json() == expected,
        "{:?}",
        told(&writes)
    );
    world.finish(operator).await
}
