//! Whether the API server takes what overlays and chart make, without keeping any of it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::{Server, Servers};
use garm_operator_ground::{ControlPlane, Ground, render};
use serde_json::{Value, json};

use super::overlay::{NAMESPACE, Overlay};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "the_api_server_takes_whatever_overlays_and_chart_make",
        taken,
    );
}

/// Kinds of others, whose definitions do not come with us.
const FOREIGN: [(&str, &str, &str); 4] = [
    ("cert-manager.io", "Certificate", "certificates"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
];

fn foreign((group, kind, plural): (&str, &str, &str)) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    })
}

/// Values of the chart, such that each of its choices is taken at least once.
fn values() -> Vec<Value> {
    let garm = json!({"existingSecret": "garm-operator-garm"});
    let words = json!({"team": "ci"});
    vec![
        json!({"garm": {"server": "https://garm.example.com", "username": "admin", "password": "a: \"b\""}}),
        json!({
            "garm": {"existingSecret": "garm", "server": "http://garm:9997", "username": "admin", "caSecret": "garm-ca"},
            "certificates": {"source": "cert-manager", "issuerRef": {"kind": "ClusterIssuer", "name": "ours"}},
            "watchNamespaces": [NAMESPACE, "default"],
            "replicas": 3,
            "podDisruptionBudget": {"minAvailable": "50%"},
            "crds": {"keep": false},
            "rbac": {"aggregate": false},
            "serviceAccount": {"create": false, "name": "ours"},
            "networkPolicy": {"enabled": false},
        }),
        json!({
            "garm": garm,
            "certificates": {"source": "existing", "existingSecret": "tls", "caBundle": include_str!("../../data/ca-one.pem")},
            "monitoring": {
                "serviceMonitor": {"enabled": true, "labels": words}, "prometheusRule": {"enabled": true, "labels": words},
                "dashboard": {"enabled": true}, "kubeStateMetrics": {"enabled": true},
            },
            "config": {"operator": {"minIdleRunnersAge": "30m", "poolDefaults": {"osType": "linux"}, "stateMetrics": true}},
        }),
        json!({
            "garm": garm, "fullnameOverride": "runners", "image": {"digest": format!("sha256:{}", "0".repeat(64))},
            "imagePullSecrets": [{"name": "pull"}], "priorityClassName": "system-cluster-critical",
            "podAnnotations": words, "podLabels": words, "nodeSelector": words,
            "tolerations": [{"key": "ci", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}],
            "serviceAccount": {"annotations": words},
            "extraArgs": ["--operator-log-verbosity-level=1"],
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy"}], "extraEnvFrom": [{"secretRef": {"name": "more"}}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}], "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "extraManifests": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-{{ .Release.Name }}"}},
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: another\n",
            ],
            "resources": {},
        }),
        json!({
            "garm": {"username": "admin", "password": "secret"},
            "garmServer": {
                "enabled": true, "config": "[default]\n[jwt_auth]\nsecret = \"{{ .Release.Name }}\"\n",
                "command": ["/bin/garm"], "persistence": {"storageClassName": "fast"},
                "initContainers": [{"name": "provider", "image": "provider", "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                }}],
                "extraEnv": [{"name": "A", "value": "b"}], "extraVolumes": [{"name": "providers", "emptyDir": {}}],
                "extraVolumeMounts": [{"name": "providers", "mountPath": "/opt/garm/providers.d"}],
            },
        }),
        json!({"garm": garm, "garmServer": {"enabled": true, "existingConfigSecret": "ours"}, "crds": {"install": false}, "rbac": {"create": false}}),
    ]
}

async fn taken(ground: &Ground) -> Result<()> {
    let helm = tokio::task::spawn_blocking(|| Servers::ensure_only(&[Server::Helm])).await??;
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = all_taken(ground, &helm, &plane).await;
    plane.stop().await?;
    result
}

async fn all_taken(ground: &Ground, helm: &Servers, plane: &ControlPlane) -> Result<()> {
    let base = Overlay::render(ground, "cert-manager")?;
    let namespace = base.0.iter().find(|one| one["kind"] == "Namespace");
    let mut first: Vec<Value> = FOREIGN.map(foreign).into();
    first.push(namespace.context("no Namespace")?.clone());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": first});
    plane
        .kubectl_ok(&["apply", "--server-side", "-f", "-"], &list.to_string())
        .await?;
    plane
        .kubectl_ok(&["wait", "--for=condition=Established", "crd", "--all"], "")
        .await?;
    for name in [
        "cert-manager",
        "self-managed",
        "namespaced",
        "ha",
        "install",
    ] {
        let overlay = Overlay::render(ground, name)?;
        dry(plane, &overlay.0, name).await?;
    }
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/chart/garm-operator");
    let chart = chart.to_str().context("a path that is no text")?;
    for (number, values) in values().into_iter().enumerate() {
        let file = ground.directory().join(format!("values-{number}.yaml"));
        std::fs::write(&file, values.to_string())?;
        let file = file.to_str().context("a path that is no text")?;
        let rendered = render::helm(
            helm,
            &[
                "template",
                "garm-operator",
                chart,
                "--namespace",
                NAMESPACE,
                "--values",
                file,
            ],
        )?;
        dry(
            plane,
            &render::objects(&rendered)?,
            &format!("values {values}"),
        )
        .await?;
    }
    Ok(())
}

/// Demands that the API server takes all of them without a warning.
async fn dry(plane: &ControlPlane, objects: &[Value], what: &str) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let arguments = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
    let output = plane.kubectl_with_input(&arguments, &list).await?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && told.is_empty(),
        "{what}:\n{told}"
    );
    let count = String::from_utf8_lossy(&output.stdout).lines().count();
    ensure!(
        count == objects.len(),
        "{what}: {count} of {}",
        objects.len()
    );
    Ok(())
}
