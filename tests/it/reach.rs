//! Which GARM is worked with and how it is reached: versions, TLS with a CA of its own, and whose settings it gets.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::place::Place;
use crate::world::{World, condition, message, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "an_old_garm_is_left_alone_and_an_unknown_one_used",
        versions,
    );
    suite.test_on_each_garm("a_garm_behind_a_ca_of_its_own_is_reached", private_ca);
    suite.test_on_each_garm("the_oldest_settings_count_and_no_others", settings);
}

/// What GARM says its version is, and whether it is worked with.
const VERSIONS: [(&str, bool); 7] = [
    ("v0.1.5", true),
    ("v0.1.4", false),
    ("v0.1.5-3-gabc", true),
    ("v0.0.0-unknown", true),
    ("v0.2.1-35-g0123456", true),
    ("", true),
    ("v0.2.1-dirty", true),
];

async fn versions(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    world.apply(&world.manifests()[..3]).await?;
    for (number, (version, works)) in VERSIONS.into_iter().enumerate() {
        let says = move |body: axum::body::Bytes| {
            let Ok(mut controller) = serde_json::from_slice::<Value>(&body) else {
                return body;
            };
            controller["version"] = version.into();
            controller.to_string().into()
        };
        let rule = world.garm.proxy().rule(
            Matcher::route("GET /controller"),
            Fault::Rewrite(Arc::new(says)),
        );
        let mark = world.mark();
        let mut operator = world.operator().await?;
        let change = json!({"spec": {"description": format!("number {number}")}});
        if works {
            world.change("githubendpoint", "ghes", change).await?;
            ensure!(
                !world.garm_writes(mark).is_empty(),
                "{version:?} is not used"
            );
        } else {
            world.patch("githubendpoint", "ghes", change).await?;
            let waiting = world
                .wait_condition("githubendpoint", "ghes", "Ready", "False", "WaitingForGarm")
                .await?;
            let message = message(&waiting, "Ready");
            ensure!(
                message.contains(version) && message.contains("v0.1.5"),
                "{message}"
            );
            world.wait_calm(Duration::from_secs(2)).await?;
            ensure!(
                world.garm_writes(mark).is_empty(),
                "{version} is written to"
            );
            operator.wait_ready(Duration::from_secs(1)).await?;
        }
        let warned = operator.stderr().contains("GARM's version is unknown");
        ensure!(
            warned == ["", "v0.0.0-unknown"].contains(&version),
            "{version:?}"
        );
        world.finish(operator).await?;
        rule.remove();
    }
    Ok(())
}

async fn private_ca(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let first = Certificates::new()?;
    let proxy = world.garm.tls_proxy(&first).await?;
    world.apply(&world.manifests()).await?;
    let command = world
        .command()
        .argument(format!("--garm-server={}", proxy.url()));

    // Without a word about the CA nobody trusts it.
    let operator = world.start(&command).await?;
    let untrusted = async || {
        world
            .wait("repository", "tools", "it says why", |repository| {
                let said = message(repository, "Ready");
                said.contains("certificate is not trusted") && said.contains("garm.caFile")
            })
            .await
    };
    untrusted().await?;
    world.finish(operator).await?;

    // The last `--garm-server` counts, here with a slash at its end.
    let file = ground
        .directory()
        .join(format!("{}-ca.pem", world.namespace));
    std::fs::write(&file, &first.ca_pem).context("write the CA")?;
    let command = command
        .argument(format!("--garm-server={}/", proxy.url()))
        .argument(format!("--garm-ca-file={}", file.display()));
    let operator = world.start(&command).await?;
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    let paths = proxy.requests();
    ensure!(
        paths
            .iter()
            .all(|request| request.path.starts_with("/api/v1/")),
        "{:?}",
        told(&paths)
    );
    world
        .wait_for("the events socket", || proxy.sockets() == 1)
        .await?;

    // Another CA signs from now on; the file follows.
    let second = Certificates::new()?;
    proxy.show_certificate(&second)?;
    untrusted().await?;
    std::fs::write(&file, &second.ca_pem).context("write the other CA")?;
    world.wait_all_ready().await?;
    world
        .wait_for("the events socket", || proxy.sockets() == 1)
        .await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    world.finish(operator).await?;

    // Plain, and with a slash at its end.
    let command = world
        .command()
        .argument(format!("--garm-server={}/", world.garm.url()));
    let operator = world.start(&command).await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 6}}))
        .await?;
    world.finish(operator).await
}

fn server_config(fields: &str) -> String {
    format!("kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec: {{{fields}}}\n")
}

async fn settings(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    // Of two of one age the lower namespace comes first.
    let (older, younger) = if world.namespace < other.namespace {
        (&*world, &other)
    } else {
        (&other, &*world)
    };
    let command = world
        .command_watching(&[&older.namespace, &younger.namespace])
        .argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    let url = "http://callbacks.example.com/api/v1/callbacks";
    let mark = world.mark();
    older
        .apply(&[server_config(&format!("callbackUrl: \"{url}\""))])
        .await?;
    older.wait_ready("garmserverconfig", "garm").await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes == [format!("PUT /controller {}", json!({"callback_url": url}))],
        "{writes:?}"
    );

    let mark = world.mark();
    let theirs =
        "metadataUrl: \"http://other.example.com/m\", callbackUrl: \"http://other.example.com/c\"";
    younger.apply(&[server_config(theirs)]).await?;
    let waiting = younger
        .wait_condition("garmserverconfig", "garm", "Ready", "False", "Superseded")
        .await?;
    let message = message(&waiting, "Ready");
    ensure!(
        message.contains(&format!("{}/garm", older.namespace)),
        "{message}"
    );
    resyncs(&world, 5).await?;
    ensure!(world.garm_writes(mark).is_empty(), "the younger one writes");
    let writes = world.kube_writes(mark);
    ensure!(writes.len() == 1, "{:#?}", told(&writes));
    let first = older.object("garmserverconfig", "garm").await?;
    ensure!(
        condition(&first, "Ready")["status"] == "True" && first["metadata"]["finalizers"].is_null(),
        "{first}"
    );

    // Nothing is cleared; the other one takes over what it sets.
    let mark = world.mark();
    older.delete("garmserverconfig", "garm").await?;
    older.wait_gone("garmserverconfig", "garm").await?;
    younger.wait_ready("garmserverconfig", "garm").await?;
    younger.delete("garmserverconfig", "garm").await?;
    younger.wait_gone("garmserverconfig", "garm").await?;
    resyncs(&world, 2).await?;
    let writes = world.garm_writes(mark);
    ensure!(
        writes.len() == 1
            && writes[0].json()
                == json!({"metadata_url": "http://other.example.com/m", "callback_url": "http://other.example.com/c"}),
        "{:?}",
        told(&writes)
    );
    world.finish(operator).await
}
