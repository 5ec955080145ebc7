//! What was sent and cannot be read back is remembered, over restarts too.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use serde_json::json;

use crate::secrets::{sent, start};
use crate::world::{World, secret, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("secrets_are_remembered_over_restarts", restarts);
    suite.test("credentials_changed_by_hand_get_their_token_back", by_hand);
}

/// The requests that send all secrets again, sorted.
const ALL_AGAIN: [&str; 3] = [
    "PUT /github/credentials/{id} {\"pat\":{\"oauth2_token\":\"ghp_planted-token\"}}",
    "PUT /organizations/{id} {\"webhook_secret\":\"planted-webhook-secret\"}",
    "PUT /repositories/{id} {\"webhook_secret\":\"planted-webhook-secret\"}",
];

async fn restarts(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = start(&world).await?;
    world.finish(operator).await?;

    // What changes while nobody looks is sent at the next start.
    world
        .apply(&[secret("github-token", "token", "ghp_planted-token-2")])
        .await?;
    let mark = world.mark();
    let operator = world.operator().await?;
    world
        .wait_for("the new token", || !world.garm_writes(mark).is_empty())
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let put = "PUT /github/credentials/{id} {\"pat\":{\"oauth2_token\":\"ghp_planted-token-2\"}}";
    ensure!(
        told(&world.garm_writes(mark)) == [put],
        "{:?}",
        told(&world.garm_writes(mark))
    );
    world.finish(operator).await?;
    world
        .apply(&[secret("github-token", "token", "ghp_planted-token")])
        .await?;

    // Another password makes another key: what is known is known no more.
    let token = json!({"token": world.garm.api().token().await?});
    world.garm.proxy().rule(
        Matcher::route("POST /auth/login"),
        Fault::Status {
            code: http::StatusCode::OK,
            body: token.to_string(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
        },
    );
    let command = world
        .command()
        .variable("GARM_PASSWORD", "planted-other-password");
    let mark = world.mark();
    let operator = world.start(&command).await?;
    world
        .wait_for("all secrets again", || {
            world.garm_writes(mark).len() >= ALL_AGAIN.len()
        })
        .await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let mut writes = told(&world.garm_writes(mark));
    writes.sort_unstable();
    ensure!(writes == ALL_AGAIN, "{writes:?}");
    ensure!(
        !operator.stderr().contains("planted-other-password"),
        "the log shows the password"
    );
    world.finish(operator).await?;

    let mark = world.mark();
    let operator = world.start(&command).await?;
    world
        .wait_for("GARM is looked at", || {
            world.garm_count(mark, "GET /pools") > 0
        })
        .await?;
    world.wait_calm(Duration::from_secs(3)).await?;
    world.ensure_nothing_written(mark)?;
    world.finish(operator).await
}

async fn by_hand(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = start(&world).await?;
    let path = format!(
        "/github/credentials/{}",
        world.id("githubcredential", "pat").await?
    );
    let mark = world.mark();
    let by_hand = json!({"pat": {"oauth2_token": "somebody's"}});
    world.garm.api().put(&path, &by_hand).await?;
    sent(&world, mark, &ALL_AGAIN[..1]).await?;
    world.finish(operator).await
}
