//! What passes and what waits while the operator, GARM or a store is away.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};
use serde_json::json;

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
    suite.test("reviews_are_answered_without_garm", garm_away);
    suite.test("a_verdict_that_needs_an_unknown_store_is_none", store_away);
}

async fn operator_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let mut operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    world.apply(&world.manifests()).await?;
    world.wait_ready("pool", "small").await?;
    world.wait_ready("pool", "large").await?;
    operator.terminate(SOON).await?;

    // Labels, status, annotations and finalizers pass.
    for arguments in [
        &["label", "pool", "small", "team=a"][..],
        &["annotate", "repository", "tools", "note=b"],
        &[
            "patch",
            "pool",
            "small",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"longRunningIdleRunners":7}}"#,
        ],
        &["scale", "pool", "small", "--replicas=2"],
    ] {
        world.kubectl(arguments, "").await?;
    }
    // A new spec, and a new object, wait.
    let down = |hook: &str, output: &std::process::Output| {
        let told = told(output);
        let name = format!("failed calling webhook \"{hook}.garm-operator.mercedes-benz.com\"");
        ensure!(!output.status.success() && told.contains(&name), "{told}");
        Ok(())
    };
    let change = [
        "patch",
        "pool",
        "small",
        "--type=merge",
        "-p",
        r#"{"spec":{"flavor":"other"}}"#,
    ];
    down("mutate.pool", &kubectl(&world, &change, "").await?)?;
    let another = join(&[pool(
        "another",
        "flavor: b\n  minIdleRunners: 0\n  maxRunners: 1",
    )]);
    down("mutate.pool", &kubectl(&world, APPLY, &another).await?)?;
    let change = [
        "patch",
        "repository",
        "tools",
        "--type=merge",
        "-p",
        r#"{"spec":{"owner":"x"}}"#,
    ];
    down("validate.repository", &kubectl(&world, &change, "").await?)?;

    // An Image goes, although a Pool uses it; Pools wait, until somebody takes their finalizers.
    world
        .kubectl(&["delete", "image", "runner", "--timeout=20s"], "")
        .await?;
    world
        .kubectl(&["delete", "pool", "large", "--wait=false"], "")
        .await?;
    let finalizers = json!({"metadata": {"finalizers": null}}).to_string();
    world
        .kubectl(
            &["patch", "pool", "large", "--type=merge", "-p", &finalizers],
            "",
        )
        .await?;
    world.wait_gone("pool", "large").await?;

    // Back again: the Pool without an Image waits, and nothing of it is touched in GARM.
    let id = world.id("pool", "small").await?;
    let operator = world.operator().await?;
    world
        .wait_condition(
            "pool",
            "small",
            "ImageReference",
            "False",
            "FetchingImageRefFailed",
        )
        .await?;
    ensure!(world.garm.api().get(&format!("/pools/{id}")).await?["enabled"] == true);
    world.finish(operator).await?;

    // The namespace goes with nobody there, once the finalizers are taken.
    world
        .plane
        .kubectl_ok(
            &["delete", "namespace", &world.namespace, "--wait=false"],
            "",
        )
        .await?;
    for kind in [
        "pool",
        "runner",
        "repository",
        "githubcredential",
        "githubendpoint",
    ] {
        for object in world.list(kind).await? {
            let name = object["metadata"]["name"].as_str().context("a name")?;
            let arguments = ["patch", kind, name, "--type=merge", "-p", &finalizers];
            let output = kubectl(&world, &arguments, "").await?;
            // One without finalizers may have gone meanwhile.
            let told = told(&output);
            ensure!(
                output.status.success() || told.contains("not found"),
                "{told}"
            );
        }
    }
    let gone = [
        "wait",
        "--for=delete",
        "--timeout=60s",
        "namespace",
        &world.namespace,
    ];
    world.plane.kubectl_ok(&gone, "").await?;
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
        &["patch", "pool", "bad", "--type=merge", "-p", r#"{"spec":{"flavor":"b"}}"#],
        &[],
        "The Pool \"bad\" is invalid: spec.extraSpecs: Invalid value: is not JSON: EOF while parsing an object at line 1 column 1",
    )
    .await?;
    world
        .kubectl(&["delete", "pool", "bad", "--wait=false"], "")
        .await?;
    for change in [
        r#"{"spec":{"flavor":"b","providerName":"other"}}"#,
        r#"{"metadata":{"finalizers":null}}"#,
    ] {
        world
            .kubectl(&["patch", "pool", "bad", "--type=merge", "-p", change], "")
            .await?;
    }
    world.wait_gone("pool", "bad").await?;
    world.finish(operator).await
}

async fn garm_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    world.garm.stop().await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
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
