//! Instances in each status that GARM has, and in one that it may come to have: only what GARM can remove is asked for.
//!
//! Most statuses pass by too fast to be caught, so the proxy writes them into all that the operator sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::world::{Mark, World, message, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("scale_down_takes_only_what_garm_can_remove", scale_down);
    suite.test_on_each_garm(
        "a_pool_that_goes_takes_only_what_garm_can_remove_and_waits_for_the_rest",
        deletion,
    );
}

/// Each status once, the last of no GARM that we know.
const STATUSES: [&str; 11] = [
    "pending_create",
    "creating",
    "running",
    "error",
    "pending_delete",
    "pending_force_delete",
    "deleting",
    "deleted",
    "stopped",
    "unknown",
    "weird",
];

/// In which of them GARM takes a deletion that nobody has asked for yet.
const REMOVABLE: [&str; 2] = ["error", "running"];

/// Long enough for each interval after which the operator looks again at a pool that goes (5 s).
const LOOKS: Duration = Duration::from_secs(12);

/// Writes the status of each of these instances into whatever there is in a document.
fn disguise(statuses: &BTreeMap<String, &'static str>, document: &mut Value) {
    match document {
        Value::Array(values) => values.iter_mut().for_each(|one| disguise(statuses, one)),
        Value::Object(fields) => {
            let status = fields.get("name").and_then(Value::as_str);
            if let Some(status) = status.and_then(|name| statuses.get(name))
                && fields.contains_key("runner_status")
            {
                fields.insert("status".to_owned(), json!(status));
            }
            fields.values_mut().for_each(|one| disguise(statuses, one));
        }
        _ => {}
    }
}

/// The same for a text, which stays as it is where it is no JSON.
fn disguised(statuses: &BTreeMap<String, &'static str>, text: &[u8]) -> Vec<u8> {
    match serde_json::from_slice(text) {
        Ok(mut document) => {
            disguise(statuses, &mut document);
            document.to_string().into_bytes()
        }
        Err(_) => text.to_vec(),
    }
}

/// A pool with an idle runner for each status, which the operator of this command sees in it; answers the statuses by the runners' names.
async fn runners(world: &World<'_>) -> Result<BTreeMap<String, &'static str>> {
    let operator = world.operator().await?;
    let count = STATUSES.len();
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    let fields = format!("flavor: small\n  minIdleRunners: {count}\n  maxRunners: {count}");
    documents.push(pool("small", &fields));
    world.apply(&documents).await?;
    let runners = world.wait_idle_runners(count).await?;
    world.finish(operator).await?;
    let mut statuses = BTreeMap::new();
    for (runner, status) in runners.iter().zip(STATUSES) {
        let name = runner["status"]["name"].as_str().context("no name")?;
        statuses.insert(name.to_owned(), status);
    }
    let proxy = world.garm.proxy();
    let told = statuses.clone();
    let rewrite = move |body: axum::body::Bytes| disguised(&told, &body).into();
    proxy.rule(
        Matcher::any().method(http::Method::GET),
        Fault::Rewrite(Arc::new(rewrite)),
    );
    let told = statuses.clone();
    proxy.edit_frames(move |text| {
        let text = disguised(&told, text.as_bytes());
        vec![String::from_utf8_lossy(&text).into_owned()]
    });
    Ok(statuses)
}

/// The statuses of those whose deletion was asked for since the mark, with the query of that request, sorted.
fn asked(world: &World<'_>, statuses: &BTreeMap<String, &'static str>, mark: Mark) -> Vec<String> {
    let writes = world.garm_writes(mark).into_iter();
    let mut asked: Vec<String> = writes
        .filter(|write| write.route == "DELETE /instances/{name}")
        .map(|write| {
            let name = write.path.rsplit('/').next().unwrap_or_default();
            let status = statuses.get(name).copied().unwrap_or(name);
            format!("{status}?{}", write.query)
        })
        .collect();
    asked.sort();
    asked
}

/// Waits until GARM has this many instances, as it shows them itself.
async fn wait_left(world: &World<'_>, count: usize) -> Result<()> {
    poll_until(Duration::from_secs(60), "instances go", async || {
        let left = world.garm.api().list("/instances").await?;
        Ok(Seen::when(left.len(), |left| *left == count))
    })
    .await?;
    Ok(())
}

async fn scale_down(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let statuses = runners(&world).await?;
    let command = world
        .command()
        .argument("--operator-min-idle-runners-age=3s");
    let operator = world.start(&command).await?;
    let mark = world.mark();
    world
        .change("pool", "small", json!({"spec": {"minIdleRunners": 0}}))
        .await?;
    wait_left(&world, STATUSES.len() - REMOVABLE.len()).await?;
    world
        .wait("pool", "small", "those that are left are counted", |pool| {
            pool["status"]["runners"]["total"] == STATUSES.len() - REMOVABLE.len()
        })
        .await?;
    world.wait_calm(Duration::from_secs(6)).await?;
    let asked = asked(&world, &statuses, mark);
    ensure!(
        asked == REMOVABLE.map(|status| format!("{status}?")),
        "{asked:?}"
    );
    world.finish(operator).await
}

async fn deletion(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let statuses = runners(&world).await?;
    let operator = world.operator().await?;
    world.wait_ready("pool", "small").await?;
    let mark = world.mark();
    world.delete("pool", "small").await?;
    // Whoever else asks.
    let by_hand = ["delete", "runners", "--all", "--wait=false"];
    world.kubectl(&by_hand, "").await?;
    let left = STATUSES.len() - REMOVABLE.len();
    wait_left(&world, left).await?;
    world
        .wait("pool", "small", "it says what remains", |pool| {
            message(pool, "Ready") == format!("{left} runners remain")
        })
        .await?;
    let plain = REMOVABLE.map(|status| format!("{status}?"));
    tokio::time::sleep(LOOKS).await;
    let so_far = asked(&world, &statuses, mark);
    ensure!(so_far == plain, "{so_far:?}");

    let force = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/force-remove": "true"}}});
    let mark = world.mark();
    world.patch("pool", "small", force).await?;
    poll_until(
        Duration::from_secs(30),
        "it is asked by force",
        async || {
            let asked = asked(&world, &statuses, mark);
            let again = "pending_delete?forceRemove=true".to_owned();
            Ok(Seen::when(asked, |asked| asked.contains(&again)))
        },
    )
    .await?;
    tokio::time::sleep(LOOKS).await;
    // GARM takes both, and refuses all others also by force.
    let by_force = asked(&world, &statuses, mark);
    let accepted = ["pending_delete", "pending_force_delete"]
        .map(|status| format!("{status}?forceRemove=true"));
    ensure!(
        by_force == accepted[..by_force.len().min(accepted.len())],
        "{by_force:?}"
    );

    // What GARM can remove after all goes.
    world.garm.proxy().clear_rules();
    world.garm.proxy().pass_frames();
    world.wait_gone("pool", "small").await?;
    wait_left(&world, 0).await?;
    world.finish(operator).await
}
