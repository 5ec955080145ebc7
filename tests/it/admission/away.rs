//! What passes and what waits while the operator, GARM or a store is away.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};

use super::{ensure_refused, kubectl, told};
use crate::documents::join;
use crate::hooks;
use crate::world::{SOON, World, image, pool};

const APPLY: &[&str] = &["apply", "-f", "-"];

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "with_the_operator_away_only_new_specs_wait_for_it",
        operator_away,
    );
    suite.test("a_terminating_pool_is_never_judged", terminating);
    suite.test(
        "reviews_are_answered_without_garm_and_without_the_lease",
        garm_away,
    );
    suite.test("a_verdict_that_needs_an_unknown_store_is_none", store_away);
}

/// The arguments that merge a change into an object.
fn patch<'a>(kind: &'a str, name: &'a str, change: &'a str) -> [&'a str; 6] {
    ["patch", kind, name, "--type=merge", "-p", change]
}

const NO_FINALIZERS: &str = r#"{"metadata":{"finalizers":null}}"#;

async fn operator_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let mut operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    world.apply(&world.manifests()).await?;
    world.wait_ready("pool", "small").await?;
    world.wait_ready("pool", "large").await?;
    operator.terminate(SOON).await?;
    ensure_old_specs_pass(&world).await?;
    ensure_new_specs_wait(&world).await?;

    // An Image goes, although a Pool uses it; a Pool waits, until somebody takes its finalizers.
    let delete = ["delete", "image", "runner", "--timeout=20s"];
    world.kubectl(&delete, "").await?;
    let delete = ["delete", "pool", "large", "--wait=false"];
    world.kubectl(&delete, "").await?;
    world
        .kubectl(&patch("pool", "large", NO_FINALIZERS), "")
        .await?;
    world.wait_gone("pool", "large").await?;

    // Back again: the Pool without an Image waits, and nothing of it is touched in GARM.
    let id = world.id("pool", "small").await?;
    let operator = world.operator().await?;
    let (type_, reason) = ("ImageReference", "FetchingImageRefFailed");
    world
        .wait_condition("pool", "small", type_, "False", reason)
        .await?;
    let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(pool["enabled"] == true, "{pool}");
    world.finish(operator).await?;

    // The namespace goes with nobody there, once the finalizers are taken.
    let delete = ["delete", "namespace", &world.namespace, "--wait=false"];
    world.plane.kubectl_ok(&delete, "").await?;
    take_finalizers(&world).await?;
    let gone = ["wait", "--for=delete", "--timeout=60s", "namespace"];
    let gone = [&gone[..], &[&world.namespace]].concat();
    world.plane.kubectl_ok(&gone, "").await?;
    Ok(())
}

/// Labels, annotations, status, finalizers and `/scale` pass.
async fn ensure_old_specs_pass(world: &World<'_>) -> Result<()> {
    let status = r#"{"status":{"longRunningIdleRunners":7}}"#;
    let status = [
        &patch("pool", "small", status)[..],
        &["--subresource=status"],
    ]
    .concat();
    for arguments in [
        &["label", "pool", "small", "team=a"][..],
        &["annotate", "repository", "tools", "note=b"],
        &patch("repository", "tools", NO_FINALIZERS),
        &status,
        &["scale", "pool", "small", "--replicas=2"],
    ] {
        world.kubectl(arguments, "").await?;
    }
    Ok(())
}

/// A new spec, and a new object, wait for the operator.
async fn ensure_new_specs_wait(world: &World<'_>) -> Result<()> {
    let another = pool("another", "flavor: b\n  minIdleRunners: 0\n  maxRunners: 1");
    for (arguments, input, hook) in [
        (
            &patch("pool", "small", r#"{"spec":{"flavor":"other"}}"#)[..],
            String::new(),
            "mutate.pool",
        ),
        (APPLY, join(&[another]), "mutate.pool"),
        (
            &patch("repository", "tools", r#"{"spec":{"owner":"x"}}"#),
            String::new(),
            "validate.repository",
        ),
    ] {
        let output = kubectl(world, arguments, &input).await?;
        let told = told(&output);
        let name = format!("failed calling webhook \"{hook}.garm-operator.mercedes-benz.com\"");
        ensure!(!output.status.success() && told.contains(&name), "{told}");
    }
    Ok(())
}

/// Takes the finalizers of all objects of the namespace, as somebody would who cannot bring the operator back.
async fn take_finalizers(world: &World<'_>) -> Result<()> {
    for kind in [
        "pool",
        "runner",
        "repository",
        "githubcredential",
        "githubendpoint",
    ] {
        for object in world.list(kind).await? {
            let name = object["metadata"]["name"].as_str().context("a name")?;
            let output = kubectl(world, &patch(kind, name, NO_FINALIZERS), "").await?;
            // One without finalizers may have gone meanwhile.
            let told = told(&output);
            ensure!(
                output.status.success() || told.contains("not found"),
                "{told}"
            );
        }
    }
    Ok(())
}

async fn terminating(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[0]).await?;
    // It was stored when nobody asked, and breaks every rule.
    world.apply(&[image("runner", "runner:1")]).await?;
    let bad = pool(
        "bad",
        "flavor: a\n  minIdleRunners: 0\n  maxRunners: 1\n  extraSpecs: '{'",
    );
    let held = bad.replace(
        "metadata: {name: bad}",
        "metadata: {name: bad, finalizers: [example.com/hold]}",
    );
    world.apply(&[held]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    world.kubectl(&["label", "pool", "bad", "a=b"], "").await?;
    ensure_refused(
        &world,
        &patch("pool", "bad", r#"{"spec":{"flavor":"b"}}"#),
        &[],
        "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: is not JSON: EOF while parsing an object at line 1 column 1",
    )
    .await?;
    world
        .kubectl(&["delete", "pool", "bad", "--wait=false"], "")
        .await?;
    for change in [
        r#"{"spec":{"flavor":"b","providerName":"other"}}"#,
        NO_FINALIZERS,
    ] {
        world.kubectl(&patch("pool", "bad", change), "").await?;
    }
    world.wait_gone("pool", "bad").await?;
    world.finish(operator).await
}

async fn garm_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    world.garm.stop().await?;
    // Somebody else leads, too.
    world.plane.hold_lease(&world.namespace).await?;
    let standby = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true");
    let operator = hooks::start(ground, &world, &standby, &[]).await?;
    let began = Instant::now();
    world.apply(&world.manifests()).await?;
    let wrong = pool("bad", "flavor: a\n  minIdleRunners: 0\n  maxRunners: 0");
    let output = kubectl(&world, APPLY, &join(&[wrong])).await?;
    ensure!(
        told(&output).contains("spec.maxRunners"),
        "{}",
        told(&output)
    );
    let took = began.elapsed();
    ensure!(took < Duration::from_secs(5), "it took {took:?}");
    world.finish(operator).await
}

async fn store_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    world.apply(&[image("runner", "runner:1")]).await?;
    // The first list of Pools never ends.
    let release = Release::new();
    let pools = Matcher::route("GET /pools");
    let held = world.kube.rule(pools, Fault::HoldAnswer(release.clone()));
    let certificates = Certificates::new()?;
    let port = hooks::free_port()?;
    let command = hooks::serving(ground, &world.command(), port, &certificates)?;
    let operator = world.start(&command).await?;
    let url = format!("https://127.0.0.1:{port}");
    hooks::configure(&world, &url, &certificates, &[]).await?;

    // Fields are judged; a Pool that may be a duplicate is neither refused nor accepted by us.
    let input = join(&[pool(
        "new",
        "flavor: a\n  minIdleRunners: 0\n  maxRunners: 1",
    )]);
    let end = Instant::now() + SOON;
    let told = loop {
        let began = Instant::now();
        let output = kubectl(&world, &["create", "--dry-run=server", "-f", "-"], &input).await?;
        if !output.status.success() {
            let took = began.elapsed();
            ensure!(took < Duration::from_secs(5), "it took {took:?}");
            break told(&output);
        }
        ensure!(Instant::now() < end, "the webhooks are never asked");
    };
    ensure!(
        told.contains("failed calling webhook \"validate.pool")
            && told.contains("the server is currently unable to handle the request"),
        "{told}"
    );
    let wrong = join(&[pool(
        "new",
        "flavor: a\n  minIdleRunners: 0\n  maxRunners: 0",
    )]);
    let output = kubectl(&world, APPLY, &wrong).await?;
    ensure!(
        super::told(&output).contains("spec.maxRunners: Invalid value: 0"),
        "{}",
        super::told(&output)
    );
    // Nobody proves that the Image is in use.
    world.kubectl(&["delete", "image", "runner"], "").await?;

    release.release();
    held.remove();
    world
        .apply(&[pool(
            "new",
            "flavor: a\n  minIdleRunners: 0\n  maxRunners: 1",
        )])
        .await?;
    world.finish(operator).await
}
