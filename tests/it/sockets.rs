//! The events socket ends in all ways it can, and no change is missed for long.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Patience, Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Frame, Matcher, Recorded};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground};
use serde_json::Value;

use crate::world::{Mark, SOON, World, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_socket_comes_from_nowhere_and_asks_for_all", asking);
    suite.test_on_each_garm("a_socket_that_hangs_is_given_up", hanging);
    suite.test_on_each_garm("a_dial_that_fails_costs_no_other_request", refused);
    suite.test_on_each_garm("a_socket_that_closes_again_and_again_is_reopened", closing);
}

/// Longest time between a change in GARM and its Runner object while the socket comes and goes: one interval of polling (5 s), what a list
/// costs, and what a busy machine takes.
const MISSED: Duration = Duration::from_secs(10);

/// Runners that wait on their machines until they are told to become idle.
async fn waiting_runners(world: &World<'_>, count: usize) -> Result<Vec<String>> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    let fields = format!("flavor: small\n  minIdleRunners: {count}\n  maxRunners: {count}");
    documents.push(pool("small", &fields));
    world.apply(&documents).await?;
    let runners = poll_until(SOON * 2, "the machines run", async || {
        let mut runners = world.list("runners").await?;
        runners.retain(|runner| runner["status"]["instanceStatus"] == "running");
        Ok(Seen::when(runners, |runners| runners.len() == count))
    })
    .await?;
    let name = |runner: &Value| runner["status"]["name"].as_str().map(str::to_owned);
    runners
        .iter()
        .map(|runner| name(runner).context("no name"))
        .collect()
}

/// Makes a runner idle and says how long that took to show.
async fn until_shown(world: &World<'_>, instance: &str) -> Result<Duration> {
    world.garm.runners().make_idle(instance).await?;
    let since = Instant::now();
    let patience = Patience::new(SOON, format!("{instance} is idle"));
    loop {
        let runner = world.object("runner", &instance.to_lowercase()).await?;
        if runner["status"]["status"] == "idle" {
            return Ok(since.elapsed());
        }
        patience.pause(&runner["status"]).await?;
    }
}

fn dials(world: &World<'_>, mark: Mark) -> Vec<Recorded> {
    let mut requests = world.garm_requests(mark);
    requests.retain(|request| request.route == "GET /ws/events");
    requests
}

fn quiet_garm() -> GarmOptions {
    GarmOptions {
        auto_idle: false,
        ..GarmOptions::default()
    }
}

async fn wait_socket(world: &World<'_>, mark: Mark) -> Result<()> {
    world
        .wait_for("the socket is up and all is listed", || {
            world.garm.proxy().sockets() == 1 && world.garm_count(mark, "GET /instances") > 0
        })
        .await
}

async fn asking(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, quiet_garm()).await?;
    let operator = world.operator().await?;
    let proxy = world.garm.proxy();
    wait_socket(&world, Mark::START).await?;
    proxy.drop_sockets();
    world
        .wait_for("it is dialled again", || {
            dials(&world, Mark::START).len() == 2 && proxy.openings().len() == 2
        })
        .await?;
    for dial in dials(&world, Mark::START) {
        let headers = dial.upgrade.context("a dial asks for a websocket")?;
        // GARM refuses origins that it does not know.
        ensure!(!headers.contains_key("origin"), "an origin");
        ensure!(headers.contains_key("authorization"), "no token");
    }
    let openings = proxy.openings();
    ensure!(
        openings == [r#"{"send-everything": true}"#; 2],
        "{openings:?}"
    );
    world.finish(operator).await
}

async fn refused(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, quiet_garm()).await?;
    // Dials come soon, and lists of everything half a minute apart.
    let command = world.command().argument("--timings-scale=0.1");
    let operator = world.start(&command).await?;
    wait_socket(&world, Mark::START).await?;
    let proxy = world.garm.proxy();
    proxy.rule(Matcher::any().path_contains("/ws/events"), Fault::Close);
    let mark = world.mark();
    proxy.drop_sockets();
    world
        .wait_for("it is dialled four times", || {
            dials(&world, mark).len() >= 4
        })
        .await?;
    // The end of the socket is a reason to look.
    let looks = world.garm_count(mark, "GET /controller");
    ensure!(looks <= 1, "{looks} looks at GARM");
    let polls = world.garm_count(mark, "GET /instances");
    ensure!(polls > 0, "instances are not polled");
    world.finish(operator).await
}

async fn hanging(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, quiet_garm()).await?;
    // Silence is death after 6 s, and instances are polled every half second then.
    let command = world.command().argument("--timings-scale=0.1");
    let operator = world.start(&command).await?;
    let runners = waiting_runners(&world, 3).await?;
    let proxy = world.garm.proxy();
    let mark = world.mark();

    proxy.hold_frames(true);
    until_shown(&world, &runners[0]).await?;
    // A read of GARM that was due anyhow may show the change before the silence is noticed.
    world
        .wait_for("the silent socket is given up", || {
            !dials(&world, mark).is_empty()
        })
        .await?;
    let took = until_shown(&world, &runners[1]).await?;
    ensure!(took < MISSED / 2, "a poll took {took:?}");
    ensure!(proxy.sockets() <= 1, "{} sockets", proxy.sockets());
    let quiet = dials(&world, mark).len();
    ensure!(quiet <= 3, "{quiet} dials of a GARM that says nothing");

    let mark = world.mark();
    proxy.hold_frames(false);
    wait_socket(&world, mark).await?;
    let took = until_shown(&world, &runners[2]).await?;
    ensure!(took < MISSED, "after it came back: {took:?}");
    world.finish(operator).await
}

async fn closing(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, quiet_garm()).await?;
    let operator = world.operator().await?;
    let runners = waiting_runners(&world, 4).await?;
    let proxy = world.garm.proxy();
    wait_socket(&world, Mark::START).await?;
    let mark = world.mark();
    for runner in &runners {
        let mark = world.mark();
        // As GARM does when the token runs out.
        proxy.slip_frame(Frame::Close(1000));
        let took = until_shown(&world, runner).await?;
        ensure!(took < MISSED, "{took:?}");
        wait_socket(&world, mark).await?;
    }
    let dials = dials(&world, mark);
    ensure!(dials.len() == runners.len(), "{} dials", dials.len());
    for pair in dials.windows(2) {
        let pause = pair[1].at - pair[0].at;
        ensure!(pause >= Duration::from_millis(800), "{pause:?}");
    }
    ensure!(
        world.garm_count(mark, "POST /auth/login") == 0,
        "the token was good"
    );
    world.finish(operator).await
}
