//! A GARM fresh from its first start: made usable when allowed, and never guessed at.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground, Setup};

use crate::world::{Mark, World, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_fresh_garm_gets_its_admin_and_its_urls", with_init);
    suite.test_on_each_garm("without_leave_a_fresh_garm_is_left_alone", without_init);
}

fn uninitialised() -> GarmOptions {
    GarmOptions {
        setup: Setup::Uninitialised,
        ..GarmOptions::default()
    }
}

async fn with_init(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, uninitialised()).await?;
    let command = world.command().argument("--garm-init=true");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    for (kind, name) in [
        ("githubendpoint", "ghes"),
        ("githubcredential", "pat"),
        ("repository", "tools"),
        ("pool", "small"),
    ] {
        let waiting = world
            .wait_condition(kind, name, "Ready", "False", "WaitingForControllerURLs")
            .await?;
        let message = message(&waiting, "Ready");
        ensure!(message.contains("GarmServerConfig"), "{message}");
    }
    let writes = told(&world.garm_writes(Mark::START));
    ensure!(writes.is_empty(), "URLs are not ours to guess: {writes:?}");

    let url = world.garm.direct_url();
    world
        .apply(&[format!(
            "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec:\n  metadataUrl: {url}/api/v1/metadata\n  callbackUrl: {url}/api/v1/callbacks\n  webhookUrl: {url}/webhooks\n"
        )])
        .await?;
    let config = world.wait_ready("garmserverconfig", "garm").await?;
    ensure!(config["status"]["version"] == version.as_str(), "{config}");
    world.wait_all_ready().await?;
    let mark = Mark::START;
    for (route, times) in [("POST /first-run", 1), ("PUT /controller", 1)] {
        let count = world.garm_count(mark, route);
        ensure!(count == times, "{count} times {route}");
    }
    // One that shows that there is no admin, and one that counts.
    let logins = world.garm_count(mark, "POST /auth/login");
    ensure!(logins <= 2, "{logins} logins");
    ensure!(world.garm_count(mark, "GET /controller-info") == 0);
    world.wait_idle_runners(2).await?;
    world.finish(operator).await
}

async fn without_init(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::with(ground, version, uninitialised()).await?;
    let command = world.command().argument("--garm-init=false");
    let mut operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    let waiting = world
        .wait_condition("pool", "small", "Ready", "False", "WaitingForGarm")
        .await?;
    let message = message(&waiting, "Ready");
    ensure!(
        message.contains("not initialised") && message.contains("garm.init"),
        "{message}"
    );
    operator.check_running()?;
    operator.wait_ready(Duration::from_secs(1)).await?;
    ensure!(world.garm_count(Mark::START, "POST /first-run") == 0);

    // Somebody else does it: no restart is needed.
    world.garm.set_up(Setup::Complete).await?;
    world.wait_all_ready().await?;
    world.finish(operator).await
}
