//! Runner objects: only if asked for, in their Pools' namespaces, under valid names, and away only as far as GARM or their Pool is.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::documents::apart;
use crate::place::Place;
use crate::world::{Mark, SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("runner_objects_come_and_go_with_their_switch", switched);
    suite.test_on_each_garm("a_failing_provider_holds_a_runner_until_forced", failing);
    suite.test_on_each_garm("force_delete_is_for_the_pool_of_a_runner", shortcuts);
    suite.test("a_name_of_mixed_case_is_kept_exactly", mixed_case);
    suite.test_on_each_garm("only_watched_namespaces_are_touched", two_of_three);
}

const DELETE: &str = "DELETE /instances/{name}";

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("no text")?.to_owned())
}

/// The names of the Runner object of a pool with one runner, and of its instance.
async fn runner_of(world: &World<'_>, pool: &str) -> Result<(String, String)> {
    let runners = world.list("runners").await?;
    let runner = runners
        .iter()
        .find(|runner| runner["status"]["poolId"] == pool);
    let runner = runner.with_context(|| format!("{pool} has no runner"))?;
    Ok((
        text(&runner["metadata"]["name"])?,
        text(&runner["status"]["name"])?,
    ))
}

/// Deletions of instances since the mark, as path and query.
fn deletions(world: &World<'_>, mark: Mark) -> Vec<String> {
    let writes = world.garm_writes(mark).into_iter();
    writes
        .filter(|write| write.route == DELETE)
        .map(|write| format!("{}?{}", write.path, write.query))
        .collect()
}

fn annotate(name: &str) -> Value {
    let name = format!("garm-operator.mercedes-benz.com/{name}");
    json!({"metadata": {"annotations": {name: "true"}}})
}

async fn switched(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let off = world
        .command()
        .argument("--operator-runner-reconciliation=false");
    let operator = world.start(&off).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    world.wait_counted().await?;
    let runners = world.list("runners").await?;
    ensure!(runners.is_empty(), "nobody asked for {runners:?}");
    world.finish(operator).await?;

    let operator = world.operator().await?;
    world.wait_idle_runners(2).await?;
    world.finish(operator).await?;

    let mark = world.mark();
    let operator = world.start(&off).await?;
    poll_until(SOON, "the objects of before go", async || {
        Ok(Seen::when(world.list("runners").await?, Vec::is_empty))
    })
    .await?;
    world.wait_calm(Duration::from_secs(3)).await?;
    world.wait_counted().await?;
    let writes = world.garm_writes(mark);
    ensure!(writes.is_empty(), "{:?}", told(&writes));
    let instances = world.garm.api().list("/instances").await?;
    ensure!(instances.len() == 2, "{instances:?}");
    let runners = world.list("runners").await?;
    ensure!(runners.is_empty(), "they came back: {runners:?}");
    world.finish(operator).await
}

async fn failing(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let (name, instance) = runner_of(&world, "small").await?;
    let provider = world.garm.provider();
    provider.fail_deletes(Some("the cloud is out of order"))?;
    let mark = world.mark();
    world.delete("runner", &name).await?;
    world
        .wait_for("the provider fails", || {
            let tries = provider.operations().into_iter();
            tries
                .filter(|operation| operation.command == "DeleteInstance")
                .count()
                >= 2
        })
        .await?;
    let waiting = world
        .wait_condition("runner", &name, "Ready", "False", "Deleting")
        .await?;
    ensure!(
        waiting["metadata"]["finalizers"] == json!(["garm-operator.mercedes-benz.com/runner"]),
        "{waiting}"
    );
    let path = format!("/api/v1/instances/{instance}");
    let asked = deletions(&world, mark);
    ensure!(asked == [format!("{path}?")], "{asked:?}");

    // No shortcut: GARM would have the instance still.
    world
        .patch("runner", &name, annotate("force-delete"))
        .await?;
    world
        .patch("runner", &name, annotate("force-remove"))
        .await?;
    world.wait_gone("runner", &name).await?;
    let gone = world
        .garm
        .api()
        .call("GET", &format!("/instances/{instance}"), &Value::Null)
        .await?;
    ensure!(gone.status == 404, "{gone:?}");
    let asked = deletions(&world, mark);
    ensure!(
        asked == [format!("{path}?"), format!("{path}?forceRemove=true")],
        "{asked:?}"
    );
    provider.fail_deletes(None)?;
    world.finish(operator).await
}

async fn shortcuts(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;

    // On the Runner it is a plain deletion.
    let (name, instance) = runner_of(&world, "large").await?;
    let mark = world.mark();
    world
        .patch("runner", &name, annotate("force-delete"))
        .await?;
    world.delete("runner", &name).await?;
    world.wait_gone("runner", &name).await?;
    let gone = world
        .garm
        .api()
        .call("GET", &format!("/instances/{instance}"), &Value::Null)
        .await?;
    ensure!(gone.status == 404, "{gone:?}");
    let asked = deletions(&world, mark);
    ensure!(
        asked == [format!("/api/v1/instances/{instance}?")],
        "{asked:?}"
    );

    // The Runner of a Pool that went that way is let go, and GARM keeps the instance.
    world.wait_idle_runners(2).await?;
    let (name, instance) = runner_of(&world, "small").await?;
    let id = world.id("pool", "small").await?;
    let mark = world.mark();
    world
        .patch("pool", "small", annotate("force-delete"))
        .await?;
    world.delete("pool", "small").await?;
    world.wait_gone("pool", "small").await?;
    // The garbage collector may have been quicker.
    let by_hand = ["delete", "runner", &name, "--ignore-not-found"];
    world.kubectl(&by_hand, "").await?;
    world.wait_gone("runner", &name).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let requests = world.garm_requests(mark);
    let about = |path: &str| path.contains(&instance) || path.contains(&id);
    ensure!(
        world.garm_writes(mark).is_empty() && !requests.iter().any(|one| about(&one.path)),
        "{:?}",
        told(&requests)
    );
    let left = world
        .garm
        .api()
        .list(&format!("/pools/{id}/instances"))
        .await?;
    ensure!(
        left.iter().any(|one| one["name"] == instance.as_str()),
        "{left:?}"
    );
    world.finish(operator).await
}

async fn mixed_case(ground: &Ground) -> Result<()> {
    // Later ones have names in lower case.
    let world = World::new(ground, GarmVersion::V0_1_5).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let instances = world.garm.api().list("/instances").await?;
    let before = world.list("runners").await?;
    for instance in &instances {
        let exact = text(&instance["name"])?;
        ensure!(exact != exact.to_lowercase(), "{exact} is no test");
        let runner = before
            .iter()
            .find(|runner| runner["metadata"]["name"] == exact.to_lowercase().as_str())
            .with_context(|| format!("no object for {exact}"))?;
        ensure!(runner["status"]["name"] == exact.as_str(), "{runner}");
    }
    world.finish(operator).await?;

    // Another process finds the same objects.
    let operator = world.operator().await?;
    world.wait_idle_runners(2).await?;
    let uids = |runners: &[Value]| -> Vec<Value> {
        let each = runners.iter();
        each.map(|runner| runner["metadata"]["uid"].clone())
            .collect()
    };
    ensure!(uids(&before) == uids(&world.list("runners").await?));

    let (name, instance) = runner_of(&world, "small").await?;
    let mark = world.mark();
    world.delete("runner", &name).await?;
    world.wait_gone("runner", &name).await?;
    let asked = deletions(&world, mark);
    ensure!(
        asked == [format!("/api/v1/instances/{instance}?")],
        "{asked:?}"
    );
    let left = world.garm.api().list("/instances").await?;
    ensure!(
        left.iter().all(|one| one["name"] != instance.as_str()),
        "{left:?}"
    );
    world.finish(operator).await
}

/// Waits until each of the two Pools of a namespace has its idle Runner there.
async fn wait_runners(place: &Place<'_>) -> Result<()> {
    poll_until(
        Duration::from_secs(60),
        "an idle runner of each pool",
        async || {
            let runners = place.list("runners").await?;
            let mut pools: Vec<String> = runners
                .iter()
                .filter(|runner| runner["status"]["status"] == "idle")
                .map(|runner| runner["status"]["poolId"].to_string())
                .collect();
            pools.sort();
            Ok(Seen::when(pools, |pools| {
                *pools == ["\"large\"", "\"small\""]
            }))
        },
    )
    .await?;
    Ok(())
}

/// Makes a pool in GARM that no object stands for, and waits until it has its idle runner.
async fn runner_of_nobody(world: &World<'_>) -> Result<()> {
    let wanted = json!({
        "provider_name": "fake",
        "max_runners": 1,
        "min_idle_runners": 1,
        "image": "hand",
        "flavor": "hand",
        "os_type": "linux",
        "os_arch": "amd64",
        "tags": ["hand"],
        "runner_bootstrap_timeout": 20,
        "enabled": true,
    });
    let repository = world.id("repository", "tools").await?;
    let api = world.garm.api();
    let made = api
        .post(&format!("/repositories/{repository}/pools"), &wanted)
        .await?;
    let path = format!("/pools/{}/instances", text(&made["id"])?);
    poll_until(
        Duration::from_secs(60),
        "nobody's runner is idle",
        async || {
            let instances = api.list(&path).await?;
            Ok(Seen::when(instances, |all| {
                all.len() == 1 && all[0]["runner_status"] == "idle"
            }))
        },
    )
    .await?;
    Ok(())
}

async fn two_of_three(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    let third = Place::new(world.plane).await?;
    let command = world.command_watching(&[&world.namespace, &other.namespace]);
    third.apply(&world.manifests()).await?;
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    other.apply(&apart(&world.manifests())).await?;
    wait_runners(&world).await?;
    wait_runners(&other).await?;
    for place in [&*world, &other] {
        for runner in place.list("runners").await? {
            let pool = place
                .object("pool", &text(&runner["status"]["poolId"])?)
                .await?;
            let owner = &runner["metadata"]["ownerReferences"][0]["uid"];
            ensure!(*owner == pool["metadata"]["uid"], "{runner}");
        }
    }

    runner_of_nobody(&world).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    for place in [&*world, &other] {
        let runners = place.list("runners").await?;
        ensure!(runners.len() == 2, "of a pool of nobody: {runners:?}");
    }

    for kind in [
        "githubendpoint",
        "githubcredential",
        "repository",
        "pool",
        "image",
    ] {
        for object in third.list(kind).await? {
            ensure!(
                object["metadata"]["finalizers"].is_null() && object["status"].is_null(),
                "touched: {object}"
            );
        }
    }
    ensure!(third.list("runners").await?.is_empty());
    for request in world.kube.requests() {
        let path = &request.path;
        // Discovery names no object.
        let ours = path.starts_with("/apis/garm-operator.mercedes-benz.com/v1beta1/")
            || path.contains("/secrets");
        let within = |name: &str| path.contains(&format!("/namespaces/{name}/"));
        ensure!(
            !ours || within(&world.namespace) || within(&other.namespace),
            "asked beyond its namespaces: {} {path}",
            request.method
        );
    }
    world.finish(operator).await
}
