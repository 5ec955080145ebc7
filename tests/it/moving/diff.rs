//! `garm-operator diff`.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::json;

use super::tool;
use crate::documents::pool;
use crate::world::{World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "diff_tells_what_the_operator_would_change_and_changes_nothing",
        differences,
    );
}

async fn differences(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let mut operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    let equal = tool::diff(&world).await?;
    ensure!(
        (equal.code, equal.stdout.as_str(), equal.stderr.as_str()) == (Some(0), "", ""),
        "{}{}",
        equal.stdout,
        equal.stderr
    );
    operator.terminate(Duration::from_secs(15)).await?;

    let specs = r#"{"planted": "extra"}"#;
    for (kind, name, change) in [
        (
            "pool",
            "small",
            json!({"spec": {"maxRunners": 9, "extraSpecs": specs}}),
        ),
        (
            "repository",
            "tools",
            json!({"spec": {"poolBalancerType": "pack"}}),
        ),
        (
            "githubcredential",
            "pat",
            json!({"spec": {"description": "new"}}),
        ),
    ] {
        world.patch(kind, name, change).await?;
    }
    let paused = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/paused": "true"}}, "spec": {"maxRunners": 8}});
    world.patch("pool", "large", paused).await?;
    let new = pool("new", "flavor: new\n  minIdleRunners: 0\n  maxRunners: 1");
    let waiting = pool(
        "waiting",
        "flavor: waiting\n  minIdleRunners: 0\n  maxRunners: 1",
    )
    .replace("imageName: runner", "imageName: absent");
    world.apply(&[new, waiting]).await?;
    let by_hand = json!({"name": "other", "description": "", "endpoint": "ghes", "auth_type": "pat", "pat": {"oauth2_token": "x"}});
    world
        .garm
        .api()
        .post("/github/credentials", &by_hand)
        .await?;
    let mark = world.mark();
    let found = tool::diff(&world).await?;
    ensure!(found.code == Some(1), "{:?}: {}", found.code, found.stderr);
    let namespace = &world.namespace;
    let expected = [
        format!("GitHubCredential {namespace}/pat: would be changed"),
        "  description: \"token of the tests\" -> \"new\"".to_owned(),
        format!("Repository {namespace}/tools: would be changed"),
        "  poolBalancerType: \"roundrobin\" -> \"pack\"".to_owned(),
        format!("Pool {namespace}/new: would be made"),
        format!("Pool {namespace}/small: would be changed"),
        "  extraSpecs: (not shown) -> (not shown)".to_owned(),
        "  maxRunners: 3 -> 9".to_owned(),
        format!(
            "Pool {namespace}/waiting: waits (FetchingImageRefFailed): Image {namespace}/absent does not exist"
        ),
    ];
    let lines: Vec<&str> = found.stdout.lines().collect();
    // v0.1.5 stores no balancer unless it is told one.
    let balancer = |line: &&str| line.replace("\"\" -> \"pack\"", "\"roundrobin\" -> \"pack\"");
    let lines: Vec<String> = lines.iter().map(balancer).collect();
    ensure!(lines == expected, "{lines:#?}");
    ensure!(
        found.stderr.contains("large: is paused"),
        "{}",
        found.stderr
    );
    ensure!(
        found
            .stderr
            .contains("GARM holds the credentials \"other\", which no object describes"),
        "{}",
        found.stderr
    );
    let written = (
        told(&world.garm_writes(mark)),
        told(&world.kube_writes(mark)),
    );
    ensure!(written.0.is_empty() && written.1.is_empty(), "{written:?}");

    world.garm.stop().await?;
    let away = tool::diff(&world).await?;
    ensure!(away.code == Some(2), "{:?}: {}", away.code, away.stdout);
    Ok(())
}
