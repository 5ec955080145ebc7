//! Idle runners above the minimum: which go, and when.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground, Job, Owner};
use serde_json::json;

use crate::world::{SOON, World, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "a_young_idle_runner_stays_and_an_old_one_goes_in_time",
        in_time,
    );
    suite.test_on_each_garm("only_what_stands_above_the_minimum_goes", surplus);
}

const DELETE: &str = "DELETE /instances/{name}";

/// From when on an idle runner is old here.
const AGE: Duration = Duration::from_secs(12);

/// How soon an old one goes, and what a busy machine may add.
const IN_TIME: Duration = Duration::from_secs(5);
const NOISE: Duration = Duration::from_secs(5);

/// Everything with one pool of this size.
fn documents(world: &World<'_>, min_idle: usize) -> Vec<String> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    let fields = format!("flavor: small\n  minIdleRunners: {min_idle}\n  maxRunners: {min_idle}");
    documents.push(pool("small", &fields));
    documents
}

async fn in_time(ground: &Ground, version: GarmVersion) -> Result<()> {
    let options = GarmOptions {
        auto_idle: false,
        ..GarmOptions::default()
    };
    let world = World::with(ground, version, options).await?;
    let command = world
        .command()
        .argument("--operator-min-idle-runners-age=12s");
    let operator = world.start(&command).await?;
    world.apply(&documents(&world, 1)).await?;
    let runner = poll_until(SOON, "a runner's machine runs", async || {
        let runners = world.list("runners").await?;
        let running = runners
            .into_iter()
            .find(|runner| runner["status"]["instanceStatus"] == "running");
        Ok(running.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Yes))
    })
    .await?;
    let name = runner["status"]["name"].as_str().context("no name")?;
    // A job that waits keeps GARM itself from scaling down.
    let owner = Owner::repository("acme", "tools");
    let job = Job::new(owner, "planted-webhook-secret", &["small", "linux"]);
    world.garm.job_queued(&job).await?;
    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 0}}))
        .await?;
    let mark = world.mark();
    let earliest = Instant::now();
    world.garm.runners().make_idle(name).await?;
    let latest = Instant::now();
    world
        .wait("pool", "small", "one idle runner", |pool| {
            pool["status"]["runners"]["idle"] == 1 && pool["status"]["longRunningIdleRunners"] == 0
        })
        .await?;
    world
        .wait_for("the old runner goes", || world.garm_count(mark, DELETE) > 0)
        .await?;
    let requests = world.garm_requests(mark);
    let position = requests
        .iter()
        .position(|request| request.route == DELETE)
        .context("a DELETE")?;
    let delete = &requests[position];
    ensure!(delete.path.ends_with(name), "{}", delete.path);
    let (young, old) = (delete.at - earliest, delete.at - latest);
    ensure!(young >= AGE, "a young one was removed after {young:?}");
    ensure!(
        old < AGE + IN_TIME + NOISE,
        "an old one was removed only after {old:?}"
    );
    ensure!(
        requests[..position]
            .iter()
            .any(|request| request.route == "GET /instances/{name}"
                && request.path == delete.path
                && delete.at - request.at < Duration::from_secs(2)),
        "no fresh look before: {:?}",
        told(&requests)
    );
    poll_until(SOON, "an event tells", async || {
        let events = world.events("small", "Normal", "Scaling").await?;
        Ok(Seen::when(events, |events| events.len() == 1))
    })
    .await?;
    let asked = world.garm_requests(mark);
    let asked = asked
        .iter()
        .filter(|request| request.route == DELETE && request.path.ends_with(name));
    ensure!(asked.count() == 1, "one request is enough");
    world.finish(operator).await
}

async fn surplus(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world
        .command()
        .argument("--operator-min-idle-runners-age=3s");
    let operator = world.start(&command).await?;
    world.apply(&documents(&world, 4)).await?;
    let runners = world.wait_idle_runners(4).await?;
    world
        .wait("pool", "small", "all are old", |pool| {
            pool["status"]["longRunningIdleRunners"] == 4
        })
        .await?;
    ensure!(
        world.events("small", "Normal", "Scaling").await?.is_empty(),
        "nothing goes"
    );
    // GitHub knows of a job that GARM has not heard of.
    let busy = runners[0]["status"]["name"].as_str().context("no name")?;
    world.garm.github().set_busy(busy, true);

    let mark = world.mark();
    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 2}}))
        .await?;
    let left = poll_until(SOON, "two or three are left", async || {
        let left = world.list("runners").await?;
        let count = left.len();
        ensure!(count >= 2, "{count} are left");
        // The busy one, which GARM calls idle, may be among the two oldest.
        let done = count == 2 || (count == 3 && world.garm_count(mark, DELETE) >= 2);
        Ok(if done {
            Seen::Yes(left)
        } else {
            Seen::NotYet(count.to_string())
        })
    })
    .await?;
    ensure!(
        left.iter().any(|runner| runner["status"]["name"] == busy),
        "the busy one went"
    );
    world.wait_calm(Duration::from_secs(3)).await?;

    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 0}}))
        .await?;
    poll_until(SOON, "the busy one is left alone", async || {
        let left = world.list("runners").await?;
        Ok(Seen::when(left.len(), |count| *count == 1))
    })
    .await?;
    world.wait_calm(Duration::from_secs(3)).await?;
    let requests = world.garm_requests(mark);
    let of_busy = requests
        .iter()
        .filter(|request| request.route == DELETE && request.path.ends_with(busy));
    ensure!(
        of_busy.count() <= 2,
        "asked for again and again: {:?}",
        told(&requests)
    );
    let counted = world.object("pool", "small").await?;
    let count = counted["status"]["longRunningIdleRunners"]
        .as_i64()
        .context("a number")?;
    ensure!((0..=1).contains(&count), "{counted}");
    world.finish(operator).await
}
