//! The generated parts of the folder `manifests`: neither kustomize nor a chart may read files beyond its own folder, so that each has a copy.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::webhooks::{self, CaBundle};
use super::{File, crds, rbac, yaml};
use crate::api::install::{NAMESPACE, PREFIX};
use rbac::Reach;

const COMMAND: &str = "garm-operator generate manifests --out manifests";

/// What is copied as it is: from where to where, both seen from the folder.
const COPIES: [(&str, &str); 5] = [
    (
        "../certs/certificate.yaml",
        "components/cert-manager/certificate.yaml",
    ),
    (
        "../certs/issuer.yaml",
        "components/cert-manager/issuer.yaml",
    ),
    (
        "monitoring/dashboard.json",
        "chart/garm-operator/files/dashboard.json",
    ),
    (
        "monitoring/kube-state-metrics.yaml",
        "chart/garm-operator/files/kube-state-metrics.yaml",
    ),
    (
        "monitoring/prometheus-rules.yaml",
        "chart/garm-operator/files/prometheus-rules.yaml",
    ),
];

/// Renders all of them, by their path in the folder, which holds what is copied.
///
/// # Errors
/// Fails when what is to be copied is not there.
pub fn files(folder: &Path) -> anyhow::Result<Vec<File>> {
    let own_namespace = Reach {
        watched: vec![NAMESPACE.to_owned()],
        ..Reach::default()
    };
    let file = |name: &str, objects: &[Value]| yaml(name, COMMAND, objects);
    let (crds, webhooks) = (crds::objects()?, webhooks::objects(CaBundle::Open));
    let mut all = vec![
        file("base/crds.yaml", &crds)?,
        file("base/rbac.yaml", &rbac::objects(&Reach::default()))?,
        file("base/webhooks.yaml", &webhooks)?,
        file(
            "components/namespaced/rbac.yaml",
            &rbac::for_work(&own_namespace),
        )?,
        file("components/namespaced/webhooks.yaml", &bounded(&webhooks))?,
        file(
            "components/self-managed/rbac.yaml",
            &rbac::for_certificates(NAMESPACE),
        )?,
        file("chart/garm-operator/files/crds.yaml", &crds)?,
        file("chart/garm-operator/files/rules.yaml", &[rules()])?,
        file("chart/garm-operator/files/webhooks.yaml", &webhooks)?,
    ];
    for (from, to) in COPIES {
        let path = folder.join(from);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        all.push(File {
            name: to.to_owned(),
            text,
        });
    }
    Ok(all)
}

/// Makes patches that let the API server ask about the operator's own namespace only. Webhooks merge by their names.
fn bounded(objects: &[Value]) -> Vec<Value> {
    let patch = |object: &Value| {
        let webhooks = object["webhooks"].as_array()?;
        let bounded = |webhook: &Value| {
            json!({
                "name": webhook["name"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            })
        };
        Some(json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": object["metadata"],
            "webhooks": webhooks.iter().map(bounded).collect::<Vec<_>>(),
        }))
    };
    objects.iter().filter_map(patch).collect()
}

/// Gives the rules of all roles by what they are for. The chart puts its own names in the place of [`PREFIX`].
fn rules() -> Value {
    json!({
        "watched": rbac::watched(),
        "leaderElection": rbac::leader_election(),
        "webhookCa": rbac::webhook_ca(PREFIX),
        "webhookBundle": rbac::webhook_bundle(PREFIX),
        "viewer": rbac::viewer(),
        "editor": rbac::editor(),
    })
}
