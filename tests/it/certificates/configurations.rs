//! Webhook configurations that the API server of the ground can follow.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use garm_operator::api::install::{PREFIX, mutating_webhooks, validating_webhooks};
use garm_operator_ground::ControlPlane;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The shipped configurations with names that begin with `prefix`, for webhooks at an address. `namespace` bounds whom they meet.
pub fn configurations(
    prefix: &str,
    address: SocketAddr,
    namespace: Option<&str>,
) -> Result<[Value; 2]> {
    let namespaces: Vec<&str> = namespace.into_iter().collect();
    let url = format!("https://{address}");
    let both = crate::hooks::configurations(&url, None, &namespaces)?;
    Ok(both.map(|mut object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["metadata"]["name"] = name.replacen(PREFIX, prefix, 1).into();
        object
    }))
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
    let validating = validating.get(&validating_webhooks(prefix)).await?;
    let mutating = mutating.get(&mutating_webhooks(prefix)).await?;
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
    let by = PatchParams::default();
    let name = validating_webhooks(prefix);
    let webhooks = validating.get(&name).await?.webhooks.unwrap_or_default();
    let patch = change(webhooks.len())?;
    validating.patch(&name, &by, &patch).await?;
    let name = mutating_webhooks(prefix);
    let webhooks = mutating.get(&name).await?.webhooks.unwrap_or_default();
    let patch = change(webhooks.len())?;
    mutating.patch(&name, &by, &patch).await?;
    Ok(())
}
