//! Lists of instances that fail, are cut or empty, and names that differ in nothing but their case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Rule};
use garm_operator_ground::servers::GarmVersion;
use http::{Method, StatusCode};
use serde_json::Value;

use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_list_that_fails_costs_no_runner_its_object", failing);
    suite.test(
        "names_that_differ_in_case_only_are_two_runners",
        equal_names,
    );
}

/// Runner objects by name, each with its uid; a terminating one has none.
async fn uids(world: &World<'_>) -> Result<BTreeMap<String, Value>> {
    let runners = world.list("runners").await?;
    let mut uids = BTreeMap::new();
    for runner in runners {
        let metadata = &runner["metadata"];
        let name = metadata["name"].as_str().context("no name")?;
        let lives = metadata["deletionTimestamp"].is_null();
        let uid = if lives {
            metadata["uid"].clone()
        } else {
            Value::Null
        };
        uids.insert(name.to_owned(), uid);
    }
    Ok(uids)
}

async fn failing(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let before = uids(&world).await?;
    let proxy = world.garm.proxy();
    let half = |body: axum::body::Bytes| body.slice(..body.len() / 2);
    let empty = |_| axum::body::Bytes::from_static(b"[]");
    let failure = Fault::garm_error(
        StatusCode::INTERNAL_SERVER_ERROR,
        "Server error",
        "disk full",
    );
    let mut number = 0;
    for list in [
        failure.clone(),
        Fault::Rewrite(Arc::new(half)),
        Fault::Rewrite(Arc::new(empty)),
    ] {
        number += 1;
        let rule = proxy.rule(Matcher::route("GET /instances").times(1), list);
        world.garm.restart().await?;
        world.wait_for("the list", || rule.hits() == 1).await?;
        // The one after it is true again.
        world.wait_calm(Duration::from_secs(3)).await?;
        let after = uids(&world).await?;
        ensure!(
            after == before,
            "list {number}: {after:?} instead of {before:?}"
        );
        rule.remove();
    }

    // The list of one pool, which is read while it is being deleted.
    let mark = world.mark();
    for answer in [
        Fault::garm_error(StatusCode::NOT_FOUND, "Not Found", "no such pool"),
        failure,
    ] {
        proxy.rule(Matcher::route("GET /pools/{id}/instances").times(2), answer);
    }
    world.delete("pool", "small").await?;
    // Those of the other pool go on meanwhile.
    let runners = world.list("runners").await?;
    let other = runners
        .iter()
        .find(|runner| runner["status"]["poolId"] == "large");
    let name = other.and_then(|runner| runner["metadata"]["name"].as_str());
    let name = name.context("the other pool has no runner")?;
    world.delete("runner", name).await?;
    world.wait_gone("runner", name).await?;
    poll_until(SOON * 2, "another one is idle", async || {
        let mut runners = world.list("runners").await?;
        runners.retain(|runner| {
            runner["status"]["poolId"] == "large" && runner["status"]["status"] == "idle"
        });
        Ok(Seen::when(runners, |runners| runners.len() == 1))
    })
    .await?;
    poll_until(SOON * 2, "the pool is gone", async || {
        Ok(Seen::when(
            world.get("pool", "small").await?,
            Option::is_none,
        ))
    })
    .await?;
    let asked = world.garm_count(mark, "DELETE /instances/{name}");
    ensure!(asked == 2, "{:#?}", told(&world.garm_writes(mark)));
    world.finish(operator).await
}

/// The name with the case of each letter turned.
fn turned(name: &str) -> String {
    let turn = |letter: char| {
        if letter.is_ascii_lowercase() {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        }
    };
    name.chars().map(turn).collect()
}

/// Has an instance appear under another name in all that the operator sees. It can be read by that name until the rule is removed, and a
/// request to delete it does nothing.
async fn disguise(world: &World<'_>, from: &str, to: &str) -> Result<Rule> {
    let proxy = world.garm.proxy();
    let path = format!("/instances/{to}");
    let instance = world.garm.api().get(&format!("/instances/{from}")).await?;
    let unknown = Fault::garm_error(StatusCode::NOT_FOUND, "Not Found", "");
    let real = format!("/instances/{from}");
    proxy.rule(
        Matcher::any().method(Method::GET).path_contains(&real),
        unknown,
    );
    let (from, to) = (from.to_owned(), to.to_owned());
    let rename = move |text: &str| text.replace(&from, &to);
    let answer = |body: String| Fault::Status {
        code: StatusCode::OK,
        body,
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
    };
    let own = |method| Matcher::any().method(method).path_contains(&path);
    let found = proxy.rule(own(Method::GET), answer(rename(&instance.to_string())));
    proxy.rule(own(Method::DELETE), answer(String::new()));
    let lists = Matcher::any()
        .method(Method::GET)
        .path_contains("/instances");
    let in_lists = {
        let rename = rename.clone();
        move |body: axum::body::Bytes| rename(&String::from_utf8_lossy(&body)).into()
    };
    proxy.rule(lists, Fault::Rewrite(Arc::new(in_lists)));
    proxy.edit_frames(move |text| vec![rename(&text)]);
    Ok(found)
}

async fn equal_names(ground: &Ground) -> Result<()> {
    // Only this version gives names of mixed case; of which no two would be equal in a test's time, so the proxy makes them.
    let world = World::new(ground, GarmVersion::V0_1_5).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let instance = |runners: &[Value], pool: &str| -> Result<String> {
        let runner = runners.iter().find(|one| one["status"]["poolId"] == pool);
        let name = runner.and_then(|runner| runner["status"]["name"].as_str());
        Ok(name.context("the pool has no runner")?.to_owned())
    };
    let runners = world.list("runners").await?;
    let first = instance(&runners, "small")?;
    let second = turned(&first);
    let large = instance(&runners, "large")?;
    world.finish(operator).await?;
    let disguise = disguise(&world, &large, &second).await?;

    let operator = world.operator().await?;
    let runners = poll_until(SOON, "an object for each", async || {
        let runners = world.list("runners").await?;
        Ok(Seen::when(runners, |runners| {
            let shows = |name: &str| runners.iter().any(|one| one["status"]["name"] == name);
            runners.len() == 2 && shows(&first) && shows(&second)
        }))
    })
    .await?;
    let object = |instance: &str| -> Result<String> {
        let runner = runners
            .iter()
            .find(|one| one["status"]["name"] == instance)
            .context("no object")?;
        let name = runner["metadata"]["name"].as_str().context("no name")?;
        ensure!(name == name.to_lowercase(), "{name} is no name");
        Ok(name.to_owned())
    };
    let (of_first, of_second) = (object(&first)?, object(&second)?);
    ensure!(of_first == first.to_lowercase() && of_second != of_first);
    world.wait_calm(Duration::from_secs(2)).await?;

    // Each is asked for by its exact name.
    let mark = world.mark();
    world.delete("runner", &of_second).await?;
    let asked = |name: &str| {
        let path = format!("/api/v1/instances/{name}");
        let writes = world.garm_writes(mark);
        writes.iter().filter(|write| write.path == path).count()
    };
    world
        .wait_for("the second is asked for", || asked(&second) == 1)
        .await?;
    disguise.remove();
    let path = format!("/instances/{large}");
    world.garm.api().call("DELETE", &path, &Value::Null).await?;
    world.wait_gone("runner", &of_second).await?;
    ensure!(asked(&first) == 0 && world.get("runner", &of_first).await?.is_some());
    world.delete("runner", &of_first).await?;
    world.wait_gone("runner", &of_first).await?;
    ensure!(asked(&first) == 1 && asked(&second) == 1);
    world.finish(operator).await
}
