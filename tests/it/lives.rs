//! Beginnings and ends: what is told of them, and who asks GARM to end a runner.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Job, Owner};
use serde_json::json;

use crate::documents::entity;
use crate::world::{Mark, SOON, World, condition, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_creation_is_told_before_and_after", creations);
    suite.test_on_each_garm("the_runner_of_a_pool_that_goes_is_let_go", let_go);
    suite.test_on_each_garm("a_pool_is_removed_by_force_only_if_asked_for", forced);
    suite.test("a_runner_made_by_hand_goes_again", by_hand);
    suite.test_on_each_garm("without_runner_objects_nothing_is_polled", not_polled);
}

const DELETE: &str = "DELETE /instances/{name}";

async fn creations(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.extend([
        entity("Organization", "umbrella", "pat"),
        entity("Enterprise", "big", "pat"),
    ]);
    world.apply(&documents).await?;
    for (kind, name, component) in [
        ("githubendpoint", "ghes", "github-endpoint-controller"),
        ("githubcredential", "pat", "github-credentials-controller"),
        ("repository", "tools", "repository-controller"),
        ("organization", "umbrella", "organization-controller"),
        ("enterprise", "big", "enterprise-controller"),
    ] {
        world.wait_ready(kind, name).await?;
        for reason in ["Creating", "Info"] {
            let events = poll_until(SOON, &format!("{reason} of {name}"), async || {
                let events = world.events(name, "Normal", reason).await?;
                Ok(Seen::when(events, |events| events.len() == 1))
            })
            .await?;
            let by = &events[0]["reportingController"];
            ensure!(by == component, "{name} by {by}");
        }
    }
    for name in ["small", "large"] {
        world.wait_ready("pool", name).await?;
        let events = world.events(name, "Normal", "Creating").await?;
        ensure!(
            events.is_empty(),
            "a pool is told of when it is there: {events:?}"
        );
    }
    world.finish(operator).await
}

/// The Runner object of a pool's one runner, and the name of its instance.
async fn runner_of(world: &World<'_>, pool: &str) -> Result<(String, String)> {
    let mut runners = world.list("runners").await?;
    runners.retain(|runner| runner["status"]["poolId"] == pool);
    let runner = runners.first().context("no runner")?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned).context("no text");
    Ok((
        text(&runner["metadata"]["name"])?,
        text(&runner["status"]["name"])?,
    ))
}

/// How often the operator asked GARM to delete this instance, with any query.
fn asked(world: &World<'_>, mark: Mark, instance: &str) -> Vec<String> {
    let path = format!("/api/v1/instances/{instance}");
    let writes = world.garm_writes(mark).into_iter();
    writes
        .filter(|write| write.path == path)
        .map(|write| write.query)
        .collect()
}

async fn let_go(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;

    // A job holds the Pool; its runner's object goes all the same, and nobody asks GARM for it.
    let (name, instance) = runner_of(&world, "small").await?;
    let owner = Owner::repository("acme", "tools");
    let job = Job::new(owner, "planted-webhook-secret", &["small", "linux"]);
    world.garm.job_in_progress(&job, &instance).await?;
    world
        .wait("pool", "small", "a job", |pool| {
            pool["status"]["runners"]["active"] == 1
        })
        .await?;
    let mark = world.mark();
    world.delete("pool", "small").await?;
    world
        .wait_condition("pool", "small", "Ready", "False", "Deleting")
        .await?;
    world.delete("runner", &name).await?;
    world.wait_gone("runner", &name).await?;
    ensure!(asked(&world, mark, &instance).is_empty());
    ensure!(
        world.get("pool", "small").await?.is_some(),
        "the Pool went with it"
    );
    world.garm.job_completed(&job, &instance).await?;
    world.wait_gone("pool", "small").await?;
    ensure!(
        asked(&world, mark, &instance).is_empty(),
        "GARM ends it itself"
    );

    // The garbage collector takes the objects first; the Pool's own deletion asks for the instance, once.
    let (name, instance) = runner_of(&world, "large").await?;
    let mark = world.mark();
    let foreground = [
        "delete",
        "pool",
        "large",
        "--cascade=foreground",
        "--wait=false",
    ];
    world.kubectl(&foreground, "").await?;
    poll_until(SOON * 3, "the Pool is gone", async || {
        Ok(Seen::when(
            world.get("pool", "large").await?,
            Option::is_none,
        ))
    })
    .await?;
    world.wait_gone("runner", &name).await?;
    let asked = asked(&world, mark, &instance);
    ensure!(asked == [""], "{asked:?}");
    world.finish(operator).await
}

async fn forced(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let (_, instance) = runner_of(&world, "small").await?;
    let provider = world.garm.provider();
    provider.fail_deletes(Some("the cloud is out of order"))?;
    let mark = world.mark();
    world.delete("pool", "small").await?;
    world
        .wait_for("the provider fails", || {
            let tries = provider.operations().into_iter();
            let deletions = tries.filter(|one| one.command == "DeleteInstance");
            deletions.count() >= 2
        })
        .await?;
    let waiting = world.object("pool", "small").await?;
    ensure!(
        condition(&waiting, "Ready")["reason"] == "Deleting",
        "{waiting}"
    );
    let plain = asked(&world, mark, &instance);
    ensure!(plain == [""], "{plain:?}");

    let force = json!({"metadata": {"annotations": {"garm-operator.mercedes-benz.com/force-remove": "true"}}});
    world.patch("pool", "small", force).await?;
    poll_until(SOON * 2, "the Pool is gone", async || {
        Ok(Seen::when(
            world.get("pool", "small").await?,
            Option::is_none,
        ))
    })
    .await?;
    let both = asked(&world, mark, &instance);
    ensure!(both == ["", "forceRemove=true"], "{both:?}");
    ensure!(
        world.garm_count(mark, DELETE) == 2,
        "{:?}",
        told(&world.garm_writes(mark))
    );
    provider.fail_deletes(None)?;
    world.finish(operator).await
}

async fn not_polled(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.garm.proxy().rule(
        Matcher::any().path_contains("/ws/events"),
        Fault::garm_error(http::StatusCode::BAD_GATEWAY, "Bad gateway", ""),
    );
    // Half a second between polls, if there were any; half a minute between resyncs.
    let command = world
        .command()
        .argument("--timings-scale=0.1")
        .argument("--operator-runner-reconciliation=false");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let lists = |mark| world.garm_count(mark, "GET /instances");
    let mark = world.mark();
    world.wait_for("a resync", || lists(mark) > 0).await?;
    let mark = world.mark();
    // Nothing comes of this time: that is the test.
    tokio::time::sleep(Duration::from_secs(8)).await;
    ensure!(lists(mark) == 0, "{} lists", lists(mark));
    world
        .wait_for("the next resync", || lists(mark) == 1)
        .await?;
    ensure!(world.garm_count(mark, "GET /pools/{id}/instances") == 0);
    world.wait_counted().await?;
    world.finish(operator).await
}

async fn by_hand(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    // A resync each 6 s.
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.settled_operator(&command).await?;
    let mark = world.mark();
    let runner = "kind: Runner\nmetadata: {name: made-up}\nspec: {}\n".to_owned();
    world.apply(&[runner]).await?;
    world.wait_gone("runner", "made-up").await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");
    ensure!(world.list("runners").await?.len() == 2);
    world.finish(operator).await
}
