//! What is stored with a word of warning.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;

use super::{kubectl, told};
use crate::documents::join;
use crate::hooks;
use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "what_is_not_there_yet_is_warned_of_and_then_waited_for",
        early,
    );
    suite.test("what_garm_does_not_serve_is_warned_of", doubtful);
}

/// Applies a document; answers the warnings.
async fn warnings(world: &World<'_>, document: &str) -> Result<Vec<String>> {
    let input = join(&[document.to_owned()]);
    let output = kubectl(world, &["apply", "-f", "-"], &input).await?;
    ensure!(output.status.success(), "{}", told(&output));
    let told = told(&output);
    Ok(told.lines().map(str::to_owned).collect())
}

async fn early(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let namespace = &world.namespace;
    let documents = world.manifests();
    let of_kind = |kind: &str| {
        let kind = format!("kind: {kind}");
        documents.iter().filter(move |d| d.starts_with(&kind))
    };
    for (kind, expected) in [
        (
            "Pool",
            vec![
                format!(
                    "Warning: spec.githubScopeRef: Repository {namespace}/tools does not exist (yet)"
                ),
                format!("Warning: spec.imageName: Image {namespace}/runner does not exist (yet)"),
            ],
        ),
        (
            "Repository",
            vec![format!(
                "Warning: spec.credentialsRef: GitHubCredential {namespace}/pat does not exist (yet)"
            )],
        ),
        (
            "GitHubCredential",
            vec![format!(
                "Warning: spec.endpointRef: GitHubEndpoint {namespace}/ghes does not exist (yet)"
            )],
        ),
        ("GitHubEndpoint", Vec::new()),
        ("Image", Vec::new()),
    ] {
        for document in of_kind(kind) {
            let told = warnings(&world, document).await?;
            ensure!(told == expected, "{document}: {told:#?}");
        }
    }
    world
        .wait_condition("pool", "small", "Ready", "False", "")
        .await?;
    world.apply(&documents).await?;
    world.wait_all_ready().await?;
    world.finish(operator).await
}

async fn doubtful(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[0]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let settings = "kind: GarmServerConfig\nmetadata: {name: garm}\nspec: {webhookUrl: 'http://garm.example.com/webhook'}";
    let told = warnings(&world, settings).await?;
    ensure!(
        told == [
            "Warning: spec.webhookUrl: ends in /webhook, but GARM takes webhooks at /webhooks"
        ],
        "{told:#?}"
    );
    world.wait_ready("garmserverconfig", "garm").await?;
    let documents = world.manifests();
    world.apply(&documents).await?;
    let pool = documents.iter().find(|d| d.contains("name: small}"));
    let pool = pool.map(|pool| format!("{pool}  githubRunnerGroup: special\n"));
    let told = warnings(&world, &pool.unwrap_or_default()).await?;
    ensure!(
        told == [
            "Warning: spec.githubRunnerGroup: has no effect, since repositories have no runner groups"
        ],
        "{told:#?}"
    );
    world.finish(operator).await
}
