//! CustomResourceDefinitions on a control plane.

use anyhow::{Context as _, Result};
use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, WebhookClientConfig,
    },
};
use serde_json::json;

use crate::ControlPlane;

/// Where the API server reaches a conversion webhook.
#[derive(Clone, Debug)]
pub struct ConversionEndpoint {
    /// URL with path, as `https://127.0.0.1:9443/convert`.
    pub url: String,
    /// Certificates of the CAs that may have signed the webhook's, in PEM.
    pub ca_pem: String,
}

impl ControlPlane {
    /// Installs definitions, or brings installed ones to this state, and waits until they are established.
    ///
    /// Those that ask for a conversion webhook find it at `conversion`. Without one the API server only renames versions: the Service
    /// that the definitions name does not exist here, and every write would fail. A change of an installed definition takes a moment
    /// to have its effect.
    pub async fn install_crds(
        &self,
        mut definitions: Vec<CustomResourceDefinition>,
        conversion: Option<&ConversionEndpoint>,
    ) -> Result<()> {
        for definition in &mut definitions {
            let webhook = definition.spec.conversion.as_mut();
            match (
                webhook.and_then(|conversion| conversion.webhook.as_mut()),
                conversion,
            ) {
                (Some(webhook), Some(endpoint)) => {
                    webhook.client_config = Some(WebhookClientConfig {
                        ca_bundle: Some(ByteString(endpoint.ca_pem.clone().into_bytes())),
                        service: None,
                        url: Some(endpoint.url.clone()),
                    });
                }
                _ => definition.spec.conversion = None,
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions});
        self.kubectl_ok(&["apply", "-f", "-"], &list.to_string())
            .await
            .context("install the CRDs")?;
        let established = [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ];
        self.kubectl_ok(&established, "")
            .await
            .context("wait for the CRDs")?;
        Ok(())
    }
}
