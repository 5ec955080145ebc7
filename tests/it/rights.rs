//! What the operator may do in Kubernetes: a Role in one namespace is enough, and what it lacks hinders nothing else.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use serde_json::{Value, json};

use crate::world::{SOON, World, image, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_role_in_one_namespace_is_enough", one_namespace);
    suite.test("rights_of_the_go_operator_cost_the_events_only", old_rights);
    suite.test("a_forbidden_watch_stops_nothing_else_and_shows", forbidden);
}

/// Plural names of our kinds.
pub const KINDS: [&str; 9] = [
    "enterprises",
    "garmserverconfigs",
    "githubcredentials",
    "githubendpoints",
    "images",
    "organizations",
    "pools",
    "repositories",
    "runners",
];

/// What the operator needs in a namespace; `events` is the API group of the events it may write.
pub fn rights(events: &str, kinds: &[&str]) -> Value {
    let group = "garm-operator.mercedes-benz.com";
    let below = |what: &str| -> Vec<String> {
        let kinds = kinds.iter();
        kinds.map(|kind| format!("{kind}/{what}")).collect()
    };
    json!([
        {"apiGroups": [group], "resources": kinds,
         "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]},
        {"apiGroups": [group], "resources": below("status"), "verbs": ["get", "patch", "update"]},
        {"apiGroups": [group], "resources": below("finalizers"), "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [events], "resources": ["events"], "verbs": ["create", "patch"]},
    ])
}

/// Fails when the operator asked for anything beyond its namespace. Discovery names no object.
fn ensure_within(world: &World<'_>) -> Result<()> {
    let within = format!("/namespaces/{}/", world.namespace);
    for request in world.kube.requests() {
        let segments = request.path.split('/').filter(|part| !part.is_empty());
        // `/api/v1` and `/apis/GROUP/VERSION`: what comes behind them is objects.
        let is_discovery = match segments.clone().next() {
            Some("api") => segments.count() <= 2,
            Some("apis") => segments.count() <= 3,
            _ => true,
        };
        ensure!(
            is_discovery || request.path.contains(&within),
            "asked beyond its namespace: {} {}",
            request.method,
            request.path
        );
    }
    Ok(())
}

/// Everything the API server forbade.
fn forbidden_requests(world: &World<'_>) -> Vec<String> {
    let mut requests = world.kube.requests();
    requests.retain(|request| request.status == Some(403));
    told(&requests)
}

async fn one_namespace(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version)
        .await?
        .with_rights(&rights("events.k8s.io", &KINDS))
        .await?;
    let operator = world.settled_operator(&world.command()).await?;
    world.wait_events("small", "Normal", "Info", 1).await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    let runner = world.list("runners").await?.remove(0);
    let name = runner["metadata"]["name"].as_str().context("no name")?;
    world.delete("runner", name).await?;
    world.wait_gone("runner", name).await?;
    for (kind, name) in [
        ("pool", "small"),
        ("pool", "large"),
        ("repository", "tools"),
        ("githubcredential", "pat"),
        ("githubendpoint", "ghes"),
    ] {
        world.delete(kind, name).await?;
        world.wait_gone(kind, name).await?;
    }
    ensure_within(&world)?;
    let refused = forbidden_requests(&world);
    ensure!(refused.is_empty(), "{refused:#?}");
    world.finish(operator).await
}

async fn old_rights(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_1_5)
        .await?
        .with_rights(&rights("", &KINDS))
        .await?;
    let operator = world.settled_operator(&world.command()).await?;
    let words = "ü".repeat(2_500);
    let rule = world.garm.proxy().rule(
        Matcher::route("PUT /pools/{id}"),
        Fault::garm_error(http::StatusCode::BAD_REQUEST, "Bad Request", &words),
    );
    world
        .patch("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    world
        .wait_condition("pool", "small", "Ready", "False", "GarmAPIError")
        .await?;
    world.wait_for("three tries", || rule.hits() >= 3).await?;
    rule.remove();
    world.wait_ready("pool", "small").await?;

    let log = operator.stderr();
    let warnings = log
        .lines()
        .filter(|line| line.contains("events are refused"));
    let count = warnings.count();
    ensure!(count == 1, "{count} warnings:\n{log}");
    let refused = forbidden_requests(&world);
    ensure!(
        !refused.is_empty() && refused.iter().all(|route| route.contains("/events")),
        "{refused:#?}"
    );

    // With the right the note comes, cut where a character ends.
    world.set_rights(&rights("events.k8s.io", &KINDS)).await?;
    world.garm.proxy().rule(
        Matcher::route("PUT /pools/{id}"),
        Fault::garm_error(http::StatusCode::BAD_REQUEST, "Bad Request", &words),
    );
    world
        .patch("pool", "small", json!({"spec": {"maxRunners": 6}}))
        .await?;
    let events = poll_until(SOON, "a Warning", async || {
        let events = world.events("small", "Warning", "Error").await?;
        Ok(Seen::when(events, |events| !events.is_empty()))
    })
    .await?;
    let note = events[0]["note"].as_str().context("no note")?;
    ensure!(
        (1000..=1024).contains(&note.len()) && note.ends_with('ü'),
        "{} bytes",
        note.len()
    );
    world.finish(operator).await
}

/// Waits until `/healthz` answers so.
async fn wait_health(operator: &Operator, status: u16) -> Result<String> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let url = operator.health_url("/healthz");
    let limit = Duration::from_secs(90);
    poll_until(limit, &format!("/healthz answers {status}"), async || {
        let answer = http.get(&url).send().await?;
        let (found, body) = (answer.status().as_u16(), answer.text().await?);
        Ok(Seen::when((found, body), |(found, _)| *found == status))
    })
    .await
    .map(|(_, body)| body)
}

async fn forbidden(ground: &Ground) -> Result<()> {
    let all = rights("events.k8s.io", &KINDS);
    let world = World::new(ground, GarmVersion::V0_2_1)
        .await?
        .with_rights(&all)
        .await?;
    // A watch lasts 9 s, and is stuck after 24 s.
    let command = world.command().argument("--timings-scale=0.05");
    let mut operator = world.settled_operator(&command).await?;
    wait_health(&operator, 200).await?;
    let but_images: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != "images").collect();
    world
        .set_rights(&rights("events.k8s.io", &but_images))
        .await?;
    let body = wait_health(&operator, 503).await?;
    ensure!(body.contains("Image"), "{body}");

    // Meanwhile everything else goes on, and what happens to Images is not seen.
    let mark = world.mark();
    world.apply(&[image("runner", "runner:2")]).await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    operator.check_running()?;
    operator.wait_ready(Duration::from_secs(1)).await?;
    let log = operator.stderr();
    let warnings = log
        .lines()
        .filter(|line| line.contains("watch failed; trying") && line.contains("kind=\"Image\""));
    // An API server that has just got our kinds may have refused another watch for a second.
    ensure!(warnings.count() == 1, "{log}");

    world.set_rights(&all).await?;
    wait_health(&operator, 200).await?;
    world
        .wait_for("the Image rolls", || {
            let writes = world.garm_writes(mark).into_iter();
            writes
                .filter(|write| write.json()["image"] == "runner:2")
                .count()
                == 2
        })
        .await?;
    world.wait_all_ready().await?;
    world.finish(operator).await
}
