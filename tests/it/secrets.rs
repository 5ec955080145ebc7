//! Secrets: sent when they change and never otherwise, and shown nowhere.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::documents::entity;
use crate::place::Place;
use crate::world::{Mark, World, condition, message, secret, told};

/// A key that opens nothing.
const APP_KEY: &str = include_str!("../data/app-key.pem");

/// Within which a new Secret reaches GARM, and what a busy machine may add.
const PROMPT: Duration = Duration::from_secs(2);
const NOISE: Duration = Duration::from_secs(6);

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "a_rotated_secret_is_one_put_for_each_that_names_it",
        rotation,
    );
    suite.test_on_each_garm(
        "a_secret_of_another_namespace_is_nobodys_business",
        other_namespace,
    );
    suite.test_on_each_garm(
        "a_secret_that_cannot_work_is_named_and_not_sent",
        bad_values,
    );
    suite.test_on_each_garm("a_github_app_serves_entities", app);
}

/// A Secret with the key of a GitHub App.
pub fn app_key(name: &str) -> String {
    secret(name, "key", &json!(APP_KEY).to_string())
}

/// What everything here begins with: an endpoint, credentials and a repository, without pools.
fn base(world: &World<'_>) -> Vec<String> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    documents
}

/// Starts the operator and makes all that, with an organization beside, and waits until nothing moves any more.
pub async fn start(world: &World<'_>) -> Result<garm_operator_ground::Operator> {
    let operator = world.operator().await?;
    world.apply(&base(world)).await?;
    world
        .apply(&[entity("Organization", "acme", "pat")])
        .await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_ready("organization", "acme").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    Ok(operator)
}

/// Waits until exactly these requests were sent since the mark, the last of them promptly, and no more comes.
pub async fn sent(world: &World<'_>, mark: Mark, expected: &[&str]) -> Result<()> {
    let since = Instant::now();
    world
        .wait_for(&format!("{expected:?}"), || {
            world.garm_writes(mark).len() >= expected.len()
        })
        .await?;
    let took = since.elapsed();
    ensure!(took < PROMPT + NOISE, "only after {took:?}");
    world.wait_calm(Duration::from_secs(2)).await?;
    let mut writes = told(&world.garm_writes(mark));
    writes.sort_unstable();
    ensure!(writes == expected, "{writes:?}");
    Ok(())
}

async fn rotation(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = start(&world).await?;
    let mark = world.mark();
    world
        .apply(&[secret("github-token", "token", "ghp_planted-token-2")])
        .await?;
    let put = "PUT /github/credentials/{id} {\"pat\":{\"oauth2_token\":\"ghp_planted-token-2\"}}";
    sent(&world, mark, &[put]).await?;

    let mark = world.mark();
    world
        .apply(&[secret(
            "webhook-secret",
            "secret",
            "planted-webhook-secret-2",
        )])
        .await?;
    let body = "{\"webhook_secret\":\"planted-webhook-secret-2\"}";
    let puts = [
        format!("PUT /organizations/{{id}} {body}"),
        format!("PUT /repositories/{{id}} {body}"),
    ];
    sent(&world, mark, &[&puts[0], &puts[1]]).await?;

    let mark = world.mark();
    for change in [
        json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}),
        json!({"stringData": {"another": "value"}}),
        json!({"stringData": {"token": "ghp_planted-token-2", "secret": "planted-webhook-secret-2"}}),
    ] {
        for name in ["github-token", "webhook-secret"] {
            world.patch("secret", name, change.clone()).await?;
        }
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_requests(mark).is_empty(),
        "{:?}",
        told(&world.garm_requests(mark))
    );

    let pushed = |object: &Value| {
        object["metadata"]["annotations"]["garm-operator.mercedes-benz.com/pushed"].to_string()
    };
    let organization = pushed(&world.object("organization", "acme").await?);
    let repository = pushed(&world.object("repository", "tools").await?);
    ensure!(
        organization.contains("hash") && organization != repository,
        "one value for one secret: {repository}"
    );
    world.finish(operator).await
}

async fn other_namespace(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    let command = world.command_watching(&[&world.namespace, &other.namespace]);
    let operator = world.start(&command).await?;
    world.apply(&base(&world)).await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    for value in ["one", "two"] {
        other
            .apply(&[
                secret("github-token", "token", value),
                secret("webhook-secret", "secret", value),
            ])
            .await?;
    }
    // A status of somebody else's making is put right here, and is no news for GARM.
    let status = json!({"status": {"apiBaseUrl": "https://elsewhere"}}).to_string();
    world
        .kubectl(
            &[
                "patch",
                "githubcredential",
                "pat",
                "--subresource=status",
                "--type=merge",
                "-p",
                &status,
            ],
            "",
        )
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_requests(mark).is_empty(),
        "{:?}",
        told(&world.garm_requests(mark))
    );
    world.finish(operator).await
}

async fn bad_values(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = base(&world);
    documents[0] = secret("github-token", "token", "\"ghp_planted-token\\n\"");
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let post = world
        .garm_writes(Mark::START)
        .into_iter()
        .find(|write| write.route == "POST /github/credentials")
        .context("no credentials were made")?;
    ensure!(
        post.json()["pat"]["oauth2_token"] == "ghp_planted-token",
        "the newline was sent"
    );

    let mark = world.mark();
    for (kind, name, of, key, value) in [
        (
            "githubcredential",
            "pat",
            "github-token",
            "token",
            "ghp_planted-token",
        ),
        (
            "repository",
            "tools",
            "webhook-secret",
            "secret",
            "planted-webhook-secret",
        ),
    ] {
        for bad in [
            json!({"data": {key: null}}),
            json!({"stringData": {key: "\n"}}),
        ] {
            world.patch("secret", of, bad).await?;
            let waiting = world
                .wait_condition(
                    kind,
                    name,
                    "Ready",
                    "False",
                    "FetchingWebhookSecretRefFailed",
                )
                .await?;
            let message = message(&waiting, "Ready");
            ensure!(message.contains(of) && message.contains(key), "{message}");
            let since = Instant::now();
            world
                .patch("secret", of, json!({"stringData": {key: value}}))
                .await?;
            world.wait_ready(kind, name).await?;
            let took = since.elapsed();
            ensure!(took < PROMPT + NOISE, "Ready only after {took:?}");
        }
        ensure!(
            world.events(name, "Warning", "Error").await?.is_empty(),
            "waiting is no Warning"
        );
    }

    let pkcs8 = "\"-----BEGIN PRIVATE KEY-----\\nplanted\\n-----END PRIVATE KEY-----\\n\"";
    world
        .apply(&[secret("app-key", "key", pkcs8), app_credential()])
        .await?;
    let refused = world
        .wait_condition("githubcredential", "app", "Ready", "False", "InvalidSpec")
        .await?;
    ensure!(message(&refused, "Ready").contains("PKCS#1"), "{refused}");
    world.wait_calm(Duration::from_secs(2)).await?;
    ensure!(
        world.garm_writes(mark).is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );
    world.finish(operator).await
}

fn app_credential() -> String {
    "kind: GitHubCredential\nmetadata: {name: app}\nspec:\n  description: app of the tests\n  authType: app\n  appId: 11\n  installationId: 22\n  endpointRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubEndpoint, name: ghes}\n  secretRef: {name: app-key, key: key}\n".to_owned()
}

async fn app(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("name: large"));
    documents.extend([app_key("app-key"), app_credential()]);
    for document in &mut documents {
        if document.starts_with("kind: Repository") {
            *document = document.replace("name: pat}", "name: app}");
        }
    }
    world.apply(&documents).await?;
    world.wait_ready("pool", "small").await?;
    if version.is_0_1() {
        // This version asks github.com for the app's token, whatever the endpoint: the condition tells.
        let failed = world
            .wait_condition(
                "repository",
                "tools",
                "PoolManager",
                "False",
                "PoolManagerFailure",
            )
            .await?;
        let cause = message(&failed, "PoolManager");
        ensure!(!cause.contains(APP_KEY), "the key shows");
    } else {
        let ready = world.wait_ready("repository", "tools").await?;
        ensure!(
            condition(&ready, "PoolManager")["status"] == "True",
            "{ready}"
        );
        world.wait_idle_runners(1).await?;
    }
    let post = world
        .garm_writes(Mark::START)
        .into_iter()
        .map(|write| write.json())
        .find(|body| body["auth_type"] == "app")
        .context("no app was made")?;
    let key = BASE64.decode(
        post["app"]["private_key_bytes"]
            .as_str()
            .context("no text")?,
    )?;
    ensure!(
        key == APP_KEY.trim_end().as_bytes() || key == APP_KEY.as_bytes(),
        "the key is base64 of the PEM, once"
    );
    ensure!(
        post["app"]["app_id"] == 11 && post["app"]["installation_id"] == 22,
        "the numbers"
    );

    let mark = world.mark();
    world
        .change(
            "githubcredential",
            "app",
            json!({"spec": {"installationId": 23}}),
        )
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = world.garm_writes(mark);
    let bodies: Vec<Value> = writes
        .iter()
        .map(garm_operator_ground::proxy::Recorded::json)
        .collect();
    ensure!(
        bodies.len() == 1
            && bodies[0]["app"]["installation_id"] == 23
            && bodies[0].as_object().map(serde_json::Map::len) == Some(1),
        "one PUT with the app only"
    );
    let log = operator.stderr();
    let line = APP_KEY.lines().nth(3).context("the key has lines")?;
    ensure!(!log.contains(line), "the log shows the key");
    world.finish(operator).await
}
