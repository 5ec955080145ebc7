//! The webhook configurations and the Service that leads to us, as values and as YAML.
//!
//! The table of [`crate::admission::hooks`] says what is served; here is when the API server asks, and what it does when nobody answers.

use serde_json::{Value, json};

use super::File;
use crate::admission::hooks::{HOOKS, Hook, Operation, Phase};
use crate::api::install::{self, NAMESPACE, PREFIX};
use crate::api::meta::{GROUP, VERSION};

/// Where the CA certificates come from by which the API server knows us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CaBundle {
    /// From the operator itself, or from whoever installs it.
    Open,
    /// From cert-manager, which reads an annotation.
    CertManager,
}

/// When a webhook is asked about a write: never when only metadata or status change and never about an object that is going. So with the
/// operator away, labels, finalizers and deletions pass, while a new spec waits for it. No account is exempt.
const CONDITION: &str = "request.operation == 'CREATE' || (!has(object.metadata.deletionTimestamp) && (has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)))";

/// Seconds that the API server waits for an answer: one more than we take at most.
const TIMEOUT: u32 = 5;

/// Seconds that a deletion waits for us to have noticed it.
const NOTICE_TIMEOUT: u32 = 1;

/// Builds the Service and both configurations.
pub fn objects(ca: CaBundle) -> Vec<Value> {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service_name(), "namespace": NAMESPACE},
        "spec": {
            "ports": [{"port": 443, "protocol": "TCP", "targetPort": 9443}],
            "selector": {"control-plane": "controller-manager"},
        },
    });
    vec![
        service,
        configuration(Phase::Validating, ca),
        configuration(Phase::Mutating, ca),
    ]
}

/// Renders one file for each way to get CA certificates.
pub fn files() -> anyhow::Result<Vec<File>> {
    let file = |name: &str, option: &str, ca| {
        let command = format!("garm-operator generate webhooks{option}");
        super::yaml(name, &command, &objects(ca))
    };
    Ok(vec![
        file("webhooks.yaml", "", CaBundle::Open)?,
        file(
            "webhooks-cert-manager.yaml",
            " --cert-manager",
            CaBundle::CertManager,
        )?,
    ])
}

fn service_name() -> String {
    install::webhook_service(PREFIX)
}

fn configuration(phase: Phase, ca: CaBundle) -> Value {
    let (kind, name) = match phase {
        Phase::Mutating => (
            "MutatingWebhookConfiguration",
            install::mutating_webhooks(PREFIX),
        ),
        Phase::Validating => (
            "ValidatingWebhookConfiguration",
            install::validating_webhooks(PREFIX),
        ),
    };
    let webhooks: Vec<Value> = HOOKS
        .iter()
        .filter(|hook| hook.phase == phase)
        .map(webhook)
        .collect();
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    });
    if ca == CaBundle::CertManager {
        let certificate = format!("{NAMESPACE}/{PREFIX}-serving-cert");
        object["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
    }
    object
}

fn webhook(hook: &Hook) -> Value {
    let is_deletion = hook.operations == [Operation::Delete];
    let mut webhook = json!({
        "name": format!("{}.{GROUP}", hook.name),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": service_name(), "namespace": NAMESPACE, "path": hook.path, "port": 443},
        },
        // Deletion goes on with the operator away; the Pools of an Image that went so wait.
        "failurePolicy": if is_deletion { "Ignore" } else { "Fail" },
        // Writes in another version are ours too.
        "matchPolicy": "Equivalent",
        "rules": [{
            "apiGroups": [GROUP],
            "apiVersions": [VERSION],
            "operations": hook.operations,
            "resources": [hook.plural],
            "scope": "Namespaced",
        }],
        "sideEffects": "None",
        "timeoutSeconds": if hook.only_notices() { NOTICE_TIMEOUT } else { TIMEOUT },
    });
    if !is_deletion {
        webhook["matchConditions"] = json!([{"name": "spec-is-written", "expression": CONDITION}]);
    }
    if hook.phase == Phase::Mutating {
        // Others may take away what we filled in.
        webhook["reinvocationPolicy"] = json!("IfNeeded");
    }
    webhook
}
