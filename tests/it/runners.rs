//! Runners: seen as they change in GARM, with the events socket and without, and removed with `kubectl delete`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Patience, Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground, Job, Operator, OperatorCommand, Owner};
use serde_json::Value;

use crate::world::{SOON, World, condition, message, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("an_idle_runner_shows_at_once_also_after_a_cut", at_once);
    suite.test_on_each_garm("an_idle_runner_shows_without_events", without_events);
    suite.test_on_each_garm("a_deleted_runner_is_removed_by_garm_once", removed);
}

/// Within which a change of a runner shows while the events socket is up: of three runners the quickest has to, for the machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A pool with this many runners, which wait on their machines until they are told to become idle.
async fn waiting_runners(
    world: &World<'_>,
    command: &OperatorCommand,
    count: usize,
) -> Result<(Operator, Vec<Value>)> {
    let operator = world.start(command).await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    let fields = format!("flavor: small\n  minIdleRunners: {count}\n  maxRunners: {count}");
    documents.push(pool("small", &fields));
    world.apply(&documents).await?;
    world.wait_ready("pool", "small").await?;
    let runners = poll_until(SOON, "the runners' machines run", async || {
        let runners = world.list("runners").await?;
        let running = runners
            .iter()
            .filter(|runner| runner["status"]["instanceStatus"] == "running");
        Ok(Seen::when(running.cloned().collect::<Vec<_>>(), |all| {
            all.len() == count
        }))
    })
    .await?;
    Ok((operator, runners))
}

fn without_idle() -> GarmOptions {
    GarmOptions {
        auto_idle: false,
        ..GarmOptions::default()
    }
}

/// Makes runners idle one by one and says how long the quickest took to show.
async fn quickest(world: &World<'_>, runners: &[Value]) -> Result<Duration> {
    let mut quickest = Duration::MAX;
    for runner in runners {
        let object = text(&runner["metadata"]["name"])?;
        let instance = text(&runner["status"]["name"])?;
        world.garm.runners().make_idle(&instance).await?;
        let since = Instant::now();
        let patience =
            Patience::new(SOON, format!("{object} is idle")).every(Duration::from_millis(10));
        loop {
            let runner = world.object("runner", &object).await?;
            if runner["status"]["status"] == "idle" {
                break;
            }
            patience.pause(&runner["status"]).await?;
        }
        quickest = quickest.min(since.elapsed());
    }
    Ok(quickest)
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("no text")?.to_owned())
}

async fn at_once(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, without_idle()).await?;
    let (operator, runners) = waiting_runners(&world, &world.command(), 7).await?;
    let took = quickest(&world, &runners[..3]).await?;
    ensure!(took < AT_ONCE, "with the socket: {took:?}");

    // What changes while nobody listens shows when the socket is back.
    let mark = world.mark();
    world.garm.proxy().drop_sockets();
    quickest(&world, &runners[3..4]).await?;
    poll_until(
        SOON,
        "the socket is up again and all was listed",
        async || {
            let lists = world.garm_count(mark, "GET /instances");
            Ok(Seen::when(
                (world.garm.proxy().sockets(), lists),
                |(sockets, lists)| *sockets == 1 && *lists > 0,
            ))
        },
    )
    .await?;
    let took = quickest(&world, &runners[4..]).await?;
    ensure!(took < AT_ONCE, "after a cut: {took:?}");
    let dials = world
        .garm_requests(mark)
        .into_iter()
        .filter(|request| request.route.contains("/ws/"));
    ensure!(dials.count() <= 3, "the socket is dialled one at a time");
    world.finish(operator).await
}

async fn without_events(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, without_idle()).await?;
    let refused = world.garm.proxy().rule(
        Matcher::any().path_contains("/ws/events"),
        Fault::garm_error(http::StatusCode::BAD_GATEWAY, "Bad gateway", ""),
    );
    let command = world.command().argument("--timings-scale=0.2");
    let (operator, runners) = waiting_runners(&world, &command, 2).await?;
    ensure!(refused.hits() > 0 && world.garm.proxy().sockets() == 0);
    let mark = world.mark();
    quickest(&world, &runners).await?;
    // One list for all pools and runners, and one read for the addresses of each new one at most.
    ensure!(
        world.garm_count(mark, "GET /instances") >= 1
            && world.garm_count(mark, "GET /pools/{id}/instances") == 0,
        "{:?}",
        told(&world.garm_requests(mark))
    );
    world.finish(operator).await
}

async fn removed(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let runners = world.wait_idle_runners(2).await?;
    let of_pool = |name: &str| {
        let runner = runners.iter().find(|r| r["status"]["poolId"] == name);
        runner.context("the pool has no runner")
    };
    let (idle, busy) = (of_pool("small")?, of_pool("large")?);
    let busy_name = text(&busy["metadata"]["name"])?;
    let busy_instance = text(&busy["status"]["name"])?;
    let job = Job::new(
        Owner::repository("acme", "tools"),
        "planted-webhook-secret",
        &["large", "linux"],
    );
    world.garm.job_in_progress(&job, &busy_instance).await?;
    world
        .wait("runner", &busy_name, "active", |runner| {
            runner["status"]["status"] == "active"
        })
        .await?;

    let mark = world.mark();
    world.delete("runner", &busy_name).await?;
    let waiting = world
        .wait_condition("runner", &busy_name, "Ready", "False", "RunnerBusy")
        .await?;
    ensure!(
        message(&waiting, "Ready").contains("job"),
        "{}",
        condition(&waiting, "Ready")
    );
    let idle_name = text(&idle["metadata"]["name"])?;
    let idle_instance = text(&idle["status"]["name"])?;
    world.delete("runner", &idle_name).await?;
    world.wait_gone("runner", &idle_name).await?;
    let gone = world
        .garm
        .api()
        .call("GET", &format!("/instances/{idle_instance}"), &Value::Null)
        .await?;
    ensure!(gone.status == 404, "{gone:?}");
    let deletes: Vec<String> = world
        .garm_writes(mark)
        .into_iter()
        .map(|request| format!("{} {}?{}", request.method, request.path, request.query))
        .collect();
    ensure!(
        deletes == [format!("DELETE /api/v1/instances/{idle_instance}?")],
        "{deletes:?}"
    );
    // GARM keeps one idle runner, so another one has come.
    poll_until(SOON, "another idle runner", async || {
        let runners = world.list("runners").await?;
        let idle = runners.iter().filter(|runner| {
            runner["status"]["poolId"] == "small" && runner["status"]["status"] == "idle"
        });
        Ok(Seen::when(idle.count(), |count| *count == 1))
    })
    .await?;

    world.garm.job_completed(&job, &busy_instance).await?;
    world.wait_gone("runner", &busy_name).await?;
    let asked = world
        .garm_writes(mark)
        .into_iter()
        .any(|request| request.path.ends_with(&busy_instance));
    ensure!(!asked, "a runner with a job was asked to go");
    world.finish(operator).await
}
