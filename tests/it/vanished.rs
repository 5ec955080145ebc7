//! What somebody took from GARM with GARM's own API is let go when it is deleted: of each kind, also beside finalizers of others.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::deletion::{empty, ensure_no_warning};
use crate::documents::entity;
use crate::world::{World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "what_is_gone_from_garm_is_let_go_of_each_kind",
        async |ground, version| vanish(ground, version, None).await,
    );
    suite.test_on_each_garm(
        "what_is_gone_from_garm_is_let_go_in_a_foreground_deletion",
        async |ground, version| vanish(ground, version, Some("foregroundDeletion")).await,
    );
    suite.test_on_each_garm(
        "what_is_gone_from_garm_is_let_go_and_kept_by_others",
        async |ground, version| vanish(ground, version, Some(HOLD)).await,
    );
}

/// A finalizer that nobody takes away but the test.
const HOLD: &str = "example.com/hold";

/// Everything with a finalizer, what depends on others first.
const OBJECTS: [(&str, &str); 7] = [
    ("pool", "small"),
    ("pool", "large"),
    ("repository", "tools"),
    ("organization", "acme"),
    ("enterprise", "big"),
    ("githubcredential", "pat"),
    ("githubendpoint", "ghes"),
];

fn finalizers(object: &Value) -> Vec<String> {
    serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
}

/// Adds a finalizer to an object that has ours.
async fn add_finalizer(world: &World<'_>, kind: &str, name: &str, more: &str) -> Result<()> {
    let mut all = finalizers(&world.object(kind, name).await?);
    ensure!(all.len() == 1, "{kind} {name} has {all:?}");
    all.push(more.to_owned());
    let change = json!({"metadata": {"finalizers": all}});
    world.patch(kind, name, change).await.map(drop)
}

async fn vanish(ground: &Ground, version: GarmVersion, more: Option<&str>) -> Result<()> {
    let world = World::new(ground, version).await?;
    let mut operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    let entities = [
        entity("Organization", "acme", "pat"),
        entity("Enterprise", "big", "pat"),
    ];
    world.apply(&entities).await?;
    for (kind, name) in OBJECTS {
        world.wait_ready(kind, name).await?;
    }
    operator.terminate(Duration::from_secs(15)).await?;
    empty(&world.garm).await?;
    for (kind, name) in OBJECTS {
        if let Some(more) = more {
            add_finalizer(&world, kind, name, more).await?;
        }
        world.delete(kind, name).await?;
    }

    let mark = world.mark();
    let operator = world.operator().await?;
    for (kind, name) in OBJECTS {
        if more != Some(HOLD) {
            world.wait_gone(kind, name).await?;
            continue;
        }
        let what = "only the finalizer of others is left";
        world
            .wait(kind, name, what, |object| finalizers(object) == [HOLD])
            .await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure_quiet_end(&world, mark).await?;
    if more == Some(HOLD) {
        let mark = world.mark();
        for (kind, name) in OBJECTS {
            let none = json!({"metadata": {"finalizers": null}});
            world.patch(kind, name, none).await?;
            world.wait_gone(kind, name).await?;
        }
        world.wait_calm(Duration::from_secs(2)).await?;
        world.ensure_nothing_written(mark)?;
    }
    world.finish(operator).await
}

/// Checks that little was asked for what is gone, and nothing of what has gone since.
async fn ensure_quiet_end(world: &World<'_>, mark: crate::world::Mark) -> Result<()> {
    let writes = world.garm_writes(mark);
    for write in &writes {
        let same = writes
            .iter()
            .filter(|other| other.path == write.path && other.method == write.method);
        ensure!(
            write.method != http::Method::POST && same.count() == 1,
            "{:?}",
            told(&writes)
        );
    }
    let missed: Vec<String> = world
        .kube_requests(mark)
        .into_iter()
        .filter(|request| request.status == Some(404))
        .filter(|request| request.path.contains("garm-operator.mercedes-benz.com"))
        .map(|request| request.route)
        .collect();
    ensure!(missed.is_empty(), "asked for what had gone: {missed:?}");
    ensure_no_warning(world).await
}
