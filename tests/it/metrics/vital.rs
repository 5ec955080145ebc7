//! `/healthz` tells what stands still, and blames nobody for GARM.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator, OperatorCommand};
use serde_json::json;

use super::probe;
use super::scrape::Scrape;
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "a_watch_that_gets_no_answer_fails_healthz_by_name",
        blackholed,
    );
    suite.test_on_each_garm("a_garm_that_never_answers_leaves_healthz_green", hanging);
    suite.test(
        "a_garm_that_says_it_lives_and_answers_nothing_else_leaves_healthz_green",
        half_hanging,
    );
    suite.test("probes_list_their_checks_when_verbose", verbose);
}

/// A twentieth of two minutes: 6 s without progress are too long, and a watch lasts 2 s.
const SHORT: [&str; 2] = ["--operator-stuck-after=2m", "--timings-scale=0.05"];

/// Waits until these checks of `/healthz` fail and no other; answers its text.
async fn wait_failed(operator: &Operator, checks: &[&str]) -> Result<String> {
    let limit = Duration::from_secs(90);
    let what = format!("/healthz fails for {checks:?}");
    poll_until(limit, &what, async || {
        let (status, body) = probe(operator, "/healthz?verbose").await?;
        let failed = body.lines().filter_map(|line| line.strip_prefix("[-]"));
        let failed: Vec<&str> = failed.filter_map(|line| line.split(' ').next()).collect();
        let fits = failed == checks && (status == 200) == checks.is_empty();
        Ok(Seen::when(body, |_| fits))
    })
    .await
}

async fn blackholed(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = SHORT
        .into_iter()
        .fold(world.command(), OperatorCommand::argument);
    let operator = world.settled_operator(&command).await?;
    wait_failed(&operator, &[]).await?;
    let watches = Matcher::any()
        .path_contains("/images")
        .query_contains("watch=true");
    let rule = world.kube.rule(watches, Fault::Blackhole);
    let body = wait_failed(&operator, &["watch/Image"]).await?;
    ensure!(
        body.contains("[-]watch/Image failed: no progress for ")
            && body.contains("[+]watch/Pool ok")
            && body.ends_with("healthz check failed\n"),
        "{body}"
    );
    let ready = probe(&operator, "/readyz").await?;
    ensure!(ready.0 == 200, "webhooks are not concerned: {ready:?}");
    rule.remove();
    wait_failed(&operator, &[]).await?;
    world.finish(operator).await
}

/// Fails when a controller or loop counts as standing still. Watches have nothing to do with GARM, only with how busy the machine is.
async fn ensure_nobody_is_blamed(operator: &Operator) -> Result<()> {
    let (_, body) = probe(operator, "/healthz?verbose").await?;
    ensure!(body.contains("[+]loop/garm-lists ok"), "{body}");
    let blamed = body.contains("[-]controller/") || body.contains("[-]loop/");
    ensure!(!blamed, "{body}");
    Ok(())
}

/// Changes of GARM that got no answer.
const GIVEN_UP: [(&str, &str); 2] = [("method", "PUT"), ("status", "<error>")];

async fn hanging(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = SHORT
        .into_iter()
        .fold(world.command(), OperatorCommand::argument);
    let operator = world.settled_operator(&command).await?;
    let proxy = world.garm.proxy();
    // Whoever asks waits: at first those that have something to do, then those that look whether GARM lives.
    let all = proxy.rule(Matcher::any(), Fault::Blackhole);
    proxy.drop_sockets();
    for size in [4, 5] {
        let change = json!({"spec": {"maxRunners": size}});
        world.patch("pool", "small", change.clone()).await?;
        world.patch("pool", "large", change).await?;
    }
    // Each look takes 10 s, which is longer than anything may stand still.
    let hits = all.hits();
    poll_until(SOON * 3, "three more looks at GARM", async || {
        ensure_nobody_is_blamed(&operator).await?;
        Ok(Seen::when(all.hits(), |now| *now >= hits + 3))
    })
    .await?;
    world.finish(operator).await
}

async fn half_hanging(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = SHORT
        .into_iter()
        .fold(world.command(), OperatorCommand::argument);
    let operator = world.settled_operator(&command).await?;
    let proxy = world.garm.proxy();
    for part in [
        Matcher::any().method(http::Method::PUT),
        Matcher::any().path_contains("/pools"),
        Matcher::any().path_contains("/instances"),
    ] {
        proxy.rule(part, Fault::Blackhole);
    }
    let change = json!({"spec": {"maxRunners": 6}});
    world.patch("pool", "small", change).await?;
    let name = "garm_operator_garm_requests_total";
    poll_until(
        SOON * 4,
        "a call that is given up after a minute",
        async || {
            ensure_nobody_is_blamed(&operator).await?;
            let scrape = Scrape::of(&operator).await?;
            let count = scrape.value(name, &GIVEN_UP);
            Ok(Seen::when(count, Option::is_some).map(drop))
        },
    )
    .await?;
    world.finish(operator).await
}

async fn verbose(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true");
    let operator = world.start(&command).await?;
    poll_until(SOON, "it leads", async || {
        let (_, body) = probe(&operator, "/healthz?verbose").await?;
        Ok(Seen::when(body, |body| body.contains("controller/pool")))
    })
    .await?;
    let (status, body) = probe(&operator, "/healthz?verbose").await?;
    let mut checks: Vec<&str> = body.lines().collect();
    ensure!(
        status == 200 && checks.pop() == Some("healthz check passed"),
        "{body}"
    );
    checks.sort_unstable();
    let expected = [
        "[+]controller/enterprise ok",
        "[+]controller/garmserverconfig ok",
        "[+]controller/githubcredential ok",
        "[+]controller/githubendpoint ok",
        "[+]controller/organization ok",
        "[+]controller/pool ok",
        "[+]controller/repository ok",
        "[+]controller/runner ok",
        "[+]loop/garm-events ok",
        "[+]loop/garm-lists ok",
        "[+]loop/lease ok",
        "[+]loop/sweeper ok",
        "[+]watch/Enterprise ok",
        "[+]watch/GarmServerConfig ok",
        "[+]watch/GitHubCredential ok",
        "[+]watch/GitHubEndpoint ok",
        "[+]watch/Image ok",
        "[+]watch/Organization ok",
        "[+]watch/Pool ok",
        "[+]watch/Repository ok",
        "[+]watch/Runner ok",
        "[+]watch/Secret ok",
    ];
    ensure!(checks == expected, "{body}");
    let ready = probe(&operator, "/readyz?verbose").await?;
    ensure!(
        ready == (200, "[+]process ok\nreadyz check passed\n".to_owned()),
        "{ready:?}"
    );
    world.finish(operator).await
}
