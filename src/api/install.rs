//! Names of the objects that an installation consists of, as far as the process itself has to find them.

use std::borrow::Cow;

use kube::Resource as _;

use super::meta::GROUP;
use super::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository, Runner,
};

/// What the names begin with unless an installation chooses otherwise (`operator.webhookNamePrefix`).
pub const PREFIX: &str = "garm-operator";

/// Namespace that the shipped manifests install into, as the Go operator's do.
pub const NAMESPACE: &str = "garm-operator-system";

/// What replicas elect a leader by, the Go operator's among them.
pub const LEASE: &str = "b608d8b3.mercedes-benz.com";

/// Plural names of the kinds that come in two versions, so that their CRDs name a conversion webhook.
pub const CONVERTED: [&str; 4] = ["enterprises", "organizations", "pools", "repositories"];

/// Plural names of our kinds, sorted: those that have to be installed.
pub fn plurals() -> [Cow<'static, str>; 9] {
    [
        Enterprise::plural(&()),
        GarmServerConfig::plural(&()),
        GitHubCredential::plural(&()),
        GitHubEndpoint::plural(&()),
        Image::plural(&()),
        Organization::plural(&()),
        Pool::plural(&()),
        Repository::plural(&()),
        Runner::plural(&()),
    ]
}

/// Names the Deployment, and the account that the operator runs as.
pub fn account(prefix: &str) -> String {
    format!("{prefix}-controller-manager")
}

/// Names the Service of the webhooks.
pub fn webhook_service(prefix: &str) -> String {
    format!("{prefix}-webhook-service")
}

/// Names the Secret with the CA that signs our own webhook certificates.
pub fn webhook_ca(prefix: &str) -> String {
    format!("{prefix}-webhook-ca")
}

/// Names the ValidatingWebhookConfiguration.
pub fn validating_webhooks(prefix: &str) -> String {
    format!("{prefix}-validating-webhook-configuration")
}

/// Names the MutatingWebhookConfiguration.
pub fn mutating_webhooks(prefix: &str) -> String {
    format!("{prefix}-mutating-webhook-configuration")
}

/// Names the CRD of a kind.
pub fn crd(plural: &str) -> String {
    format!("{plural}.{GROUP}")
}

/// Lists the DNS names that a webhook certificate has to bear: the one API servers use, and its long form.
pub fn webhook_dns_names(prefix: &str, namespace: &str) -> [String; 2] {
    let name = format!("{}.{namespace}.svc", webhook_service(prefix));
    [name.clone(), format!("{name}.cluster.local")]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_certificate_for_cert_manager_fits_the_service() {
        let read = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        let certificate = read(include_str!("../../certs/certificate.yaml"));
        let issuer = read(include_str!("../../certs/issuer.yaml"));
        let namespace = certificate["metadata"]["namespace"].as_str().unwrap();
        assert_eq!(
            certificate["spec"]["dnsNames"],
            serde_json::json!(webhook_dns_names(PREFIX, namespace))
        );
        assert_eq!(
            certificate["metadata"]["name"],
            format!("{PREFIX}-serving-cert")
        );
        assert_eq!(
            certificate["spec"]["issuerRef"]["name"],
            issuer["metadata"]["name"]
        );
        assert_eq!(issuer["metadata"]["namespace"], namespace);
    }
}
