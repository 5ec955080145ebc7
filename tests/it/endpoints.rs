//! GitHubEndpoints: their URLs, their CA bundles, and the one that GARM makes itself.

use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::world::{World, condition, message, secret, told};

const CA_ONE: &str = include_str!("../data/ca-one.pem");
const CA_TWO: &str = include_str!("../data/ca-two.pem");

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "the_urls_of_an_endpoint_in_use_are_changed_where_garm_allows_it",
        urls_in_use,
    );
    suite.test_on_each_garm(
        "the_built_in_endpoint_is_described_and_never_deleted",
        built_in,
    );
    suite.test_on_each_garm("a_ca_bundle_is_a_set_of_certificates", ca_bundle);
}

const PUT: &str = "PUT /github/endpoints/{name}";

async fn urls_in_use(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.03");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let github = world.garm.github().url();
    let mark = world.mark();
    let slash =
        json!({"spec": {"apiBaseUrl": format!("{github}/"), "baseUrl": format!("{github}/")}});
    world.change("githubendpoint", "ghes", slash).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );

    let moved = json!({"spec": {"baseUrl": "https://github.example.com"}});
    let back = json!({"spec": {"baseUrl": github}});
    let put = format!("{PUT} {{\"base_url\":\"https://github.example.com\"}}");
    if version.is_0_1() {
        world.change("githubendpoint", "ghes", moved).await?;
        resyncs(&world, 1).await?;
        ensure!(
            told(&world.garm_writes(mark)) == [put],
            "{:?}",
            told(&world.garm_writes(mark))
        );
        return world.finish(operator).await;
    }
    world.patch("githubendpoint", "ghes", moved).await?;
    let refused = world
        .wait_condition("githubendpoint", "ghes", "Ready", "False", "EndpointInUse")
        .await?;
    ensure!(
        message(&refused, "Ready").contains("credentials"),
        "{refused}"
    );
    world
        .wait_for("some more tries", || world.garm_count(mark, PUT) >= 4)
        .await?;
    let still = world.object("githubendpoint", "ghes").await?;
    ensure!(
        condition(&still, "Ready") == condition(&refused, "Ready"),
        "Ready flaps: {refused} became {still}"
    );
    world.change("githubendpoint", "ghes", back).await?;
    let tries = world.garm_count(mark, PUT);
    resyncs(&world, 1).await?;
    ensure!(
        world.garm_count(mark, PUT) == tries,
        "sent after it was put right"
    );
    world.finish(operator).await
}

async fn built_in(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.03");
    let operator = world.start(&command).await?;
    let mark = world.mark();
    world
        .apply(&["kind: GitHubEndpoint\nmetadata: {name: github.com}\nspec:\n  apiBaseUrl: https://api.github.com\n  uploadBaseUrl: https://uploads.github.com\n  baseUrl: https://github.com/\n".to_owned()])
        .await?;
    world.wait_ready("githubendpoint", "github.com").await?;
    resyncs(&world, 1).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );

    let moved = json!({"spec": {"baseUrl": "https://github.example.com"}});
    if version.is_0_1() {
        world.patch("githubendpoint", "github.com", moved).await?;
        let refused = world
            .wait_condition(
                "githubendpoint",
                "github.com",
                "Ready",
                "False",
                "GarmAPIError",
            )
            .await?;
        ensure!(message(&refused, "Ready").contains("built-in"), "{refused}");
    } else {
        world.change("githubendpoint", "github.com", moved).await?;
        resyncs(&world, 1).await?;
        ensure!(
            world.garm_count(mark, PUT) == 1,
            "{:?}",
            told(&world.garm_writes(mark))
        );
    }
    world.delete("githubendpoint", "github.com").await?;
    world.wait_gone("githubendpoint", "github.com").await?;
    ensure!(
        world.garm_count(mark, "DELETE /github/endpoints/{name}") == 0,
        "the default endpoint is GARM's"
    );
    world.finish(operator).await
}

/// Answers certificates as later builds of GARM do: each once, and nothing beside them.
fn normalise(body: &[u8]) -> Option<Vec<u8>> {
    let mut answer: Value = serde_json::from_slice(body).ok()?;
    let endpoints: Vec<&mut Value> = match &mut answer {
        Value::Array(all) => all.iter_mut().collect(),
        one => vec![one],
    };
    for endpoint in endpoints {
        let Some(bundle) = endpoint["ca_cert_bundle"].as_str() else {
            continue;
        };
        let pem = String::from_utf8(BASE64.decode(bundle).ok()?).ok()?;
        let certificates = [CA_ONE, CA_TWO].into_iter().filter(|ca| pem.contains(ca));
        endpoint["ca_cert_bundle"] = BASE64.encode(certificates.collect::<String>()).into();
    }
    serde_json::to_vec(&answer).ok()
}

async fn ca_bundle(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.garm.proxy().rule(
        Matcher::any().path_contains("/github/endpoints"),
        Fault::Rewrite(std::sync::Arc::new(|body| {
            normalise(&body).map_or(body, Into::into)
        })),
    );
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    let bundle = |pem: &str| secret("roots", "ca.crt", &json!(pem).to_string());
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let mark = world.mark();
    world
        .apply(&[bundle(&format!("# company root\n{CA_ONE}{CA_ONE}"))])
        .await?;
    let named = json!({"spec": {"caCertBundleSecretRef": {"name": "roots", "key": "ca.crt"}}});
    world.change("githubendpoint", "ghes", named).await?;
    resyncs(&world, 2).await?;
    let mut expected = vec![format!("# company root\n{CA_ONE}{CA_ONE}")];
    ensure!(
        bundles(&world, mark)? == expected,
        "{:?}",
        told(&world.garm_writes(mark))
    );

    // The same certificates in other words.
    world
        .apply(&[bundle(&format!("{CA_ONE}# nothing more\n"))])
        .await?;
    world
        .patch(
            "secret",
            "roots",
            json!({"metadata": {"labels": {"team": "a"}}}),
        )
        .await?;
    resyncs(&world, 1).await?;
    ensure!(
        bundles(&world, mark)? == expected,
        "{:?}",
        told(&world.garm_writes(mark))
    );

    let since = world.mark();
    world.apply(&[bundle(&format!("{CA_ONE}{CA_TWO}"))]).await?;
    let applied = std::time::Instant::now();
    world
        .wait_for("the new bundle is sent", || {
            world.garm_count(since, PUT) > 0
        })
        .await?;
    ensure!(
        applied.elapsed() < Duration::from_secs(8),
        "only after {:?}",
        applied.elapsed()
    );
    world
        .change(
            "githubendpoint",
            "ghes",
            json!({"spec": {"caCertBundleSecretRef": null}}),
        )
        .await?;
    let left = world.object("githubendpoint", "ghes").await?;
    let told_so = condition(&left, "CaBundleLeftInGarm");
    ensure!(
        told_so["status"] == "True" && condition(&left, "Ready")["status"] == "True",
        "{left}"
    );
    resyncs(&world, 2).await?;
    expected.push(format!("{CA_ONE}{CA_TWO}"));
    ensure!(
        bundles(&world, mark)? == expected,
        "{:?}",
        told(&world.garm_writes(mark))
    );
    world.finish(operator).await
}

/// The bundles that were sent since the mark; fails when anything else was written.
fn bundles(world: &World<'_>, mark: crate::world::Mark) -> Result<Vec<String>> {
    let mut bundles = Vec::new();
    for write in world.garm_writes(mark) {
        let body = write.json();
        let fields: Vec<&String> = body
            .as_object()
            .into_iter()
            .flat_map(|body| body.keys())
            .collect();
        ensure!(
            write.route == PUT && fields == ["ca_cert_bundle"],
            "{} {body}",
            write.route
        );
        let bundle = BASE64.decode(body["ca_cert_bundle"].as_str().unwrap_or_default())?;
        bundles.push(String::from_utf8(bundle)?);
    }
    Ok(bundles)
}
