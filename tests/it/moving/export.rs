//! `garm-operator export`, and what becomes of what it writes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Setup};
use serde_json::Value;

use super::fleet;
use super::tool;
use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "what_is_exported_and_applied_takes_over_what_runs_and_changes_nothing",
        whole_move,
    );
    suite.test_on_each_garm("a_garm_that_cannot_be_read_is_not_exported", unreadable);
}

/// Names of the instances in GARM.
async fn instances(world: &World<'_>) -> Result<BTreeSet<String>> {
    let all = world.garm.api().list("/instances").await?;
    let name = |instance: &Value| instance["name"].as_str().map(str::to_owned);
    Ok(all.iter().filter_map(name).collect())
}

async fn whole_move(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let fleet = fleet::make(&world).await?;
    let runners = poll_until(Duration::from_secs(60), "a runner", async || {
        let runners = instances(&world).await?;
        Ok(Seen::when(runners, |runners| runners.len() == 1))
    })
    .await?;
    let pools = world.garm.api().list("/pools").await?;

    let mark = world.mark();
    let folder = tempfile::tempdir()?;
    let ended = tool::export(&world, folder.path()).await?;
    ensure!(ended.code == Some(0), "{}{}", ended.stdout, ended.stderr);
    ensure!(
        ended.stderr.contains("look for secrets"),
        "{}",
        ended.stderr
    );
    let stream = tool::run(&world, &["export"]).await?;
    ensure!(stream.stdout.contains("kind: Pool\n"), "{}", stream.stdout);
    ensure!(!stream.stderr.contains("extra\""), "{}", stream.stderr);
    let path = folder.path().to_str().context("a path")?;
    let compared = tool::run(&world, &["diff", "-f", path]).await?;
    ensure!(
        (compared.code, compared.stdout.as_str()) == (Some(0), ""),
        "{}{}",
        compared.stdout,
        compared.stderr
    );
    ensure!(
        compared
            .stderr
            .matches("would be taken over as it is")
            .count()
            == 4,
        "{}",
        compared.stderr
    );
    let written = told(&world.garm_writes(mark));
    ensure!(written.is_empty(), "tools wrote {written:?}");

    let operator = world.operator().await?;
    tool::apply(&world, folder.path()).await?;
    for (kind, name) in [
        ("garmserverconfig", "garm"),
        ("githubendpoint", "ghes"),
        ("githubendpoint", "github.com"),
        ("githubcredential", "pat"),
        ("repository", "tools"),
        ("organization", "umbrella"),
    ] {
        world.wait_ready(kind, name).await?;
    }
    let objects = world.list("pools").await?;
    ensure!(objects.len() == 2, "{objects:#?}");
    for pool in &objects {
        let name = pool["metadata"]["name"].as_str().context("a name")?;
        world.wait_ready("pool", name).await?;
        let id = world.id("pool", name).await?;
        ensure!(id == fleet.small || id == fleet.special, "{name} has {id}");
    }
    world.wait_idle_runners(1).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    // GARM never shows secrets, so that they are sent once.
    let writes: BTreeSet<String> = world
        .garm_writes(mark)
        .into_iter()
        .map(|write| write.route)
        .collect();
    let secrets = [
        "PUT /github/credentials/{id}",
        "PUT /organizations/{id}",
        "PUT /repositories/{id}",
    ];
    ensure!(writes == secrets.map(str::to_owned).into(), "{writes:?}");
    ensure!(
        world.garm.api().list("/pools").await? == pools,
        "a pool was touched"
    );
    ensure!(instances(&world).await? == runners, "a runner was touched");
    let compared = tool::diff(&world).await?;
    ensure!(
        compared.code == Some(0),
        "{}{}",
        compared.stdout,
        compared.stderr
    );

    // From here on they are Pools like any other.
    let small = objects
        .iter()
        .find(|pool| pool["spec"]["flavor"] == "small")
        .and_then(|pool| pool["metadata"]["name"].as_str())
        .context("the small pool")?;
    world.delete("pool", small).await?;
    world.wait_gone("pool", small).await?;
    let left = world.garm.api().list("/pools").await?;
    ensure!(
        left.len() == 1 && left[0]["id"] == fleet.special.as_str(),
        "{left:?}"
    );
    ensure!(instances(&world).await?.is_empty(), "its runner stays");
    world.finish(operator).await
}

async fn unreadable(ground: &Ground, version: GarmVersion) -> Result<()> {
    let options = GarmOptions {
        setup: Setup::Uninitialised,
        ..GarmOptions::default()
    };
    let world = World::with(ground, version, options).await?;
    let ended = tool::run(&world, &["export"]).await?;
    ensure!(
        ended.code == Some(2) && ended.stdout.is_empty(),
        "{}",
        ended.stdout
    );
    ensure!(
        ended.stderr.contains("cannot be read: "),
        "{}",
        ended.stderr
    );
    let user = world.garm.proxy().requests().into_iter();
    let first_runs = user.filter(|request| request.route == "POST /first-run");
    ensure!(first_runs.count() == 0, "it made a user");
    world.garm.stop().await?;
    let gone = async || {
        let ended = tool::run(&world, &["export"]).await?;
        Ok(Seen::when(ended, |ended| ended.code == Some(2)))
    };
    let ended = poll_until(SOON, "no GARM", gone).await?;
    ensure!(ended.stderr.contains("GARM at http://"), "{}", ended.stderr);
    Ok(())
}
