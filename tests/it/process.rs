//! The process: probes, metrics, logs, and how it stops.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;

use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("probes_and_metrics_answer", probes_and_metrics);
    suite.test_on_each_garm("metrics_follow_the_token", token_metrics);
    suite.test(
        "a_stop_does_not_wait_for_a_call_that_hangs",
        stop_amid_a_call,
    );
    suite.test("json_logs_are_one_object_a_line", json_logs);
}

async fn probes_and_metrics(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let client = reqwest::Client::new();
    for path in ["/healthz", "/readyz", "/readyz?verbose"] {
        let answer = client.get(operator.health_url(path)).send().await?;
        ensure!(answer.status() == 200, "{path}: {}", answer.status());
    }
    let text = operator.metrics().await?;
    for line in [
        "garm_operator_client_jwt_expiration_timestamp_seconds{controller=\"garm_operator\"}",
        "garm_operator_client_api_requests_total{controller=\"garm_operator\",method=\"Login\"} 1",
        "garm_operator_client_api_requests_total{controller=\"garm_operator\",method=\"pool.CreateRepo\"} 2",
        "controller_runtime_reconcile_total{controller=\"pool\",result=\"success\"}",
        "workqueue_depth{name=\"pool\"",
    ] {
        ensure!(text.contains(line), "{line} is missing in\n{text}");
    }
    let accept = "application/openmetrics-text; version=1.0.0";
    let answer = client
        .get(operator.metrics_url())
        .header("accept", accept)
        .send()
        .await?;
    let kind = answer.headers()["content-type"].to_str()?.to_owned();
    ensure!(kind.starts_with("application/openmetrics-text"), "{kind}");
    ensure!(answer.text().await?.ends_with("# EOF\n"), "no end mark");
    world.finish(operator).await
}

async fn stop_amid_a_call(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let mut operator = world.operator().await?;
    let release = Release::new();
    let held = world.garm.proxy().rule(
        Matcher::route("POST /repositories/{id}/pools"),
        Fault::HoldAnswer(release.clone()),
    );
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a held creation", async || {
        Ok(Seen::when(held.hits(), |hits| *hits > 0))
    })
    .await?;
    let asked = Instant::now();
    let status = operator.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "it ended with {status}");
    ensure!(
        asked.elapsed() < Duration::from_secs(10),
        "it took {:?}",
        asked.elapsed()
    );
    release.release();
    Ok(())
}

async fn json_logs(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world.command().argument("--operator-log-format=json");
    let mut operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    operator.terminate(Duration::from_secs(15)).await?;
    let log = operator.stderr();
    ensure!(!log.is_empty(), "nothing was logged");
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line)?;
        ensure!(
            object["level"].is_string() && object["timestamp"].is_string(),
            "{line}"
        );
    }
    Ok(())
}

/// The value of a metric with these labels beside the constant one.
fn metric(text: &str, name: &str, labels: &str) -> Option<f64> {
    let start = format!("{name}{{controller=\"garm_operator\"{labels}}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
    line.parse().ok()
}

async fn token_metrics(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let expiry = "garm_operator_client_jwt_expiration_timestamp_seconds";
    let total = "garm_operator_client_api_requests_total";
    let errors = "garm_operator_client_api_requests_errors_total";
    let before = operator.metrics().await?;
    let first = metric(&before, expiry, "").context("no expiry")?;
    let now = jiff::Timestamp::now().as_second();
    // A token lives for a day.
    let day = (23 * 3600)..=(25 * 3600);
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds")]
    let left = first as i64 - now;
    ensure!(day.contains(&left), "{left} s left");
    ensure!(metric(&before, errors, ",method=\"client.Unauthenticated\"").is_none());

    world.garm.drop_tokens().await?;
    world
        .change(
            "pool",
            "small",
            serde_json::json!({"spec": {"maxRunners": 5}}),
        )
        .await?;
    let after = operator.metrics().await?;
    let second = metric(&after, expiry, "").context("no expiry")?;
    ensure!(second > first, "{second} after {first}");
    let logins = metric(&after, total, ",method=\"Login\"");
    ensure!(logins == Some(2.0), "{logins:?} logins");
    let refused = metric(&after, errors, ",method=\"client.Unauthenticated\"");
    ensure!(refused.is_some_and(|refused| refused >= 1.0), "{refused:?}");
    world.finish(operator).await
}
