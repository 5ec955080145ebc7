//! Objects that an older release stored as v1alpha1, and an operator that starts from nothing.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator::generate::crds;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, GarmOptions, Ground};

use super::endpoint::Front;
use super::objects::{NEW, OLD, Objects};
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "an_operator_starts_on_objects_stored_as_v1alpha1",
        cold_start,
    );
}

async fn cold_start(ground: &Ground, version: GarmVersion) -> Result<()> {
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = on_own_plane(ground, &plane, version).await;
    plane.stop().await?;
    result
}

/// Installs the CRDs as they were while v1alpha1 was stored.
async fn install_as_of_old(plane: &ControlPlane) -> Result<()> {
    let mut definitions = crds::definitions();
    for definition in &mut definitions {
        let versions = &mut definition.spec.versions;
        if versions.iter().any(|version| version.name == OLD) {
            for version in versions {
                version.storage = version.name == OLD;
            }
        }
    }
    plane.install_crds(definitions, None).await
}

/// A document as old manifests spell it.
fn of_old(document: &str) -> String {
    let is_old = ["Repository", "Image", "Pool"]
        .iter()
        .any(|kind| document.starts_with(&format!("kind: {kind}\n")));
    if !is_old {
        return document.to_owned();
    }
    let reference = "credentialsRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: pat}";
    let document = document.replace(reference, "credentialsName: pat");
    format!("apiVersion: garm-operator.mercedes-benz.com/v1alpha1\n{document}")
}

async fn on_own_plane(ground: &Ground, plane: &ControlPlane, version: GarmVersion) -> Result<()> {
    install_as_of_old(plane).await?;
    let world = World::on(ground, plane, version, GarmOptions::default()).await?;
    let manifests: Vec<String> = world.manifests().iter().map(|one| of_old(one)).collect();
    world.apply(&manifests).await?;

    let front = Front::open().await?;
    plane
        .install_crds(crds::definitions(), Some(&front.conversion()))
        .await?;
    let objects = Objects {
        plane,
        namespace: world.namespace.clone(),
    };
    // Nobody is there to convert them yet. (A list is not even refused: it waits.)
    poll_until(SOON, "a Pool that cannot be read", async || {
        Ok(match objects.get(NEW, "pools", "small").await {
            Err(error) => Seen::when(format!("{error:#}"), |told| told.contains("conversion")),
            Ok(_) => Seen::NotYet("the Pool".to_owned()),
        })
    })
    .await?;

    let begun = Instant::now();
    let mut operator = front.start(ground, &world.command())?;
    operator.wait_ready(SOON).await?;
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(5), "ready after {took:?}");
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    let converted = conversions(&operator.metrics().await?)?;
    ensure!(converted >= 2, "{converted} conversions");
    for (plural, name) in [
        ("pools", "small"),
        ("repositories", "tools"),
        ("images", "runner"),
    ] {
        let object = objects.get(NEW, plural, name).await?;
        ensure!(object["spec"].get("credentialsName").is_none(), "{object}");
    }

    // What is written is stored as v1beta1 from then on, and v1alpha1 can still be read when all else starts anew.
    operator.kill().await?;
    drop(operator);
    let mut operator = front.start(ground, &world.command())?;
    operator.wait_ready(SOON).await?;
    let pool = objects.get(OLD, "pools", "small").await?;
    ensure!(pool["status"]["id"] == objects.get(NEW, "pools", "small").await?["status"]["id"]);
    let pools = world.garm.api().list("/pools").await?;
    ensure!(pools.len() == 2, "GARM has {} pools", pools.len());
    world.finish(operator).await
}

/// How many conversions the operator has answered.
fn conversions(metrics: &str) -> Result<u64> {
    let name = "controller_runtime_webhook_requests_total{";
    let of_convert = metrics.lines().filter(|line| {
        line.starts_with(name) && line.contains("\"/convert\"") && line.contains("\"200\"")
    });
    let mut counts = of_convert.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.next().context("no metric of /convert")
}
