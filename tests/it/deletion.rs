//! Deletion always ends: after the last job, when there is nothing left in GARM, when GARM is away, in any order.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Garm, Ground, Job, Owner};
use serde_json::{Value, json};

use crate::world::{SOON, World, condition, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_busy_runner_holds_its_pool_until_its_job_is_done", busy);
    suite.test_on_each_garm("what_is_gone_from_garm_is_let_go", gone);
    suite.test_on_each_garm("force_delete_needs_no_garm", forced);
    suite.test_on_each_garm("what_never_was_in_garm_is_let_go", never_made);
    suite.test_on_each_garm("a_paused_pool_is_left_alone", paused);
    suite.test_on_each_garm("owners_wait_for_what_they_hold", wrong_order);
}

/// Everything with a finalizer, in the order in which it depends on each other.
const OBJECTS: [(&str, &str); 5] = [
    ("githubendpoint", "ghes"),
    ("githubcredential", "pat"),
    ("repository", "tools"),
    ("pool", "small"),
    ("pool", "large"),
];

async fn delete_all(world: &World<'_>) -> Result<()> {
    for (kind, name) in OBJECTS {
        world.delete(kind, name).await?;
    }
    Ok(())
}

async fn wait_all_gone(world: &World<'_>) -> Result<()> {
    for (kind, name) in OBJECTS {
        world.wait_gone(kind, name).await?;
    }
    wait_no_runners(world).await
}

async fn wait_no_runners(world: &World<'_>) -> Result<()> {
    poll_until(SOON, "all runners are gone", async || {
        let runners = world.list("runner").await?;
        Ok(Seen::when(runners, Vec::is_empty))
    })
    .await?;
    Ok(())
}

/// The annotation with which an object goes without GARM.
fn force_delete(value: &str) -> Value {
    json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/force-delete": value}}})
}

/// Fails when there is an event of type Warning in the namespace.
pub async fn ensure_no_warning(world: &World<'_>) -> Result<()> {
    let mut events = world.list("event").await?;
    events.retain(|event| event["type"] == "Warning");
    let notes: Vec<&Value> = events.iter().map(|event| &event["note"]).collect();
    ensure!(notes.is_empty(), "Warnings: {notes:?}");
    Ok(())
}

/// The instances of a pool, as GARM has them.
async fn instances(garm: &Garm, pool: &str) -> Result<Vec<Value>> {
    garm.api().list(&format!("/pools/{pool}/instances")).await
}

fn name_of(instances: &[Value], runner_status: &str) -> Result<String> {
    let found = instances
        .iter()
        .find(|instance| instance["runner_status"] == runner_status);
    let name = found.and_then(|instance| instance["name"].as_str());
    Ok(name
        .with_context(|| format!("no {runner_status} runner"))?
        .to_owned())
}

async fn busy(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let id = world.id("pool", "small").await?;
    let active = name_of(&instances(&world.garm, &id).await?, "idle")?;
    let job = Job::new(
        Owner::repository("acme", "tools"),
        "planted-webhook-secret",
        &["small", "linux"],
    );
    world.garm.job_in_progress(&job, &active).await?;
    // GARM replaces the idle runner that got the job.
    world
        .wait("pool", "small", "one active and one idle runner", |pool| {
            let runners = &pool["status"]["runners"];
            runners["active"] == 1 && runners["idle"] == 1 && runners["total"] == 2
        })
        .await?;
    let idle = name_of(&instances(&world.garm, &id).await?, "idle")?;

    let mark = world.mark();
    world.delete("pool", "small").await?;
    poll_until(SOON, "the idle runner is gone", async || {
        let left = instances(&world.garm, &id).await?;
        Ok(Seen::when(left, |left| {
            left.len() == 1 && left[0]["name"] == active
        }))
    })
    .await?;
    let waiting = world
        .wait("pool", "small", "it says what remains", |pool| {
            message(pool, "Ready").starts_with("1 runner")
        })
        .await?;
    ensure!(condition(&waiting, "Ready")["reason"] == "Deleting");
    let managers = waiting["metadata"]["managedFields"].as_array().cloned();
    let mut ours = managers.unwrap_or_default();
    ours.retain(|manager| manager["manager"] == "garm-operator");
    ensure!(
        !ours.is_empty() && ours.iter().all(|one| one["fieldsV1"]["f:spec"].is_null()),
        "a spec is its user's: {ours:?}"
    );
    ensure!(waiting["metadata"]["generation"] == 2, "only deleted");

    world.garm.job_completed(&job, &active).await?;
    world.wait_gone("pool", "small").await?;
    let writes: Vec<String> = world
        .garm_writes(mark)
        .into_iter()
        .map(|request| format!("{} {} {}", request.method, request.path, request.json()))
        .collect();
    let pool = format!("/api/v1/pools/{id}");
    ensure!(
        writes
            == [
                format!("PUT {pool} {{\"enabled\":false,\"min_idle_runners\":0}}"),
                format!("DELETE /api/v1/instances/{idle} null"),
                format!("DELETE {pool} null"),
            ],
        "{writes:#?}"
    );
    world.wait_events("small", "Normal", "Deleting", 1).await?;
    ensure_no_warning(&world).await?;
    world.wait_ready("pool", "large").await?;
    world.finish(operator).await
}

/// Removes everything from GARM with its own API.
pub async fn empty(garm: &Garm) -> Result<()> {
    let api = garm.api();
    let quiet = json!({"enabled": false, "min_idle_runners": 0});
    for pool in api.list("/pools").await? {
        let path = format!("/pools/{}", pool["id"].as_str().unwrap_or_default());
        api.put(&path, &quiet).await?;
    }
    poll_until(Duration::from_secs(60), "GARM is empty", async || {
        for instance in api.list("/instances").await? {
            let path = format!(
                "/instances/{}",
                instance["name"].as_str().unwrap_or_default()
            );
            api.call("DELETE", &path, &Value::Null).await?;
        }
        for kind in [
            "/pools",
            "/repositories",
            "/organizations",
            "/enterprises",
            "/github/credentials",
        ] {
            for object in api.list(kind).await? {
                let id = object["id"].to_string();
                let path = format!("{kind}/{}", id.trim_matches('"'));
                api.call("DELETE", &path, &Value::Null).await?;
            }
        }
        let answer = api
            .call("DELETE", "/github/endpoints/ghes", &Value::Null)
            .await?;
        let left = api.list("/github/endpoints").await?;
        Ok(Seen::when((left, answer.status), |(left, _)| {
            left.iter().all(|endpoint| endpoint["name"] != "ghes")
        }))
    })
    .await?;
    Ok(())
}

async fn gone(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let mut operator = world.settled_operator(&world.command()).await?;
    operator.terminate(SOON).await?;
    empty(&world.garm).await?;
    delete_all(&world).await?;

    let mark = world.mark();
    let operator = world.operator().await?;
    wait_all_gone(&world).await?;
    let writes = world.garm_writes(mark);
    for write in &writes {
        let about_it = writes
            .iter()
            .filter(|other| other.path == write.path && other.method == write.method);
        ensure!(
            write.method != http::Method::POST && about_it.count() == 1,
            "{:?}",
            told(&writes)
        );
    }
    ensure_no_warning(&world).await?;
    world.finish(operator).await
}

async fn forced(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    world.garm.proxy().refuse(true);
    delete_all(&world).await?;
    // One by hand; the garbage collector takes the others.
    let runners = world.list("runner").await?;
    let runner = runners[0]["metadata"]["name"].as_str().unwrap_or_default();
    world.delete("runner", runner).await?;
    for (kind, name) in OBJECTS {
        let waiting = world
            .wait_condition(kind, name, "Ready", "False", "WaitingForGarm")
            .await?;
        let message = message(&waiting, "Ready");
        ensure!(message.contains("GARM cannot be reached"), "{message}");
    }
    world.patch("pool", "small", force_delete("yes")).await?;
    for (kind, name) in OBJECTS.into_iter().rev() {
        ensure!(world.get(kind, name).await?.is_some(), "{kind} {name} went");
        world.patch(kind, name, force_delete("true")).await?;
    }
    wait_all_gone(&world).await?;
    ensure!(
        world.garm.api().list("/pools").await?.len() == 2,
        "GARM was asked"
    );
    world.garm.proxy().refuse(false);
    world.finish(operator).await
}

async fn never_made(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.garm.proxy().refuse(true);
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    for (kind, name) in OBJECTS {
        world
            .wait_condition(kind, name, "Ready", "False", "WaitingForGarm")
            .await?;
    }
    // Only what has a finalizer stays when it is deleted.
    let finalizer = |kind: &str| {
        let short = match kind {
            "githubendpoint" => "endpoint",
            "githubcredential" => "credentials",
            other => other,
        };
        json!({"metadata": {"finalizers": [format!("garm-operator.mercedes-benz.com/{short}")]}})
    };
    for (kind, name) in OBJECTS {
        world.patch(kind, name, finalizer(kind)).await?;
    }
    delete_all(&world).await?;
    let mark = world.mark();
    world.garm.proxy().refuse(false);
    wait_all_gone(&world).await?;
    let requests = world.garm_requests(mark);
    ensure!(
        world.garm_writes(mark).is_empty()
            && requests.iter().all(|request| !request.path.ends_with('/')),
        "{:?}",
        told(&requests)
    );
    world.finish(operator).await
}

async fn paused(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let pause = |value: Value| json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/paused": value}}});
    let mark = world.mark();
    world.patch("pool", "small", pause("".into())).await?;
    world
        .wait_condition("pool", "small", "Paused", "True", "Paused")
        .await?;
    world
        .patch("pool", "small", json!({"spec": {"maxRunners": 7}}))
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_requests(mark).is_empty(),
        "{:?}",
        told(&world.garm_requests(mark))
    );
    world.patch("pool", "small", pause(Value::Null)).await?;
    let id = world.id("pool", "small").await?;
    poll_until(SOON, "the change that waited is pushed", async || {
        let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
        Ok(Seen::when(pool, |pool| pool["max_runners"] == 7))
    })
    .await?;
    world
        .wait("pool", "small", "it is no longer paused", |pool| {
            condition(pool, "Paused").is_null() && condition(pool, "Ready")["status"] == "True"
        })
        .await?;

    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    world.patch("pool", "small", pause("true".into())).await?;
    world.delete("pool", "small").await?;
    world
        .wait("pool", "small", "its deletion waits", |pool| {
            message(pool, "Paused").contains("deletion")
        })
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_requests(mark).is_empty(),
        "{:?}",
        told(&world.garm_requests(mark))
    );
    world.patch("pool", "small", pause("false".into())).await?;
    world.wait_gone("pool", "small").await?;

    // The way out works on a paused pool as well, and takes its runners' objects along, but nothing in GARM.
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    world.patch("pool", "large", pause("true".into())).await?;
    world.delete("pool", "large").await?;
    world.patch("pool", "large", force_delete("true")).await?;
    world.wait_gone("pool", "large").await?;
    wait_no_runners(&world).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_writes(mark).is_empty() && world.garm.api().list("/pools").await?.len() == 1,
        "{:?}",
        told(&world.garm_writes(mark))
    );
    world.finish(operator).await
}

async fn wrong_order(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    for (kind, name, dependants) in [
        ("githubendpoint", "ghes", &["pat"][..]),
        ("githubcredential", "pat", &["tools"]),
        ("repository", "tools", &["small", "large"]),
    ] {
        world.delete(kind, name).await?;
        let waiting = world
            .wait_condition(kind, name, "Ready", "False", "WaitingForDependants")
            .await?;
        let message = message(&waiting, "Ready");
        ensure!(
            dependants.iter().all(|name| message.contains(name)),
            "{message}"
        );
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );
    for name in ["small", "large"] {
        world.delete("pool", name).await?;
    }
    wait_all_gone(&world).await?;
    for route in [
        "DELETE /repositories/{id}",
        "DELETE /github/credentials/{id}",
        "DELETE /github/endpoints/{name}",
    ] {
        ensure!(world.garm_count(mark, route) == 1, "{route}");
    }
    let keeps_hook = world
        .garm_writes(mark)
        .into_iter()
        .any(|request| request.query == "keepWebhook=true");
    ensure!(keeps_hook, "the hook of an admin is not ours");
    ensure_no_warning(&world).await?;
    world.finish(operator).await
}
