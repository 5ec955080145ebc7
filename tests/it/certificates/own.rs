//! Certificates that the operator makes itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator::api::install::PREFIX;
use garm_operator::generate::crds;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Patience, Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{
    ControlPlane, ConversionEndpoint, GarmOptions, Ground, Operator, OperatorCommand,
};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::client::shown;
use super::configurations::{apply, bundles, configurations, with_bundle};
use super::load::Load;
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "no_call_fails_while_our_certificate_changes_every_two_seconds_and_our_ca_three_times",
        async |ground| on_own_plane(ground, async |world| minute(&world).await).await,
    );
    suite.test(
        "a_first_installation_makes_its_certificate_known_and_keeps_it_known",
        async |ground| on_own_plane(ground, async |world| first_installation(&world).await).await,
    );
    suite.test(
        "two_replicas_share_one_ca_that_survives_damage",
        async |ground| on_own_plane(ground, async |world| two_replicas(&world).await).await,
    );
}

const SECRET: &str = "garm-operator-webhook-ca";

/// Runs a test on a control plane of its own: conversion and our names are one for all its namespaces.
pub async fn on_own_plane<F>(ground: &Ground, test: F) -> Result<()>
where
    F: AsyncFnOnce(World<'_>) -> Result<()>,
{
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let world = World::on(ground, &plane, GarmVersion::V0_2_1, GarmOptions::default()).await?;
    let result = test(world).await;
    plane.stop().await?;
    result
}

/// The command of an operator that makes its certificates itself.
pub fn command(world: &World<'_>) -> OperatorCommand {
    world
        .command()
        .own_namespace(&world.namespace)
        .webhooks()
        .argument("--operator-webhook-certs=self-managed")
}

/// Installs configurations and CRDs that lead to this address, without any bundle.
pub async fn install(world: &World<'_>, address: std::net::SocketAddr) -> Result<()> {
    let endpoint = ConversionEndpoint {
        url: format!("https://{address}/convert"),
        ca_pem: String::new(),
    };
    world
        .plane
        .install_crds(crds::definitions(), Some(&endpoint))
        .await?;
    for configuration in configurations(PREFIX, address, None)? {
        apply(world.plane, &configuration).await?;
    }
    Ok(())
}

/// Waits until all webhooks hold one and the same bundle; answers it.
pub async fn stored(world: &World<'_>) -> Result<String> {
    poll_until(SOON, "the bundle is stored everywhere", async || {
        let bundles = bundles(world.plane, PREFIX).await?;
        Ok(Seen::when(bundles, |bundles| {
            !bundles[0].is_empty() && bundles.iter().all(|bundle| *bundle == bundles[0])
        })
        .map(|mut bundles| bundles.swap_remove(0)))
    })
    .await
}

/// The bundle that the CRD of these holds; an absent one is empty.
pub async fn conversion_bundle(world: &World<'_>, plural: &str) -> Result<String> {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.plane.client());
    let name = format!("{plural}.garm-operator.mercedes-benz.com");
    let definition = definitions.get(&name).await?;
    let bundle = definition
        .spec
        .conversion
        .and_then(|conversion| conversion.webhook?.client_config?.ca_bundle)
        .map(|bundle| bundle.0)
        .unwrap_or_default();
    Ok(String::from_utf8(bundle)?)
}

fn secrets(world: &World<'_>) -> Api<Secret> {
    Api::namespaced(world.plane.client(), &world.namespace)
}

async fn first_installation(world: &World<'_>) -> Result<()> {
    // The operator is there first; what it has to make known itself to comes later.
    let operator = world.start(&command(world)).await?;
    let address = operator.webhook_address();
    install(world, address).await?;
    let bundle = stored(world).await?;
    shown(address, &bundle).await?;
    let metrics = operator.metrics().await?;
    for expiry in ["ca", "certificate"] {
        let name = format!("garm_operator_webhook_{expiry}_expiration_timestamp_seconds ");
        ensure!(
            metrics.lines().any(|line| line.starts_with(&name)),
            "no {name}"
        );
    }
    for plural in ["enterprises", "organizations", "pools", "repositories"] {
        poll_until(SOON, "the CRD holds it", async || {
            let seen = conversion_bundle(world, plural).await?;
            Ok(Seen::when(seen, |seen| *seen == bundle))
        })
        .await?;
    }
    // It is called, in both ways.
    poll_until(SOON, "everything is applied", async || {
        world.apply(&world.manifests()).await.map(Seen::Yes)
    })
    .await?;
    world.wait_all_ready().await?;
    let refused = world
        .patch("pool", "small", json!({"spec": {"maxRunners": 0}}))
        .await;
    let refused = format!("{:#}", refused.err().context("a wrong Pool passed")?);
    ensure!(refused.contains("spec"), "{refused}");
    let old = world
        .kubectl(
            &[
                "get",
                "pools.v1alpha1.garm-operator.mercedes-benz.com",
                "small",
                "-o",
                "name",
            ],
            "",
        )
        .await?;
    ensure!(old.contains("small"), "{old}");

    // Nothing more is written once everything is stored.
    let mark = world.mark();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let writes = bundle_writes(world, mark);
    ensure!(writes == 0, "{writes} writes at rest");

    keeps_what_others_write(world, address, &bundle).await?;
    world.finish(operator).await
}

/// Counts the writes of bundles since then.
fn bundle_writes(world: &World<'_>, mark: crate::world::Mark) -> usize {
    let writes = world.kube_writes(mark);
    writes
        .iter()
        .filter(|request| {
            request.method == Method::PATCH
                && (request.path.contains("webhookconfigurations")
                    || request.path.contains("customresourcedefinitions"))
        })
        .count()
}

/// Others apply, replace and shorten the configurations; the bundle is there again.
async fn keeps_what_others_write(
    world: &World<'_>,
    address: std::net::SocketAddr,
    bundle: &str,
) -> Result<()> {
    let [validating, mutating] = configurations(PREFIX, address, None)?;
    let text = validating.to_string();
    world.plane.kubectl_ok(&["apply", "-f", "-"], &text).await?;
    let kept = bundles(world.plane, PREFIX).await?;
    ensure!(kept.iter().all(|one| one == bundle), "an apply took it");
    world
        .plane
        .kubectl_ok(&["replace", "-f", "-"], &text)
        .await?;
    ensure!(stored(world).await? == bundle, "another bundle");
    let foreign = with_bundle(mutating.clone(), bundle.trim_end());
    world
        .plane
        .kubectl_ok(&["replace", "-f", "-"], &foreign.to_string())
        .await?;
    ensure!(stored(world).await? == bundle, "another bundle");

    // Who manages the configuration may take a webhook out of it: we own none.
    let applied = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    world.plane.kubectl_ok(&applied, &text).await?;
    let mut shorter = validating;
    let webhooks = shorter["webhooks"].as_array_mut();
    webhooks.context("no webhooks")?.remove(0);
    world
        .plane
        .kubectl_ok(&applied, &shorter.to_string())
        .await?;
    stored(world).await?;

    let definitions: Api<CustomResourceDefinition> = Api::all(world.plane.client());
    let wipe =
        json!([{ "op": "remove", "path": "/spec/conversion/webhook/clientConfig/caBundle" }]);
    let wipe = Patch::<()>::Json(serde_json::from_value(wipe)?);
    let name = "pools.garm-operator.mercedes-benz.com";
    definitions
        .patch(name, &PatchParams::default(), &wipe)
        .await?;
    poll_until(SOON, "the CRD holds it again", async || {
        let seen = conversion_bundle(world, "pools").await?;
        Ok(Seen::when(seen, |seen| seen == bundle))
    })
    .await
    .map(|_| ())
}

async fn two_replicas(world: &World<'_>) -> Result<()> {
    let command = command(world)
        .argument("--operator-leader-election=true")
        // They look at the Secret often.
        .argument("--timings-scale=0.1");
    let (mut first, mut second) = (command.start()?, command.start()?);
    first.wait_ready(SOON).await?;
    second.wait_ready(SOON).await?;
    install(world, first.webhook_address()).await?;
    let bundle = stored(world).await?;
    ensure!(bundle.matches("BEGIN").count() == 1, "one CA: {bundle}");
    let one = shown(first.webhook_address(), &bundle).await?;
    let other = shown(second.webhook_address(), &bundle).await?;
    ensure!(one != other, "each signs its own");

    let before = secrets(world).get(SECRET).await?.data;
    let broken = json!({ "stringData": { "current.key": "nonsense" } });
    secrets(world)
        .patch(SECRET, &PatchParams::default(), &Patch::Merge(broken))
        .await?;
    repaired(world, before.as_ref()).await?;
    secrets(world)
        .delete(SECRET, &DeleteParams::default())
        .await?;
    repaired(world, before.as_ref()).await?;
    ensure!(stored(world).await? == bundle, "the bundle changed");
    shown(first.webhook_address(), &bundle).await?;
    shown(second.webhook_address(), &bundle).await?;
    let logs = [first.stderr(), second.stderr()].concat();
    let told = logs.matches("webhook CA was damaged").count();
    ensure!(told == 1, "the damage was told {told} times");

    // Whoever is left serves and knows the CA.
    first.kill().await?;
    shown(second.webhook_address(), &bundle).await?;
    world.finish(second).await
}

/// Waits until the Secret holds what it held.
async fn repaired(
    world: &World<'_>,
    before: Option<&std::collections::BTreeMap<String, k8s_openapi::ByteString>>,
) -> Result<()> {
    poll_until(SOON, "the Secret is as before", async || {
        let data = secrets(world)
            .get_opt(SECRET)
            .await?
            .and_then(|secret| secret.data);
        Ok(match data {
            Some(data) if Some(&data) == before => Seen::Yes(()),
            // Not its content.
            Some(data) => Seen::NotYet(format!("{:?}", data.keys())),
            None => Seen::NotYet("no Secret".to_owned()),
        })
    })
    .await
}

async fn minute(world: &World<'_>) -> Result<()> {
    let command = command(world)
        .argument("--operator-webhook-cert-lifetime=3s")
        .argument("--operator-webhook-ca-lifetime=45s")
        .argument("--operator-webhook-ca-step=10s");
    let operator = world.start(&command).await?;
    let address = operator.webhook_address();
    install(world, address).await?;
    let (bundle, trusted) = watch::channel(stored(world).await?);
    let end = CancellationToken::new();
    let plane = world.plane;
    let follow = end.run_until_cancelled(async {
        loop {
            // One that is not everywhere yet is not the one to trust by.
            let all = bundles(plane, PREFIX).await?;
            let is_one = all.iter().all(|one| *one == all[0]);
            bundle.send_if_modified(|bundle| {
                let is_new = is_one && *bundle != all[0];
                if is_new {
                    bundle.clone_from(&all[0]);
                }
                is_new
            });
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let calls = async {
        let mut load = Load::start(address, &trusted, &plane.client(), &world.namespace);
        let turned = turn(&operator, &mut load).await;
        end.cancel();
        turned?;
        load.finish().await
    };
    let (followed, calls) = tokio::join!(follow, calls);
    calls?;
    if let Some(followed) = followed {
        let followed: Result<()> = followed;
        followed?;
    }
    world.finish(operator).await
}

/// Keeps up the load until there were three CAs and 25 certificates more, about a minute on an idle machine.
async fn turn(operator: &Operator, load: &mut Load) -> Result<()> {
    let patience = Patience::new(SOON * 6, "three CAs and 25 certificates");
    loop {
        load.hold(Duration::from_secs(1)).await?;
        let log = operator.stderr();
        let promoted = log.matches("step=Promote").count();
        let signed = log.matches("webhook certificate was signed").count();
        if promoted >= 3 && signed >= 25 {
            return Ok(());
        }
        patience
            .pause(format!("{promoted} CAs and {signed} certificates"))
            .await?;
    }
}
