//! A Pool that goes while its three runners are idle, at work, and still being made.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Recorded;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Job, Owner};
use serde_json::{Value, json};

use crate::deletion::ensure_no_warning;
use crate::world::{Mark, SOON, World, condition, message};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_runner_that_is_being_made_goes_as_soon_as_it_runs", three);
}

/// How long the provider takes for the third.
const CREATION: Duration = Duration::from_secs(40);

/// Within which a removal is asked for, and what a busy machine may add to it.
const IN_TIME: Duration = Duration::from_secs(15 + 5);

async fn instances(world: &World<'_>, pool: &str) -> Result<Vec<Value>> {
    let path = format!("/pools/{pool}/instances");
    world.garm.api().list(&path).await
}

/// The name of the one instance in which a field has this value.
fn name_of(instances: &[Value], field: &str, value: &str) -> Result<String> {
    let found: Vec<&Value> = instances.iter().filter(|i| i[field] == value).collect();
    ensure!(found.len() == 1, "{field} {value} in {instances:?}");
    Ok(found[0]["name"].as_str().context("no name")?.to_owned())
}

/// What the operator changed in GARM since the mark, as method, path, query and body.
fn writes(world: &World<'_>, mark: Mark) -> Vec<String> {
    let writes = world.garm_writes(mark).into_iter();
    writes
        .map(|write| {
            let (method, path, query) = (&write.method, &write.path, &write.query);
            format!("{method} {path}?{query} {}", write.json())
        })
        .collect()
}

async fn three(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let id = world.id("pool", "small").await?;
    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 2}}))
        .await?;
    let runners = world.wait_idle_runners(3).await?;
    let of_pool = runners.iter().find(|r| r["status"]["poolId"] == "small");
    let active = of_pool.and_then(|runner| runner["status"]["name"].as_str());
    let active = active.context("no runner")?.to_owned();
    world.garm.provider().slow_creates(CREATION)?;
    let job = Job::new(
        Owner::repository("acme", "tools"),
        "planted-webhook-secret",
        &["small", "linux"],
    );
    world.garm.job_in_progress(&job, &active).await?;
    let all = poll_until(SOON, "one of each", async || {
        let all = instances(&world, &id).await?;
        Ok(Seen::when(all, |all| {
            all.len() == 3 && all.iter().any(|one| one["status"] == "creating")
        }))
    })
    .await?;
    let creating = name_of(&all, "status", "creating")?;
    let idle = name_of(&all, "runner_status", "idle")?;

    let mark = world.mark();
    let begun = Instant::now();
    world.delete("pool", "small").await?;
    let asked = |name: &str| -> Vec<Recorded> {
        let writes = world.garm_writes(mark).into_iter();
        writes
            .filter(|write| write.path.ends_with(&format!("/{name}")))
            .collect()
    };
    world
        .wait_for("the idle one is asked for", || !asked(&idle).is_empty())
        .await?;
    ensure!(begun.elapsed() < IN_TIME, "{:?}", begun.elapsed());
    let waiting = world
        .wait("pool", "small", "it says what remains", |pool| {
            message(pool, "Ready").starts_with("2 runners")
        })
        .await?;
    ensure!(condition(&waiting, "Ready")["reason"] == "Deleting");
    let state = instances(&world, &id).await?;
    ensure!(
        name_of(&state, "status", "creating")? == creating && asked(&creating).is_empty(),
        "asked for while it was made"
    );
    poll_until(SOON * 2, "the third is made", async || {
        let all = instances(&world, &id).await?;
        Ok(Seen::when(all, |all| {
            all.iter().all(|one| one["status"] != "creating")
        }))
    })
    .await?;
    let made = Instant::now();
    world
        .wait_for("the third is asked for", || !asked(&creating).is_empty())
        .await?;
    ensure!(made.elapsed() < IN_TIME, "{:?}", made.elapsed());
    world
        .wait("pool", "small", "only the active one remains", |pool| {
            message(pool, "Ready").starts_with("1 runner ")
        })
        .await?;
    let generation = world.object("pool", "small").await?["metadata"]["generation"].clone();
    // Made, changed once by the test, and deleted.
    ensure!(generation == 3, "{generation}");

    world.garm.job_completed(&job, &active).await?;
    poll_until(SOON, "GARM has no runner of it", async || {
        let all = world.garm.api().list("/instances").await?;
        Ok(Seen::when(all, |all| {
            all.iter().all(|one| one["pool_id"] != id.as_str())
        }))
    })
    .await?;
    let empty = Instant::now();
    world.wait_gone("pool", "small").await?;
    ensure!(empty.elapsed() < IN_TIME, "{:?}", empty.elapsed());
    let writes = writes(&world, mark);
    let pool = format!("/api/v1/pools/{id}");
    let expected = [
        format!("PUT {pool}? {{\"enabled\":false,\"min_idle_runners\":0}}"),
        format!("DELETE /api/v1/instances/{idle}? null"),
        format!("DELETE /api/v1/instances/{creating}? null"),
        format!("DELETE {pool}? null"),
    ];
    ensure!(writes == expected, "{writes:#?}");
    ensure_no_warning(&world).await?;
    world.garm.provider().slow_creates(Duration::ZERO)?;
    world.finish(operator).await
}
