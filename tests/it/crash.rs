//! Killed at the worst moment and started again: one object in GARM per object here, and its id is known.

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use serde_json::Value;

use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("killed_after_a_pool_was_made_finds_it_again", pool_made);
    suite.test_on_each_garm("of_two_pools_with_the_marker_one_stays", two_marked);
    suite.test_on_each_garm(
        "killed_before_a_pool_was_finished_finishes_it",
        pool_unfinished,
    );
    suite.test_on_each_garm("killed_after_any_other_create_finds_it_again", others_made);
}

const POST_POOL: &str = "POST /repositories/{id}/pools";

/// Everything but the pool `large`.
fn one_pool(world: &World<'_>) -> Vec<String> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("name: large"));
    documents
}

/// Starts an operator, has GARM carry out a request of this route and kills the operator before it hears of that.
async fn kill_after(world: &World<'_>, route: &str) -> Result<()> {
    let release = Release::new();
    let rule = world
        .garm
        .proxy()
        .rule(Matcher::route(route).times(1), Fault::HoldAnswer(release));
    let (_, list) = route.split_once(' ').context("a route has a method")?;
    let list = if list.ends_with("/pools") {
        "/pools"
    } else {
        list
    };
    // GARM makes an endpoint github.com by itself.
    let before = world.garm.api().list(list).await?.len();
    let mut operator = world.operator().await?;
    poll_until(SOON, &format!("{route} is carried out"), async || {
        let count = world.garm.api().list(list).await?.len();
        Ok(Seen::when(count, |count| {
            rule.hits() == 1 && *count == before + 1
        }))
    })
    .await?;
    operator.kill().await?;
    rule.remove();
    Ok(())
}

async fn ensure_one_pool(world: &World<'_>) -> Result<()> {
    let pool = world.wait_ready("pool", "small").await?;
    let pools = world.garm.api().list("/pools").await?;
    ensure!(pools.len() == 1, "{pools:?}");
    ensure!(pools[0]["id"] == pool["status"]["id"], "{pool}");
    ensure!(
        pools[0]["enabled"] == true && pools[0]["runner_prefix"] == "garm",
        "{}",
        pools[0]
    );
    Ok(())
}

async fn pool_made(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.apply(&one_pool(&world)).await?;
    kill_after(&world, POST_POOL).await?;
    let pool = world.object("pool", "small").await?;
    let uid = pool["metadata"]["uid"].as_str().unwrap_or_default();
    ensure!(
        pool["status"]["id"].as_str().unwrap_or_default().is_empty(),
        "the id is known already: {pool}"
    );
    let made = world.garm.api().list("/pools").await?;
    ensure!(
        made[0]["enabled"] != true && made[0]["runner_prefix"] == format!("new-{uid}"),
        "{}",
        made[0]
    );

    let mark = world.mark();
    let operator = world.operator().await?;
    ensure_one_pool(&world).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes.len() == 1 && writes[0].starts_with("PUT /pools/{id}"),
        "{writes:?}"
    );
    world.finish(operator).await
}

async fn two_marked(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.apply(&one_pool(&world)).await?;
    kill_after(&world, POST_POOL).await?;
    let request = world
        .garm
        .proxy()
        .requests()
        .into_iter()
        .find(|request| request.route == POST_POOL)
        .context("no pool was made")?;
    let path = request
        .path
        .strip_prefix("/api/v1")
        .context("the path is below /api/v1")?;
    // One more that the operator could have made, and one of somebody else that looks alike.
    world.garm.api().post(path, &request.json()).await?;
    let mut stranger = request.json();
    stranger["runner_prefix"] = "garm".into();
    let stranger = world.garm.api().post(path, &stranger).await?;
    let pools = world.garm.api().list("/pools").await?;
    let lowest = pools
        .iter()
        .filter(|pool| pool["id"] != stranger["id"])
        .filter_map(|pool| pool["id"].as_str())
        .min()
        .context("no pool with the marker")?
        .to_owned();

    let mark = world.mark();
    let operator = world.operator().await?;
    world.wait_ready("pool", "small").await?;
    ensure!(
        world.id("pool", "small").await? == lowest,
        "the lowest id {lowest} stays"
    );
    ensure!(world.garm_count(mark, POST_POOL) == 0, "one more was made");
    ensure!(
        world.garm_count(mark, "DELETE /pools/{id}") == 1,
        "{:?}",
        told(&world.garm_writes(mark))
    );
    let mut left: Vec<Value> = world.garm.api().list("/pools").await?;
    left.retain(|pool| pool["id"] != lowest.as_str());
    ensure!(
        left.len() == 1 && left[0]["id"] == stranger["id"] && left[0]["enabled"] != true,
        "a pool without the marker is nobody's business: {left:?}"
    );
    world.finish(operator).await
}

async fn pool_unfinished(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let rule = world
        .garm
        .proxy()
        .rule(Matcher::route("PUT /pools/{id}"), Fault::Blackhole);
    let mut operator = world.operator().await?;
    world.apply(&one_pool(&world)).await?;
    poll_until(SOON, "the pool is about to be finished", async || {
        Ok(Seen::when(rule.hits(), |hits| *hits > 0))
    })
    .await?;
    let id = world.id("pool", "small").await?;
    ensure!(
        !id.is_empty(),
        "the id is stored before anything else is sent"
    );
    operator.kill().await?;
    rule.remove();

    let mark = world.mark();
    let operator = world.operator().await?;
    ensure_one_pool(&world).await?;
    ensure!(world.id("pool", "small").await? == id, "another id");
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes.len() == 1 && writes[0].starts_with("PUT /pools/{id}"),
        "{writes:?}"
    );
    world.finish(operator).await
}

async fn others_made(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let creates = [
        ("GitHubEndpoint", "POST /github/endpoints"),
        ("GitHubCredential", "POST /github/credentials"),
        ("Repository", "POST /repositories"),
    ];
    let secrets = |document: &String| document.contains("kind: Secret");
    let (secrets, documents): (Vec<_>, Vec<_>) = world.manifests().into_iter().partition(secrets);
    world.apply(&secrets).await?;
    for (kind, route) in creates {
        // One by one: while an answer is held back, an event may tell of the new object, and others go on.
        let mut step = documents.clone();
        step.retain(|document| document.contains(&format!("kind: {kind}\nmetadata")));
        world.apply(&step).await?;
        kill_after(&world, route).await?;
    }
    world.apply(&documents).await?;
    let operator = world.operator().await?;
    world.wait_all_ready().await?;
    for (_, route) in creates {
        let count = world.garm.proxy().count(0, route);
        ensure!(count == 1, "{count} times {route}");
    }
    let names = |list: Vec<Value>| -> Vec<String> {
        let names = list.iter().filter_map(|one| one["name"].as_str());
        names
            .filter(|name| *name != "github.com")
            .map(str::to_owned)
            .collect()
    };
    for (path, name, kind) in [
        ("/github/endpoints", "ghes", ""),
        ("/github/credentials", "pat", "githubcredential"),
        ("/repositories", "tools", "repository"),
    ] {
        let list = world.garm.api().list(path).await?;
        let id = list.last().map(|one| one["id"].clone()).unwrap_or_default();
        ensure!(names(list) == [name], "{path}");
        if !kind.is_empty() {
            let object = world.object(kind, name).await?;
            ensure!(object["status"]["id"] == id, "{object}");
        }
    }
    world.finish(operator).await
}
