//! All kinds together: applied in one go, at rest over many resyncs, and gone with their namespace.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground, Setup};

use crate::documents::entity;
use crate::world::{World, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "all_kinds_come_at_once_and_go_with_their_namespace",
        namespace,
    );
    suite.test_on_each_garm(
        "ten_resyncs_of_all_kinds_and_twenty_pools_write_nothing",
        resyncs,
    );
}

const KINDS: [(&str, &str); 8] = [
    ("garmserverconfig", "garm"),
    ("githubendpoint", "ghes"),
    ("githubcredential", "pat"),
    ("repository", "tools"),
    ("organization", "acme"),
    ("enterprise", "big"),
    ("pool", "small"),
    ("pool", "large"),
];

/// Every kind that people write, in the order of what depends on what.
fn documents(world: &World<'_>) -> Vec<String> {
    let garm = world.garm.direct_url();
    let mut documents = vec![format!(
        "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec:\n  metadataUrl: {garm}/api/v1/metadata\n  callbackUrl: {garm}/api/v1/callbacks\n  webhookUrl: {garm}/webhooks\n"
    )];
    documents.extend(world.manifests());
    documents.push(entity("Organization", "acme", "pat"));
    documents.push(entity("Enterprise", "big", "pat"));
    documents
}

async fn namespace(ground: &Ground, version: GarmVersion) -> Result<()> {
    // Not even its URLs does GARM know before.
    let options = GarmOptions {
        setup: Setup::WithoutUrls,
        ..GarmOptions::default()
    };
    let world = World::with(ground, version, options).await?;
    let operator = world.operator().await?;
    let mut documents = documents(&world);
    documents.reverse();
    let started = Instant::now();
    world.apply(&documents).await?;
    for (kind, name) in KINDS {
        world.wait_ready(kind, name).await?;
    }
    ensure!(
        started.elapsed() < Duration::from_secs(30),
        "Ready after {:?}",
        started.elapsed()
    );
    world.wait_idle_runners(2).await?;

    let namespace = world.namespace.as_str();
    world
        .plane
        .kubectl_ok(&["delete", "namespace", namespace, "--wait=false"], "")
        .await?;
    let limit = Duration::from_secs(60);
    poll_until(limit, "the namespace to go", async || {
        let left = [
            "get",
            "namespace",
            namespace,
            "--ignore-not-found",
            "-o",
            "jsonpath={.status.conditions[*].message}{.metadata.name}",
        ];
        let left = world.plane.kubectl_ok(&left, "").await?;
        Ok(if left.is_empty() {
            Seen::Yes(())
        } else {
            Seen::NotYet(left)
        })
    })
    .await?;
    for path in [
        "/instances",
        "/pools",
        "/repositories",
        "/organizations",
        "/enterprises",
        "/github/credentials",
    ] {
        let left = world.garm.api().list(path).await?;
        ensure!(left.is_empty(), "{path} still holds {left:?}");
    }
    world.finish(operator).await
}

async fn resyncs(ground: &Ground, version: GarmVersion) -> Result<()> {
    const POOLS: usize = 20;
    let world = World::new(ground, version).await?;
    // A resync each 6 s.
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    let mut documents = documents(&world);
    documents.extend((2..POOLS).map(|n| {
        pool(
            &format!("pool-{n}"),
            &format!("flavor: f{n}\n  maxRunners: 1"),
        )
    }));
    world.apply(&documents).await?;
    for (kind, name) in KINDS {
        world.wait_ready(kind, name).await?;
    }
    for n in 2..POOLS {
        world.wait_ready("pool", &format!("pool-{n}")).await?;
    }
    world.wait_idle_runners(2).await?;
    world.wait_counted().await?;
    world.wait_calm(Duration::from_secs(3)).await?;

    let mark = world.mark();
    let resyncs = 10;
    world
        .wait_for("ten resyncs", || {
            world.garm_count(mark, "GET /enterprises") >= resyncs
        })
        .await?;
    world.ensure_nothing_written(mark)?;
    let lists = [
        "/controller",
        "/github/endpoints",
        "/github/credentials",
        "/repositories",
        "/organizations",
        "/enterprises",
        "/pools",
        "/instances",
    ];
    for list in lists {
        let reads = world.garm_count(mark, &format!("GET {list}"));
        ensure!(
            reads <= resyncs + 2,
            "{list} was read {reads} times in {resyncs} resyncs"
        );
    }
    let single = world.garm_count(mark, "GET /pools/{id}");
    let allowed = if version == GarmVersion::V0_1_5 {
        POOLS * (resyncs + 1)
    } else {
        0
    };
    ensure!(single <= allowed, "{single} reads of single pools");
    let all = world.garm_requests(mark).len();
    let bound = (resyncs + 2) * lists.len() + allowed;
    ensure!(all <= bound, "{all} requests, {bound} are enough");
    world.finish(operator).await
}
