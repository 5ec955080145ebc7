//! Webhook configurations that the API server of the ground can follow.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use garm_operator::admission::hooks::{HOOKS, Phase};
use garm_operator_ground::ControlPlane;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::net::SocketAddr;

const GROUP: &str = "garm-operator.mercedes-benz.com";

/// Both configurations with names that begin with `prefix`, for webhooks at an address, which fail closed. `namespace` bounds whom they meet.
pub fn configurations(prefix: &str, address: SocketAddr, namespace: Option<&str>) -> [Value; 2] {
    [
        (
            Phase::Validating,
            "ValidatingWebhookConfiguration",
            "validating",
        ),
        (Phase::Mutating, "MutatingWebhookConfiguration", "mutating"),
    ]
    .map(|(phase, kind, word)| {
        let webhooks: Vec<Value> = HOOKS
            .iter()
            .filter(|hook| hook.phase == phase)
            .map(|hook| {
                let operations = hook.operations.iter();
                let operations: Vec<String> = operations
                    .map(|operation| format!("{operation:?}").to_uppercase())
                    .collect();
                let mut webhook = json!({
                    "name": format!("{}.{GROUP}", hook.name),
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": { "url": format!("https://{address}{}", hook.path) },
                    "failurePolicy": "Fail",
                    "rules": [{
                        "apiGroups": [GROUP], "apiVersions": ["v1beta1"], "operations": operations,
                        "resources": [hook.plural], "scope": "Namespaced",
                    }],
                    "sideEffects": "None",
                    "timeoutSeconds": 10,
                });
                if let Some(namespace) = namespace {
                    webhook["namespaceSelector"] =
                        json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
                }
                webhook
            })
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": format!("{prefix}-{word}-webhook-configuration") },
            "webhooks": webhooks,
        })
    })
}

/// Gives all webhooks this bundle (PEM).
pub fn with_bundle(mut configuration: Value, bundle: &str) -> Value {
    if let Some(webhooks) = configuration["webhooks"].as_array_mut() {
        for webhook in webhooks {
            webhook["clientConfig"]["caBundle"] = BASE64.encode(bundle).into();
        }
    }
    configuration
}

/// Applies a configuration with kubectl.
pub async fn apply(plane: &ControlPlane, configuration: &Value) -> Result<String> {
    plane
        .kubectl_ok(&["apply", "-f", "-"], &configuration.to_string())
        .await
}

/// The bundles of all webhooks of both configurations, as PEM; an absent one is empty.
pub async fn bundles(plane: &ControlPlane, prefix: &str) -> Result<Vec<String>> {
    let client = plane.client();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client);
    let validating = validating
        .get(&format!("{prefix}-validating-webhook-configuration"))
        .await?;
    let mutating = mutating
        .get(&format!("{prefix}-mutating-webhook-configuration"))
        .await?;
    let configs = validating
        .webhooks
        .unwrap_or_default()
        .into_iter()
        .map(|webhook| webhook.client_config);
    let more = mutating
        .webhooks
        .unwrap_or_default()
        .into_iter()
        .map(|webhook| webhook.client_config);
    configs
        .chain(more)
        .map(|config| {
            let bundle = config.ca_bundle.map(|bundle| bundle.0).unwrap_or_default();
            String::from_utf8(bundle).context("a bundle that is no text")
        })
        .collect()
}

/// Stores a bundle in both configurations, as an administrator would.
pub async fn store(plane: &ControlPlane, prefix: &str, bundle: &str) -> Result<()> {
    let client = plane.client();
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client);
    let change = |count: usize| {
        let operations: Vec<Value> = (0..count)
            .map(|index| {
                json!({
                    "op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"),
                    "value": BASE64.encode(bundle),
                })
            })
            .collect();
        anyhow::Ok(Patch::<()>::Json(serde_json::from_value(
            operations.into(),
        )?))
    };
    let count = |phase| HOOKS.iter().filter(|hook| hook.phase == phase).count();
    let by = PatchParams::default();
    validating
        .patch(
            &format!("{prefix}-validating-webhook-configuration"),
            &by,
            &change(count(Phase::Validating))?,
        )
        .await?;
    mutating
        .patch(
            &format!("{prefix}-mutating-webhook-configuration"),
            &by,
            &change(count(Phase::Mutating))?,
        )
        .await?;
    Ok(())
}
