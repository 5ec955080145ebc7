//! Many objects at once: each costs what one costs, and none keeps the others waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Recorded;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::world::{SOON, World, condition, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_hundred_pools_cost_what_one_costs_each", hundred);
    suite.test_on_each_garm("a_github_that_is_slow_keeps_no_pool_waiting", slow_github);
}

const POOLS: usize = 100;

/// Writes to Kubernetes that one new Pool may cost, events apart: finalizer, id, annotations, status.
const WRITES: usize = 4;

async fn hundred(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    let pools = (0..POOLS).map(|n| {
        let fields = format!("flavor: p{n:03}\n  minIdleRunners: 0\n  maxRunners: 1");
        pool(&format!("p{n:03}"), &fields)
    });
    world.apply(&pools.collect::<Vec<_>>()).await?;
    let all_ready = async || {
        let pools = world.list("pool").await?;
        let ready = pools
            .iter()
            .filter(|pool| condition(pool, "Ready")["status"] == "True");
        Ok(Seen::when(ready.count(), |count| *count == POOLS))
    };
    poll_until(SOON * 4, "all pools are Ready", all_ready).await?;
    world.wait_calm(Duration::from_secs(3)).await?;

    let writes = world.garm_writes(mark);
    let mut posts: Vec<Value> = writes
        .iter()
        .filter(|write| write.route == "POST /repositories/{id}/pools")
        .map(|write| write.json()["flavor"].clone())
        .collect();
    let puts = writes
        .iter()
        .filter(|write| write.route == "PUT /pools/{id}");
    let mut puts: Vec<&str> = puts.map(|write| write.path.as_str()).collect();
    ensure!(
        posts.len() == POOLS && puts.len() == POOLS && writes.len() == 2 * POOLS,
        "{} requests",
        writes.len()
    );
    posts.sort_by_key(Value::to_string);
    posts.dedup();
    puts.sort_unstable();
    puts.dedup();
    ensure!(
        posts.len() == POOLS && puts.len() == POOLS,
        "one was made or changed twice"
    );

    let mut costs: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
    for write in world.kube_writes(mark) {
        let name = write
            .path
            .split("/pools/")
            .nth(1)
            .map(|rest| rest.trim_end_matches("/status").to_owned());
        if let Some(name) = name {
            costs.entry(name).or_default().push(write);
        }
    }
    for (name, writes) in &costs {
        ensure!(writes.len() <= WRITES, "{name}: {:?}", told(writes));
        let last = writes.last().context("a write")?.json();
        ensure!(
            condition(&last, "Ready")["status"] == "True",
            "{name} was written after it was Ready: {:?}",
            told(writes)
        );
    }
    ensure!(costs.len() == POOLS, "{} pools were written", costs.len());
    world.finish(operator).await
}

/// GitHub's time for each answer.
const SLOW: Duration = Duration::from_secs(8);

async fn slow_github(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    documents.push(pool(
        "small",
        "flavor: small\n  minIdleRunners: 5\n  maxRunners: 5",
    ));
    documents.push(pool(
        "other",
        "flavor: other\n  minIdleRunners: 0\n  maxRunners: 1",
    ));
    world.apply(&documents).await?;
    world.wait_ready("pool", "other").await?;
    let runners = world.wait_idle_runners(5).await?;
    world.wait_calm(Duration::from_secs(2)).await?;

    world.garm.github().delay(SLOW);
    let mark = world.mark();
    for runner in &runners {
        world
            .delete(
                "runner",
                runner["metadata"]["name"].as_str().context("no name")?,
            )
            .await?;
    }
    let more = (0..5).map(|n| documents[4].replace("name: tools", &format!("name: more-{n}")));
    world.apply(&more.collect::<Vec<_>>()).await?;
    world
        .wait_for("GitHub is waited for", || {
            waiting(&world.garm_requests(mark)).1 > 0
        })
        .await?;
    let since = Instant::now();
    let (mut most, mut done) = ((0, 0), None);
    world
        .patch("pool", "other", json!({"spec": {"maxRunners": 3}}))
        .await?;
    let put = "PUT /pools/{id} {\"max_runners\":3}";
    let sample = async || {
        let requests = world.garm_requests(mark);
        let (all, github) = waiting(&requests);
        most = (most.0.max(all), most.1.max(github));
        if done.is_none() && told(&requests).iter().any(|request| request == put) {
            done = Some(since.elapsed());
        }
        Ok(Seen::when(since.elapsed(), |time| {
            *time > SLOW && done.is_some()
        }))
    };
    poll_until(SOON, "the pool is changed meanwhile", sample).await?;
    ensure!(done.is_some_and(|time| time < SLOW), "only after {done:?}");
    ensure!(
        most.0 <= 4 && most.1 <= 2,
        "{} requests at once, {} of them for GitHub",
        most.0,
        most.1
    );
    world.garm.github().delay(Duration::ZERO);
    for n in 0..5 {
        world
            .wait("repository", &format!("more-{n}"), "it is made", |object| {
                object["status"]["id"].is_string()
            })
            .await?;
    }
    world.finish(operator).await
}

/// How many requests are not answered yet, and how many of them wait for GitHub.
fn waiting(requests: &[Recorded]) -> (usize, usize) {
    let open = requests
        .iter()
        .filter(|request| request.status.is_none() && !request.route.contains("/ws/"));
    let github = open.clone().filter(|request| {
        ["POST /repositories", "DELETE /instances/{name}"].contains(&request.route.as_str())
    });
    (open.count(), github.count())
}
