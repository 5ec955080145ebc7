//! A GARM that goes on refusing: few tries, one state that says so, and the end of it as soon as it gives in.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use http::StatusCode;
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::world::{World, condition, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_pool_that_garm_keeps_is_tried_rarely", kept_pool);
    suite.test_on_each_garm(
        "credentials_that_garm_keeps_are_tried_rarely",
        kept_credentials,
    );
    suite.test("a_long_page_is_told_once_and_short", long_words);
    suite.test("a_long_story_is_told_as_far_as_there_is_room", long_story);
    suite.test_on_each_garm("a_refused_change_leaves_what_is_known", refused_changes);
    suite.test("a_wait_for_an_id_costs_a_pass_per_resync", waiting_for_id);
}

/// Everything ten times as fast: what is a minute in production is six seconds.
const SCALE: &str = "--timings-scale=0.1";
const MINUTE: Duration = Duration::from_secs(6);

/// How often a deletion may be tried in a minute.
const TRIES: usize = 12;

/// What GARM answers to a deletion that it does not carry out: because of what uses the object, and because it fails.
fn answers() -> [Fault; 2] {
    [
        Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "it is in use"),
        Fault::garm_error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Server error",
            "disk full",
        ),
    ]
}

/// Deletes an object for which GARM answers so for a minute, and then no longer.
async fn kept(world: &World<'_>, kind: &str, name: &str, route: &str, answer: Fault) -> Result<()> {
    let rule = world.garm.proxy().rule(Matcher::route(route), answer);
    world.delete(kind, name).await?;
    world
        .wait_for("the first refusal", || rule.hits() > 0)
        .await?;
    let mark = world.mark();
    // Nothing comes of this time: that is the test.
    tokio::time::sleep(MINUTE).await;
    let tries = world.garm_count(mark, route);
    ensure!(
        (1..=TRIES).contains(&tries),
        "{tries} tries to delete {name}"
    );
    let path = format!("/{name}/status");
    let mut writes = world.kube_writes(mark);
    writes.retain(|write| write.path.ends_with(&path));
    ensure!(writes.len() <= 2, "{:#?}", told(&writes));
    let object = world.object(kind, name).await?;
    ensure!(condition(&object, "Ready")["status"] == "False", "{object}");
    // The beginning is told once.
    world.wait_events(name, "Normal", "Deleting", 1).await?;
    rule.remove();
    world.wait_gone(kind, name).await
}

async fn kept_pool(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument(SCALE);
    let operator = world.settled_operator(&command).await?;
    let route = "DELETE /pools/{id}";
    for (name, answer) in ["small", "large"].into_iter().zip(answers()) {
        kept(&world, "pool", name, route, answer).await?;
    }
    // What is in use is waited for.
    ensure!(world.events("small", "Warning", "Error").await?.is_empty());
    world.wait_events("large", "Warning", "Error", 1).await?;
    world.finish(operator).await
}

async fn kept_credentials(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.start(&world.command().argument(SCALE)).await?;
    let mut documents = world.manifests();
    documents.truncate(4);
    let second = documents[3].replace("name: pat}", "name: second}");
    documents.push(second);
    world.apply(&documents).await?;
    let route = "DELETE /github/credentials/{id}";
    for (name, answer) in ["pat", "second"].into_iter().zip(answers()) {
        world.wait_ready("githubcredential", name).await?;
        kept(&world, "githubcredential", name, route, answer).await?;
    }
    ensure!(world.events("pat", "Warning", "Error").await?.is_empty());
    world.finish(operator).await
}

/// Longest message that the API server takes.
const LONGEST: usize = 32_768;

async fn long_words(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.settled_operator(&command).await?;
    let proxy = world.garm.proxy();
    let long = "ü".repeat(30_000);

    // A page of a gateway, then GARM's own words; both go on for many tries.
    let page = Fault::Status {
        code: StatusCode::BAD_GATEWAY,
        body: format!("<html><body>{long}</body></html>"),
        content_type: "text/html".to_owned(),
        headers: Vec::new(),
    };
    let words = Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", &long);
    for (size, answer) in [(7, page), (8, words)] {
        let rule = proxy.rule(Matcher::route("PUT /pools/{id}"), answer);
        let mark = world.mark();
        world
            .patch("pool", "small", json!({"spec": {"maxRunners": size}}))
            .await?;
        world.wait_for("six tries", || rule.hits() >= 6).await?;
        let failed = world
            .wait_condition("pool", "small", "Ready", "False", "GarmAPIError")
            .await?;
        let said = message(&failed, "Ready");
        ensure!((1..=LONGEST).contains(&said.len()), "{} bytes", said.len());
        let mut writes = world.kube_writes(mark);
        writes.retain(|write| write.path.ends_with("/pools/small/status"));
        ensure!(writes.len() == 1, "{:#?}", told(&writes));
        rule.remove();
        world.wait_ready("pool", "small").await?;
    }
    for event in world.events("small", "Warning", "Error").await? {
        let note = event["note"].as_str().context("no note")?;
        ensure!(note.len() <= 1024, "a note of {} bytes", note.len());
    }

    world.finish(operator).await
}

async fn long_story(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.settled_operator(&command).await?;
    let proxy = world.garm.proxy();
    let long = "ü".repeat(30_000);
    let fails = move |body: axum::body::Bytes| {
        let Ok(mut list) = serde_json::from_slice::<Value>(&body) else {
            return body;
        };
        for entity in list.as_array_mut().into_iter().flatten() {
            entity["pool_manager_status"] = json!({"running": false, "failure_reason": long});
            entity["events"] = Value::Null;
        }
        serde_json::to_vec(&list).map_or(body, Into::into)
    };
    proxy.rule(
        Matcher::route("GET /repositories"),
        Fault::Rewrite(Arc::new(fails)),
    );
    // What is read of it by its id would say otherwise.
    proxy.rule(
        Matcher::route("GET /repositories/{id}"),
        Fault::garm_error(StatusCode::INTERNAL_SERVER_ERROR, "Server error", "busy"),
    );
    let repository = world
        .wait_condition("repository", "tools", "PoolManager", "False", "")
        .await?;
    let told_long = message(&repository, "PoolManager");
    ensure!(
        (LONGEST - 4..=LONGEST).contains(&told_long.len()),
        "{} bytes",
        told_long.len()
    );
    let mark = world.mark();
    resyncs(&world, 3).await?;
    let mut writes = world.kube_writes(mark);
    writes.retain(|write| write.path.ends_with("/repositories/tools/status"));
    ensure!(writes.is_empty(), "written again {} times", writes.len());
    world.finish(operator).await
}

/// How many passes over Pools the operator has made.
async fn passes(operator: &Operator) -> Result<u64> {
    let metrics = operator.metrics().await?;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_total{controller=\"pool\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

async fn waiting_for_id(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    // A resync each 6 s.
    let command = world.command().argument("--timings-scale=0.02");
    let refused = world.garm.proxy().rule(
        Matcher::route("POST /repositories"),
        Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "not today"),
    );
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    for name in ["small", "large"] {
        let pool = world
            .wait_condition("pool", name, "ScopeReference", "False", "ScopeRefNotReady")
            .await?;
        ensure!(condition(&pool, "Ready")["status"] == "False");
    }
    world
        .wait_for("the entity is tried", || refused.hits() >= 4)
        .await?;

    let (before, mark) = (passes(&operator).await?, world.mark());
    // Three resyncs of each of the two.
    tokio::time::sleep(Duration::from_secs(18)).await;
    let made = passes(&operator).await? - before;
    ensure!((2..=8).contains(&made), "{made} passes");
    ensure!(refused.hits() >= 6, "the entity was not tried meanwhile");
    let writes = world.kube_writes(mark);
    ensure!(writes.is_empty(), "{:#?}", told(&writes));
    for name in ["small", "large"] {
        ensure!(world.events(name, "Warning", "Error").await?.is_empty());
    }
    refused.remove();
    world.wait_all_ready().await?;
    world.finish(operator).await
}

async fn refused_changes(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let url = world.garm.direct_url();
    let mut documents = world.manifests()[..5].to_vec();
    documents.push(format!(
        "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec: {{webhookUrl: \"{url}/webhooks\"}}\n"
    ));
    world.apply(&documents).await?;
    for (kind, name, route, change) in [
        (
            "githubendpoint",
            "ghes",
            "PUT /github/endpoints/{name}",
            json!({"description": "other"}),
        ),
        (
            "githubcredential",
            "pat",
            "PUT /github/credentials/{id}",
            json!({"description": "other"}),
        ),
        (
            "repository",
            "tools",
            "PUT /repositories/{id}",
            json!({"poolBalancerType": "pack"}),
        ),
        (
            "garmserverconfig",
            "garm",
            "PUT /controller",
            json!({"webhookUrl": format!("{url}/other")}),
        ),
    ] {
        let before = world.wait_ready(kind, name).await?;
        let rule = world.garm.proxy().rule(
            Matcher::route(route),
            Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "not today"),
        );
        world.patch(kind, name, json!({ "spec": change })).await?;
        let after = world
            .wait(kind, name, "the refusal shows", |object| {
                message(object, "Ready").contains("not today")
            })
            .await?;
        ensure!(rule.hits() > 0);
        world.wait_for("a second try", || rule.hits() >= 2).await?;
        let others = |object: &Value| -> Vec<String> {
            let conditions = object["status"]["conditions"].as_array();
            let others = conditions.into_iter().flatten();
            let others = others.filter(|one| one["type"] != "Ready");
            others
                .map(|one| format!("{} {}", one["type"], one["status"]))
                .collect()
        };
        ensure!(others(&before) == others(&after), "{after}");
        let fields = |mut object: Value| {
            object["status"]["conditions"] = Value::Null;
            object["status"].take()
        };
        ensure!(
            fields(before) == fields(after),
            "{kind} {name} lost something"
        );
        world.wait_events(name, "Warning", "Error", 1).await?;
        rule.remove();
        world.wait_ready(kind, name).await?;
    }
    world.finish(operator).await
}
