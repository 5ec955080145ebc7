//! Nothing to do is nothing done: at rest, over resyncs, after a restart.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;

use crate::world::{Mark, World, pool, told};

/// What a resync lists, once each.
const LISTS: [&str; 8] = [
    "GET /controller",
    "GET /github/endpoints",
    "GET /github/credentials",
    "GET /repositories",
    "GET /organizations",
    "GET /enterprises",
    "GET /pools",
    "GET /instances",
];

/// How many pools a world has.
const POOLS: usize = 2;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("nothing_is_written_in_two_minutes_at_rest", two_minutes);
    suite.test_on_each_garm("resyncs_write_nothing_and_list_each_kind_once", resyncs);
    suite.test_on_each_garm("ten_resyncs_of_twenty_pools_write_nothing", twenty_pools);
    suite.test_on_each_garm("a_restart_writes_nothing", restart);
}

async fn two_minutes(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.ensure_nothing_written(mark)?;
    // The sync period is five minutes: at most one resync fell into the time.
    ensure_reads(&world, mark, version, 1)?;
    world.finish(operator).await
}

async fn resyncs(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--operator-sync-period=8s");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    world.wait_idle_runners(POOLS).await?;
    // The last of what becoming Ready and idle costs: counts are written every five seconds at most.
    world.wait_counted().await?;
    world.wait_resyncs(world.mark(), 1).await?;
    let mark = world.mark();
    let rounds = 4;
    world.wait_resyncs(mark, rounds).await?;
    world.ensure_nothing_written(mark)?;
    ensure_reads(&world, mark, version, rounds + 1)?;
    world.finish(operator).await
}

async fn restart(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    world.finish(operator).await?;

    let mark = world.mark();
    let operator = world.operator().await?;
    poll_until(
        Duration::from_secs(30),
        "every object is looked at",
        async || {
            let metrics = operator.metrics().await?;
            let looked = |kind: &str, at_least: f64| {
                let line = format!("controller_runtime_reconcile_total{{controller=\"{kind}\"");
                let total: f64 = metrics
                    .lines()
                    .filter(|text| text.starts_with(&line))
                    .filter_map(|text| text.rsplit(' ').next()?.parse::<f64>().ok())
                    .sum();
                total >= at_least
            };
            let all = looked("pool", 2.0)
                && looked("repository", 1.0)
                && looked("githubcredential", 1.0)
                && looked("githubendpoint", 1.0)
                && looked("runner", 2.0);
            Ok(Seen::when(metrics, |_| all))
        },
    )
    .await?;
    world.wait_calm(Duration::from_secs(4)).await?;
    world.ensure_nothing_written(mark)?;
    // One round of lists; a second one when the events socket came up after the first had begun.
    ensure_reads(&world, mark, version, 2)?;
    world.finish(operator).await
}

/// Checks that GARM was read no more often than so many resyncs explain.
fn ensure_reads(world: &World<'_>, mark: Mark, version: GarmVersion, rounds: usize) -> Result<()> {
    let mut requests = world.garm_requests(mark);
    requests.retain(|request| !request.is_write());
    let mut others = Vec::new();
    for request in &requests {
        let asked = world.garm_count(mark, &request.route);
        if LISTS.contains(&request.route.as_str()) {
            // The gate reads the controller, too.
            let limit = if request.route == "GET /controller" {
                2 * rounds
            } else {
                rounds
            };
            ensure!(
                asked <= limit,
                "{asked} times {} in {rounds} rounds",
                request.route
            );
        } else if request.route == "GET /pools/{id}" {
            // Lists show no extra specs, and v0.1.5 shows nothing that would tell whether they changed.
            let limit = if version.is_0_1() { POOLS * rounds } else { 0 };
            ensure!(asked <= limit, "{asked} times {}", request.route);
        } else if !request.route.contains("/ws/") && request.route != "POST /auth/login" {
            others.push(request.clone());
        }
    }
    // After a restart nobody has read the addresses of the runners.
    others.retain(|request| request.route != "GET /instances/{name}");
    ensure!(others.is_empty(), "also asked: {:?}", told(&others));
    Ok(())
}

async fn twenty_pools(ground: &Ground, version: GarmVersion) -> Result<()> {
    const MANY: usize = 20;
    const RESYNCS: usize = 10;
    let world = World::new(ground, version).await?;
    // A resync each 6 s.
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    let more = (POOLS..MANY).map(|n| {
        let fields = format!("flavor: f{n}\n  maxRunners: 1");
        pool(&format!("pool-{n}"), &fields)
    });
    world
        .apply(
            &world
                .manifests()
                .into_iter()
                .chain(more)
                .collect::<Vec<_>>(),
        )
        .await?;
    world.wait_all_ready().await?;
    for n in POOLS..MANY {
        world.wait_ready("pool", &format!("pool-{n}")).await?;
    }
    world.wait_idle_runners(2).await?;
    world.wait_counted().await?;
    world.wait_calm(Duration::from_secs(3)).await?;

    let mark = world.mark();
    let is_over = || world.garm_count(mark, "GET /pools") >= RESYNCS;
    world.wait_for("ten resyncs", is_over).await?;
    world.ensure_nothing_written(mark)?;
    for list in LISTS {
        let reads = world.garm_count(mark, list);
        ensure!(
            reads <= RESYNCS + 2,
            "{list}: {reads} times in {RESYNCS} resyncs"
        );
    }
    let single = world.garm_count(mark, "GET /pools/{id}");
    let old = version == GarmVersion::V0_1_5;
    let allowed = if old { MANY * (RESYNCS + 1) } else { 0 };
    ensure!(single <= allowed, "{single} reads of single pools");
    let all = world.garm_requests(mark).len();
    let bound = (RESYNCS + 2) * LISTS.len() + allowed;
    ensure!(all <= bound, "{all} requests, {bound} are enough");
    world.finish(operator).await
}
