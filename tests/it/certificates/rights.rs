//! The rights that it takes to make a bundle known, given bit by bit.

use anyhow::{Context as _, Result, ensure};
use garm_operator::api::install::{CONVERTED, PREFIX, crd, mutating_webhooks, validating_webhooks};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::{Ground, Operator};
use serde_json::json;

use super::client::shown;
use super::own::{command, conversion_bundle, install, on_own_plane, stored};
use crate::rights::{KINDS, rights};
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "a_bundle_that_may_not_be_stored_is_told_once_and_stored_with_the_right",
        async |ground: &Ground| on_own_plane(ground, bit_by_bit).await,
    );
}

/// Objects that hold the bundle.
const HOLDERS: usize = 2 + CONVERTED.len();

/// Lets the operator do this with the objects that hold the bundle, by name.
async fn grant(world: &World<'_>, verbs: &[&str]) -> Result<()> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "bundle"},
        "rules": [
            {"apiGroups": ["admissionregistration.k8s.io"], "verbs": verbs,
             "resources": ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
             "resourceNames": [validating_webhooks(PREFIX), mutating_webhooks(PREFIX)]},
            {"apiGroups": ["apiextensions.k8s.io"], "verbs": verbs,
             "resources": ["customresourcedefinitions"], "resourceNames": CONVERTED.map(crd)},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bundle"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundle"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": world.namespace}],
    });
    world
        .apply(&[role.to_string(), binding.to_string()])
        .await
        .map(drop)
}

/// Waits until the operator has said of each object that it may not do this.
async fn wait_told(operator: &Operator, verb: &str) -> Result<()> {
    poll_until(SOON, &format!("cannot {verb}"), async || {
        Ok(Seen::when(told(operator, verb), |count| *count >= HOLDERS).map(drop))
    })
    .await
}

/// How often it was said of an object that the operator may not do this.
fn told(operator: &Operator, verb: &str) -> usize {
    let log = operator.stderr();
    let lines = log
        .lines()
        .filter(|line| line.contains("caBundle cannot be kept"));
    lines
        .filter(|line| line.contains(&format!("cannot {verb}")))
        .count()
}

/// Waits until this has been refused several times more, for each object.
async fn wait_refused(world: &World<'_>, method: &str) -> Result<()> {
    let mark = world.mark();
    let refused = || {
        let mut requests = world.kube_requests(mark);
        requests.retain(|one| {
            let is_ours = one.path.contains("webhookconfigurations")
                || one.path.contains("customresourcedefinitions");
            is_ours && one.method.as_str() == method && one.status == Some(403)
        });
        requests.len()
    };
    world
        .wait_for("more refusals", || refused() >= 2 * HOLDERS)
        .await
}

async fn bit_by_bit(world: World<'_>) -> Result<()> {
    let mut rules = rights("events.k8s.io", &KINDS);
    let more = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]});
    rules.as_array_mut().context("no rules")?.push(more);
    let world = world.with_rights(&rules).await?;
    let mut operator = world.start(&command(&world)).await?;
    let address = operator.webhook_address();
    install(&world, address).await?;

    wait_told(&operator, "list").await?;
    wait_refused(&world, "GET").await?;
    grant(&world, &["get", "list", "watch"]).await?;
    wait_told(&operator, "patch").await?;
    wait_refused(&world, "PATCH").await?;
    // It serves all the same, and does its other work.
    operator.wait_ready(SOON).await?;
    let everywhere = super::configurations::bundles(world.plane, PREFIX).await?;
    ensure!(
        everywhere.iter().all(String::is_empty),
        "who has stored it?"
    );

    grant(&world, &["get", "list", "watch", "patch"]).await?;
    let bundle = stored(&world).await?;
    for plural in CONVERTED {
        poll_until(SOON * 2, "the CRD holds it", async || {
            let seen = conversion_bundle(&world, plural).await?;
            Ok(Seen::when(seen, |seen| *seen == bundle))
        })
        .await?;
    }
    shown(address, &bundle).await?;
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    for verb in ["list", "patch"] {
        let count = told(&operator, verb);
        ensure!(
            count == HOLDERS,
            "{verb} was told {count} times:\n{}",
            operator.stderr()
        );
    }
    world.finish(operator).await
}
