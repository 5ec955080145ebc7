//! What comes late: watches that lag, writes that meet a newer version, lists and events that overtake each other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Frame, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::world::{SOON, World, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_lagging_watch_and_conflicts_make_no_second_pool", lagging);
    suite.test_on_each_garm("a_list_that_comes_late_undoes_no_change", late_lists);
    suite.test_on_each_garm("events_in_any_order_end_in_the_truth", shuffled);
}

/// What the API server answers to a write that is based on an older version.
fn conflict() -> Fault {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
        "message": "the object has been modified; please apply your changes to the latest version and try again",
    });
    Fault::Status {
        code: http::StatusCode::CONFLICT,
        body: status.to_string(),
        content_type: "application/json".to_owned(),
        headers: Vec::new(),
    }
}

async fn lagging(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let lag = Fault::Lag(Duration::from_secs(2));
    world
        .kube
        .rule(Matcher::any().query_contains("watch=true"), lag);
    let operator = world.operator().await?;
    let (pools, rest): (Vec<_>, Vec<_>) = world
        .manifests()
        .into_iter()
        .partition(|document| document.contains("kind: Pool"));
    world.apply(&rest).await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(4)).await?;

    // What comes first is the finalizer, then the status with the id.
    let conflicts = ["PATCH /pools/{name}", "PATCH /pools/{name}/status"].map(|route| {
        let first = Matcher::route(route).times(1);
        world.kube.rule(first, conflict())
    });
    let mark = world.mark();
    world.apply(&pools[..1]).await?;
    world.wait_ready("pool", "small").await?;
    ensure!(conflicts.iter().all(|rule| rule.hits() == 1));
    world.wait_calm(Duration::from_secs(5)).await?;
    let writes = world.garm_writes(mark);
    let routes: Vec<&str> = writes.iter().map(|write| write.route.as_str()).collect();
    ensure!(
        routes == ["POST /repositories/{id}/pools", "PUT /pools/{id}"],
        "{:#?}",
        told(&writes)
    );
    let id = world.id("pool", "small").await?;
    ensure!(writes[1].path.ends_with(&id), "another pool was finished");
    world.finish(operator).await
}

/// The names of all instances with their state: as GARM has them, and as the Runner objects show them.
async fn shown_and_true(world: &World<'_>) -> Result<[BTreeSet<String>; 2]> {
    let line = |name: &Value, status: &Value, runner: &Value| format!("{name} {status} {runner}");
    let runners = world.list("runners").await?;
    let instances = world.garm.api().list("/instances").await?;
    let shown = runners.iter().map(|runner| {
        let status = &runner["status"];
        line(
            &status["name"],
            &status["instanceStatus"],
            &status["status"],
        )
    });
    let real = instances
        .iter()
        .map(|one| line(&one["name"], &one["status"], &one["runner_status"]));
    Ok([shown.collect(), real.collect()])
}

async fn wait_truth(world: &World<'_>) -> Result<()> {
    poll_until(SOON, "Runner objects show what GARM has", async || {
        let both = shown_and_true(world).await?;
        Ok(Seen::when(both, |[shown, real]| shown == real))
    })
    .await?;
    Ok(())
}

/// Has GARM delete an instance by itself.
async fn remove(world: &World<'_>, instance: &str) -> Result<()> {
    let path = format!("/instances/{instance}");
    world
        .garm
        .api()
        .call("DELETE", &path, &Value::Null)
        .await?
        .ok()
        .map(drop)
}

/// The Runner object of a pool's one runner.
async fn runner_of(world: &World<'_>, pool: &str) -> Result<Value> {
    let mut runners = world.list("runners").await?;
    runners.retain(|runner| runner["status"]["poolId"] == pool);
    runners
        .pop()
        .with_context(|| format!("{pool} has no runner"))
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("no text")
}

/// Waits until another runner of a pool than this one is idle, and this one's object is gone; answers the other.
async fn wait_replaced(world: &World<'_>, old: &Value) -> Result<Value> {
    let pool = &old["status"]["poolId"];
    let found = poll_until(SOON * 2, "the runner is replaced", async || {
        let mut runners = world.list("runners").await?;
        runners.retain(|runner| runner["status"]["poolId"] == *pool);
        Ok(Seen::when(runners, |runners| {
            runners.len() == 1
                && runners[0]["status"]["status"] == "idle"
                && runners[0]["metadata"]["uid"] != old["metadata"]["uid"]
        }))
    })
    .await?;
    Ok(found[0].clone())
}

/// Holds back the next list of this route, which the operator makes after a cut; waits until GARM has answered it.
async fn hold(world: &World<'_>, route: &str) -> Result<Release> {
    let proxy = world.garm.proxy();
    let release = Release::new();
    let next = Matcher::route(route).times(1);
    let held = proxy.rule(next, Fault::HoldAnswer(release.clone()));
    proxy.drop_sockets();
    world
        .wait_for("the list is held", || held.hits() == 1)
        .await?;
    // The answer is held, which is not seen from here.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(release)
}

async fn late_lists(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;

    // A runner goes and another one comes while a list of before is on its way.
    let list = hold(&world, "GET /instances").await?;
    let old = runner_of(&world, "small").await?;
    remove(&world, text(&old["status"]["name"])?).await?;
    let new = wait_replaced(&world, &old).await?;
    // Counts are written at most once in 5 s.
    world.wait_counted().await?;
    let mark = world.mark();
    list.release();
    world.wait_calm(Duration::from_secs(3)).await?;
    let writes = told(&world.kube_writes(mark));
    ensure!(writes.is_empty(), "the old list made {writes:#?}");
    let now = runner_of(&world, "small").await?;
    ensure!(now["metadata"]["uid"] == new["metadata"]["uid"], "{now}");
    wait_truth(&world).await?;

    // A pool is changed meanwhile, and another one is made.
    let mark = world.mark();
    let list = hold(&world, "GET /pools").await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    let third = "flavor: third\n  minIdleRunners: 0\n  maxRunners: 1";
    world.apply(&[pool("third", third)]).await?;
    world.wait_ready("pool", "third").await?;
    list.release();
    world.wait_calm(Duration::from_secs(3)).await?;
    world.wait_ready("pool", "third").await?;
    let writes = world.garm_writes(mark);
    let mut routes: Vec<&str> = writes.iter().map(|write| write.route.as_str()).collect();
    routes.sort_unstable();
    let (post, put) = ("POST /repositories/{id}/pools", "PUT /pools/{id}");
    ensure!(routes == [post, put, put], "{:#?}", told(&writes));
    world.finish(operator).await
}

/// The event without the time of its change, as v0.1.5 sends it.
fn without_time(event: &str) -> String {
    let Ok(mut event) = serde_json::from_str::<Value>(event) else {
        return event.to_owned();
    };
    if let Some(payload) = event["payload"].as_object_mut() {
        payload.remove("updated_at");
    }
    event.to_string()
}

async fn shuffled(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let proxy = world.garm.proxy();

    // Each event is followed by the one before it; first with the time of its change, where GARM tells it, then without.
    for timeless in [false, true] {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = Arc::clone(&seen);
        proxy.edit_frames(move |event| {
            let event = if timeless {
                without_time(&event)
            } else {
                event
            };
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let before = seen.last().cloned();
            seen.push(event.clone());
            std::iter::once(event).chain(before).collect()
        });
        let old = runner_of(&world, "small").await?;
        remove(&world, text(&old["status"]["name"])?).await?;
        wait_replaced(&world, &old).await?;
        wait_truth(&world).await?;
        world.wait_calm(Duration::from_secs(2)).await?;
        wait_truth(&world).await?;

        // All of it again, long after.
        proxy.pass_frames();
        let all = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
        ensure!(all.len() >= 3, "{all:?}");
        for event in all.iter().rev() {
            proxy.slip_frame(Frame::Text(event.clone()));
        }
        world.wait_calm(Duration::from_secs(2)).await?;
        wait_truth(&world).await?;
        let [shown, _] = shown_and_true(&world).await?;
        ensure!(
            shown.len() == 2,
            "the one that is gone came back: {shown:?}"
        );
    }

    flood(&world).await?;
    wait_truth(&world).await?;
    world.finish(operator).await
}

/// Many differing events about one object are one doubt.
async fn flood(world: &World<'_>) -> Result<()> {
    let runner = runner_of(world, "large").await?;
    let name = text(&runner["status"]["name"])?;
    let real = world.garm.api().get(&format!("/instances/{name}")).await?;
    let mark = world.mark();
    for number in 0..20 {
        let mut payload = real.clone();
        payload["os_version"] = format!("untrue-{number}").into();
        let event = json!({"entity-type": "instance", "operation": "update", "payload": payload});
        let event = without_time(&event.to_string());
        world.garm.proxy().slip_frame(Frame::Text(event));
    }
    let reads = || world.garm_count(mark, "GET /instances/{name}");
    world
        .wait_for("the truth is asked for", || reads() > 0)
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(reads() <= 5, "{} reads", reads());
    Ok(())
}
