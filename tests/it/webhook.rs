//! `spec.installWebhook`: installed once, removed only if it is ours, and no hindrance to the rest.

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground};
use serde_json::json;

use crate::world::{World, condition};

const HOOKS: &str = "repos/acme/tools";
const ANNOTATION: &str = "garm-operator.mercedes-benz.com/webhook-id";
const INSTALL: &str = "POST /repositories/{id}/webhook";
const REMOVE: &str = "DELETE /repositories/{id}/webhook";
const LOOK: &str = "GET /repositories/{id}/webhook";

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_webhook_is_installed_once_and_ours_is_removed", ours);
    suite.test_on_each_garm("a_webhook_of_somebody_else_is_used_and_left_alone", foreign);
    suite.test_on_each_garm(
        "a_garm_without_webhooks_hinders_nothing_else",
        no_management,
    );
}

fn asking(world: &World<'_>) -> Vec<String> {
    let asks = "  owner: acme\n  installWebhook: true\n";
    let documents = world.manifests().into_iter();
    documents
        .map(|document| document.replace("  owner: acme\n", asks))
        .collect()
}

async fn ours(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // Resyncs each 3 s.
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    let mark = world.mark();
    world.apply(&asking(&world)).await?;
    world
        .wait_condition(
            "repository",
            "tools",
            "WebhookInstalled",
            "True",
            "WebhookInstalled",
        )
        .await?;
    world.wait_all_ready().await?;
    let hooks = world.garm.github().hooks(HOOKS);
    ensure!(hooks.len() == 1, "{hooks:?}");
    let object = world.object("repository", "tools").await?;
    ensure!(
        object["metadata"]["annotations"][ANNOTATION].as_str()
            == Some(hooks[0]["id"].to_string().as_str()),
        "{object}"
    );

    let resyncs = world.garm_count(mark, "GET /pools");
    world
        .wait_for("ten resyncs", || {
            world.garm_count(mark, "GET /pools") >= resyncs + 10
        })
        .await?;
    ensure!(world.garm_count(mark, INSTALL) == 1, "installed again");
    ensure!(world.garm_count(mark, LOOK) == 1, "looked again");

    world
        .patch(
            "repository",
            "tools",
            json!({"spec": {"installWebhook": null}}),
        )
        .await?;
    world
        .wait("repository", "tools", "the condition goes", |object| {
            condition(object, "WebhookInstalled").is_null()
                && object["metadata"]["annotations"][ANNOTATION].is_null()
        })
        .await?;
    ensure!(
        world.garm.github().hooks(HOOKS).is_empty(),
        "the hook is still there"
    );

    world
        .patch(
            "repository",
            "tools",
            json!({"spec": {"installWebhook": true}}),
        )
        .await?;
    world
        .wait_condition("repository", "tools", "WebhookInstalled", "True", "")
        .await?;
    for pool in ["small", "large"] {
        world.delete("pool", pool).await?;
        world.wait_gone("pool", pool).await?;
    }
    world.delete("repository", "tools").await?;
    world.wait_gone("repository", "tools").await?;
    ensure!(
        world.garm.github().hooks(HOOKS).is_empty(),
        "the hook outlives its object"
    );
    ensure!(
        world.garm_count(mark, REMOVE) == 2,
        "two hooks, two removals"
    );
    world.finish(operator).await
}

async fn foreign(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    let id = world.id("repository", "tools").await?;
    world
        .garm
        .api()
        .post(&format!("/repositories/{id}/webhook"), &json!({}))
        .await?;

    let mark = world.mark();
    world
        .patch(
            "repository",
            "tools",
            json!({"spec": {"installWebhook": true}}),
        )
        .await?;
    world
        .wait_condition("repository", "tools", "WebhookInstalled", "True", "")
        .await?;
    world
        .patch(
            "repository",
            "tools",
            json!({"spec": {"installWebhook": false}}),
        )
        .await?;
    world
        .wait("repository", "tools", "the condition goes", |object| {
            condition(object, "WebhookInstalled").is_null()
        })
        .await?;
    for pool in ["small", "large"] {
        world.delete("pool", pool).await?;
        world.wait_gone("pool", pool).await?;
    }
    world.delete("repository", "tools").await?;
    world.wait_gone("repository", "tools").await?;
    ensure!(
        world.garm_count(mark, INSTALL) + world.garm_count(mark, REMOVE) == 0,
        "touched somebody's hook"
    );
    ensure!(
        world.garm.github().hooks(HOOKS).len() == 1,
        "the hook is gone"
    );
    world.finish(operator).await
}

async fn no_management(ground: &Ground, version: GarmVersion) -> Result<()> {
    let options = GarmOptions {
        webhook_management: false,
        ..GarmOptions::default()
    };
    let world = World::with(ground, version, options).await?;
    let operator = world.operator().await?;
    let mark = world.mark();
    world.apply(&asking(&world)).await?;
    let object = world
        .wait_condition(
            "repository",
            "tools",
            "WebhookInstalled",
            "False",
            "WebhookFailed",
        )
        .await?;
    let told = condition(&object, "WebhookInstalled").to_string();
    ensure!(told.contains("enable_webhook_management"), "{told}");
    world.wait_all_ready().await?;
    ensure!(world.garm_count(mark, LOOK) <= 2, "no back-off");
    world.finish(operator).await
}
