//! A GARM that is away, refuses the login or is no GARM: said once, in words that help, and over as soon as it is.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use http::StatusCode;
use serde_json::json;

use crate::world::{World, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("an_unreachable_garm_is_waited_for", unreachable);
    suite.test_on_each_garm("a_wrong_password_is_told_and_tried_rarely", wrong_password);
    suite.test_on_each_garm("a_web_page_is_not_garm", web_page);
    suite.test_on_each_garm("trouble_of_one_object_is_its_own", one_object);
    suite.test_on_each_garm("a_locked_database_of_garm_is_no_news", locked);
}

const LOGIN: &str = "POST /auth/login";

/// Waits until every object says that it waits for GARM, with such words; nothing is a Warning.
async fn wait_all_waiting(world: &World<'_>, words: &[&str]) -> Result<()> {
    for (kind, name) in [
        ("githubendpoint", "ghes"),
        ("githubcredential", "pat"),
        ("repository", "tools"),
        ("pool", "small"),
        ("pool", "large"),
    ] {
        let object = world
            .wait_condition(kind, name, "Ready", "False", "WaitingForGarm")
            .await?;
        let message = message(&object, "Ready");
        ensure!(
            words.iter().all(|word| message.contains(word)),
            "{kind} {name}: {message}"
        );
        ensure!(world.events(name, "Warning", "Error").await?.is_empty());
    }
    Ok(())
}

async fn unreachable(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.garm.proxy().refuse(true);
    let mut operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    wait_all_waiting(&world, &["GARM cannot be reached"]).await?;
    operator.check_running()?;
    operator.wait_ready(Duration::from_secs(1)).await?;
    let mark = world.mark();
    world.wait_calm(Duration::from_secs(3)).await?;
    ensure!(
        world.kube_writes(mark).is_empty(),
        "the same is said again: {:?}",
        told(&world.kube_writes(mark))
    );
    world.garm.proxy().refuse(false);
    world.wait_all_ready().await?;
    world.finish(operator).await
}

async fn wrong_password(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world
        .command()
        .variable("GARM_PASSWORD", "not-the-planted-password")
        .argument("--timings-scale=0.1");
    let mark = world.mark();
    let mut operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    wait_all_waiting(&world, &["login", "garm.username", "password"]).await?;
    // A tenth of the first pauses, of ten, twenty and forty seconds.
    poll_until(Duration::from_secs(30), "four logins", async || {
        let logins = world.garm_count(mark, LOGIN);
        Ok(Seen::when(logins, |logins| *logins >= 4))
    })
    .await?;
    let mut logins = world.garm_requests(mark);
    logins.retain(|request| request.route == LOGIN);
    for (pair, pause) in logins.windows(2).zip([0.8, 1.6, 3.2]) {
        let waited = pair[1].at - pair[0].at;
        ensure!(
            waited >= Duration::from_secs_f64(pause),
            "a login {waited:?} after the last"
        );
    }
    ensure!(
        world.garm_count(mark, "POST /first-run") <= logins.len()
            && world.garm_writes(mark).is_empty()
    );
    operator.check_running()?;
    ensure!(!operator.stderr().contains("not-the-planted-password"));
    world.finish(operator).await
}

async fn web_page(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let page = world
        .garm
        .proxy()
        .rule(Matcher::any(), Fault::html(http::StatusCode::OK));
    let mut operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    wait_all_waiting(&world, &["text/html", "garm.server"]).await?;
    operator.check_running()?;
    page.remove();
    world.wait_all_ready().await?;
    world.finish(operator).await
}

async fn one_object(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let fault = world.garm.proxy().rule(
        Matcher::route("POST /repositories"),
        Fault::garm_error(
            http::StatusCode::INTERNAL_SERVER_ERROR,
            "Server error",
            "no space left",
        ),
    );
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    let failed = world
        .wait_condition("repository", "tools", "Ready", "False", "GarmAPIError")
        .await?;
    let message = message(&failed, "Ready");
    ensure!(message.contains("no space left"), "{message}");
    world.wait_ready("githubcredential", "pat").await?;
    world
        .wait_condition("pool", "small", "Ready", "False", "ScopeRefNotReady")
        .await?;
    poll_until(Duration::from_secs(10), "a Warning", async || {
        let events = world.events("tools", "Warning", "Error").await?;
        Ok(Seen::when(events, |events| events.len() == 1))
    })
    .await?;
    // Tries come ever more rarely.
    ensure!(fault.hits() <= 6, "{} tries", fault.hits());
    fault.remove();
    world.wait_all_ready().await?;
    ensure!(world.garm.api().list("/repositories").await?.len() == 1);
    world.finish(operator).await
}

async fn locked(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // Of each kind of write the first is failed as GARM does when two of its own transactions meet.
    let locked = || Fault::garm_error(StatusCode::INTERNAL_SERVER_ERROR, "Server error", "");
    let routes = [
        "POST /github/endpoints",
        "POST /github/credentials",
        "POST /repositories",
        "POST /repositories/{id}/pools",
        "PUT /pools/{id}",
        "DELETE /pools/{id}",
        "DELETE /repositories/{id}",
        "DELETE /github/credentials/{id}",
    ];
    let rules = routes.map(|route| {
        let proxy = world.garm.proxy();
        proxy.rule(Matcher::route(route).times(1), locked())
    });
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    ensure!(world.garm.api().list("/pools").await?.len() == 2);
    let change = json!({"spec": {"maxRunners": 7}});
    world.change("pool", "small", change).await?;
    let objects = [
        ("pool", "small"),
        ("pool", "large"),
        ("repository", "tools"),
        ("githubcredential", "pat"),
    ];
    for (kind, name) in objects {
        world.delete(kind, name).await?;
        world.wait_gone(kind, name).await?;
    }
    for (route, rule) in routes.iter().zip(&rules) {
        ensure!(rule.hits() == 1, "{route} was not asked");
    }
    for name in ["ghes", "pat", "tools", "small", "large"] {
        let warnings = world.events(name, "Warning", "Error").await?;
        ensure!(warnings.is_empty(), "{warnings:?}");
    }
    world.finish(operator).await
}
