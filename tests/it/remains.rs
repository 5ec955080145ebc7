//! A deletion needs nothing of what an object names: neither Secrets nor an Image nor a scope.

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use serde_json::{Value, json};

use crate::documents::entity;
use crate::world::{Mark, World, condition, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "what_names_things_that_never_were_is_deleted_like_any_other",
        never,
    );
    suite.test_on_each_garm(
        "what_names_things_that_are_gone_is_deleted_like_any_other",
        gone,
    );
}

/// Everything with a finalizer, what depends on others first, and the last part of our finalizer's name.
const OBJECTS: [(&str, &str, &str); 7] = [
    ("pool", "small", "pool"),
    ("pool", "large", "pool"),
    ("repository", "tools", "repository"),
    ("organization", "acme", "organization"),
    ("enterprise", "big", "enterprise"),
    ("githubcredential", "pat", "credentials"),
    ("githubendpoint", "ghes", "endpoint"),
];

/// The whole set, entities of each kind, and an endpoint with a bundle of certificates.
fn documents(world: &World<'_>) -> Vec<String> {
    let mut documents = world.manifests();
    documents.push(entity("Organization", "acme", "pat"));
    documents.push(entity("Enterprise", "big", "pat"));
    documents
}

/// Deletes objects while no operator runs, so that all it does next is for their deletion; waits until they are gone.
async fn deleted_while_away(
    world: &World<'_>,
    operator: Operator,
    objects: &[(&str, &str)],
) -> Result<(Operator, Mark)> {
    world.finish(operator).await?;
    for (kind, name) in objects {
        world.delete(kind, name).await?;
    }
    let mark = world.mark();
    let operator = world.operator().await?;
    for (kind, name) in objects {
        world.wait_gone(kind, name).await?;
    }
    Ok((operator, mark))
}

/// Fails when the operator read a Secret since the mark.
fn ensure_no_secret_read(world: &World<'_>, mark: Mark) -> Result<()> {
    let mut requests = world.kube_requests(mark);
    requests.retain(|request| request.path.contains("/secrets/"));
    ensure!(requests.is_empty(), "read: {:?}", told(&requests));
    Ok(())
}

async fn never(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = documents(&world);
    documents.retain(|document| {
        !["kind: Secret", "kind: Image"]
            .iter()
            .any(|kind| document.contains(kind))
    });
    for document in &mut documents {
        // Nor is there this Pool's scope.
        if document.contains("name: large}") {
            *document = document.replace(
                "kind: Repository, name: tools",
                "kind: Repository, name: other",
            );
        }
        if document.starts_with("kind: GitHubEndpoint") {
            document.push_str("  caCertBundleSecretRef: {name: ca, key: bundle}\n");
        }
    }
    world.apply(&documents).await?;
    for (kind, name, finalizer) in OBJECTS {
        world
            .wait(kind, name, "it waits", |object| {
                condition(object, "Ready")["status"] == "False"
            })
            .await?;
        // Only what has a finalizer stays when it is deleted.
        let ours = format!("garm-operator.mercedes-benz.com/{finalizer}");
        let change = json!({"metadata": {"finalizers": [ours]}});
        world.patch(kind, name, change).await?;
    }
    let all: Vec<(&str, &str)> = OBJECTS.iter().map(|one| (one.0, one.1)).collect();
    let (operator, mark) = deleted_while_away(&world, operator, &all).await?;
    ensure_no_secret_read(&world, mark)?;
    let told = told(&world.garm_writes(mark));
    ensure!(told.is_empty(), "{told:?}");
    world.finish(operator).await
}

async fn gone(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    world.apply(&documents(&world)).await?;
    for (kind, name, _) in OBJECTS {
        world.wait_ready(kind, name).await?;
    }
    world.wait_idle_runners(2).await?;
    world
        .kubectl(&["delete", "secrets,images", "--all"], "")
        .await?;
    // The scope goes without GARM.
    let force = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/force-delete": "true"}}});
    world.patch("repository", "tools", force).await?;
    let repository = world.id("repository", "tools").await?;
    world.delete("repository", "tools").await?;
    world.wait_gone("repository", "tools").await?;
    for pool in ["small", "large"] {
        world
            .wait("pool", pool, "it misses its scope", |object| {
                condition(object, "Ready")["status"] == "False"
            })
            .await?;
    }
    let upper = [
        ("pool", "small"),
        ("pool", "large"),
        ("organization", "acme"),
        ("enterprise", "big"),
    ];
    let (operator, _) = deleted_while_away(&world, operator, &upper).await?;
    // Nobody's any more, and GARM keeps credentials that are in use.
    let path = format!("/repositories/{repository}");
    world.garm.api().delete(&path).await?;
    let lower = [("githubcredential", "pat"), ("githubendpoint", "ghes")];
    let (operator, mark) = deleted_while_away(&world, operator, &lower).await?;
    ensure_no_secret_read(&world, mark)?;
    // That of the scope, which the test itself let go without GARM, is as it should be.
    let mut warnings = world.list("event").await?;
    warnings.retain(|event| event["type"] == "Warning" && event["regarding"]["name"] != "tools");
    ensure!(warnings.is_empty(), "{warnings:?}");
    poll_until(crate::world::SOON, "GARM is empty", async || {
        let mut left: Vec<Value> = Vec::new();
        for path in [
            "/pools",
            "/organizations",
            "/enterprises",
            "/github/credentials",
        ] {
            left.extend(world.garm.api().list(path).await?);
        }
        Ok(Seen::when(left.len(), |left| *left == 0))
    })
    .await?;
    world.finish(operator).await
}
