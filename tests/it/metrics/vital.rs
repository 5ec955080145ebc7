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
    suite.test("probes_list_their_checks_when_verbose", verbose);
}

/// A twentieth of two minutes: 6 s without progress are too long, and a watch lasts 2 s.
const SHORT: [&str; 2] = ["--operator-stuck-after=2m", "--timings-scale=0.05"];

async fn wait_health(operator: &Operator, status: u16) -> Result<String> {
    let limit = Duration::from_secs(90);
    poll_until(limit, &format!("/healthz answers {status}"), async || {
        let seen = probe(operator, "/healthz").await?;
        Ok(Seen::when(seen, |(found, _)| *found == status))
    })
    .await
    .map(|(_, body)| body)
}

async fn blackholed(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = SHORT
        .into_iter()
        .fold(world.command(), OperatorCommand::argument);
    let operator = world.settled_operator(&command).await?;
    ensure!(wait_health(&operator, 200).await? == "ok", "all is well");
    let watches = Matcher::any()
        .path_contains("/images")
        .query_contains("watch=true");
    let rule = world.kube.rule(watches, Fault::Blackhole);
    let body = wait_health(&operator, 503).await?;
    let failed: Vec<&str> = body
        .lines()
        .filter(|line| line.starts_with("[-]"))
        .collect();
    ensure!(
        failed.len() == 1 && failed[0].starts_with("[-]watch/Image failed: no progress for "),
        "{body}"
    );
    ensure!(
        body.contains("[+]watch/Pool ok") && body.ends_with("healthz check failed\n"),
        "{body}"
    );
    ensure!(
        probe(&operator, "/readyz").await?.0 == 200,
        "webhooks could be served all the same"
    );
    rule.remove();
    wait_health(&operator, 200).await?;
    world.finish(operator).await
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
        let (status, body) = probe(&operator, "/healthz").await?;
        ensure!(status == 200, "{body}");
        Ok(Seen::when(all.hits(), |now| *now >= hits + 3))
    })
    .await?;
    all.remove();
    world.wait_all_ready().await?;
    ensure!(
        probe(&operator, "/healthz").await?.0 == 200,
        "all is well again"
    );

    // GARM says that it lives, and answers nothing else.
    let before = Scrape::of(&operator).await?;
    let before = before.value("garm_operator_garm_requests_total", &GIVEN_UP);
    let hang = [
        Matcher::any().method(http::Method::PUT),
        Matcher::any().path_contains("/pools"),
        Matcher::any().path_contains("/instances"),
    ]
    .map(|some| proxy.rule(some, Fault::Blackhole));
    let change = json!({"spec": {"maxRunners": 6}});
    world.patch("pool", "small", change).await?;
    let name = "garm_operator_garm_requests_total";
    poll_until(
        SOON * 4,
        "a call that is given up after a minute",
        async || {
            let (status, body) = probe(&operator, "/healthz").await?;
            ensure!(status == 200, "{body}");
            let scrape = Scrape::of(&operator).await?;
            let count = scrape.value(name, &GIVEN_UP);
            Ok(Seen::when(count, |count| *count > before).map(drop))
        },
    )
    .await?;
    for rule in hang {
        rule.remove();
    }
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
