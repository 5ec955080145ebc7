//! Webhook configurations that the API server of the ground can follow: it knows no Services.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

/// The webhook configurations among these shipped objects, with webhooks below this URL. Only objects of `namespaces` are asked about, all if
/// there are none.
pub fn webhooks_at(
    url: &str,
    shipped: Vec<Value>,
    ca_pem: Option<&str>,
    namespaces: &[&str],
) -> Result<Vec<Value>> {
    let mut found = shipped;
    found.retain(|object| object["webhooks"].is_array());
    let webhooks = found
        .iter_mut()
        .filter_map(|object| object["webhooks"].as_array_mut());
    for webhook in webhooks.flatten() {
        let path = webhook["clientConfig"]["service"]["path"].clone();
        let path = path.as_str().context("a webhook has a path")?;
        webhook["clientConfig"] = json!({"url": format!("{url}{path}")});
        if let Some(pem) = ca_pem {
            webhook["clientConfig"]["caBundle"] = BASE64.encode(pem).into();
        }
        if !namespaces.is_empty() {
            webhook["namespaceSelector"] = json!({"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces,
            }]});
        }
    }
    Ok(found)
}
