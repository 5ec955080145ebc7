//! What people install by: generated files are those of the code, and chart and kustomize make the same objects of the same choices.

#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    reason = "a test ends at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use garm_operator::generate::{manifests, rbac};
use garm_operator_ground::render;
use garm_operator_ground::servers::{Server, Servers};
use serde_json::{Value, json};

static SERVERS: LazyLock<Servers> =
    LazyLock::new(|| Servers::ensure_only(&[Server::Kubectl, Server::Helm]).unwrap());

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn overlay(name: &str) -> Vec<Value> {
    let rendered = render::kustomize(&SERVERS, &folder().join("overlays").join(name)).unwrap();
    render::objects(&rendered).unwrap()
}

/// What the chart makes of values, given as YAML, for a release of the usual name.
fn chart(values: &Value) -> Result<Vec<Value>, String> {
    chart_as("garm-operator", values)
}

fn chart_as(release: &str, values: &Value) -> Result<Vec<Value>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values.to_string()).unwrap();
    let chart = folder().join("chart/garm-operator");
    let rendered = render::helm(
        &SERVERS,
        &[
            "template",
            release,
            chart.to_str().unwrap(),
            "--namespace=garm-operator-system",
            "--values",
            file.path().to_str().unwrap(),
        ],
    );
    let rendered = rendered.map_err(|error| format!("{error:#}"))?;
    Ok(render::objects(&rendered).unwrap())
}

/// Objects by kind and name, without what tells who installed them: the chart's labels and policy, and the Namespace, which Helm makes itself.
fn compared(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in objects {
        if object["kind"] == "Namespace" {
            continue;
        }
        let name = format!(
            "{} {}",
            object["kind"].as_str().unwrap(),
            object["metadata"]["name"].as_str().unwrap()
        );
        for (field, keys) in [
            (
                "labels",
                &[
                    "app.kubernetes.io/instance",
                    "app.kubernetes.io/managed-by",
                    "helm.sh/chart",
                ][..],
            ),
            ("annotations", &["helm.sh/resource-policy"]),
        ] {
            let map = object["metadata"].get_mut(field);
            let Some(map) = map.and_then(Value::as_object_mut) else {
                continue;
            };
            map.retain(|key, _| !keys.contains(&key.as_str()));
            if map.is_empty() {
                object["metadata"].as_object_mut().unwrap().remove(field);
            }
        }
        if object["kind"] == "Deployment" {
            sort_env(&mut object);
        }
        assert!(all.insert(name.clone(), object).is_none(), "{name} twice");
    }
    all
}

/// Variables by name: patches put theirs before the others. The pull policy that the chart spells out is the default.
fn sort_env(deployment: &mut Value) {
    let pod = &mut deployment["spec"]["template"]["spec"];
    let container = &mut pod["containers"][0];
    container.as_object_mut().unwrap().remove("imagePullPolicy");
    let by_name = |list: &mut Value| {
        let list = list.as_array_mut().unwrap();
        list.sort_by_key(|one| one["name"].as_str().unwrap().to_owned());
    };
    by_name(&mut container["env"]);
    by_name(&mut container["volumeMounts"]);
    by_name(&mut pod["volumes"]);
}

fn assert_same(overlay_name: &str, values: &Value) {
    let (ours, charts) = (
        compared(overlay(overlay_name)),
        compared(chart(values).unwrap()),
    );
    let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&ours), names(&charts), "{overlay_name}");
    let differ = ours
        .iter()
        .filter_map(|(name, object)| difference(object, &charts[name], name));
    let differ: Vec<String> = differ.collect();
    assert!(differ.is_empty(), "{overlay_name}: {differ:#?}");
}

/// Names the first place where two values differ, and what stands there.
fn difference(ours: &Value, theirs: &Value, place: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter()
                .find_map(|key| difference(&ours[key], &theirs[key], &format!("{place}/{key}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => (0..a.len())
            .find_map(|index| difference(&a[index], &b[index], &format!("{place}/{index}"))),
        _ => {
            (ours != theirs).then(|| format!("{place}: {ours} in kustomize, {theirs} in the chart"))
        }
    }
}

#[test]
fn generated_files_are_those_of_the_code() {
    for file in manifests::files(&folder()).unwrap() {
        let committed = std::fs::read_to_string(folder().join(&file.name)).unwrap_or_default();
        assert!(
            committed == file.text,
            "manifests/{} differs: run `cargo run -- generate manifests --out manifests`",
            file.name
        );
    }
}

#[test]
fn the_one_file_is_its_overlay_with_four_variables() {
    let text = text("install.yaml");
    assert_eq!(
        render::objects(&text).unwrap(),
        overlay("install"),
        "run `cargo run --example install`"
    );
    assert!(text.starts_with("# Generated by `cargo run --example install`"));
    let mut variables = BTreeSet::new();
    // What envsubst takes for a variable. Comments are not applied.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        for rest in line.split('$').skip(1) {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if end > 0 || rest.starts_with('{') {
                variables.insert(rest[..end].to_owned());
            }
        }
    }
    let expected = [
        "GARM_SERVER_PASSWORD",
        "GARM_SERVER_URL",
        "GARM_SERVER_USERNAME",
        "OPERATOR_WATCH_NAMESPACE",
    ];
    assert_eq!(variables, expected.map(str::to_owned).into());
    // Whatever is filled in stays the text it is.
    let filled = text.replace("$GARM_SERVER_PASSWORD", "0x1F: 'a\" # b");
    let objects = render::objects(&filled).unwrap();
    let secret = objects.iter().find(|one| one["kind"] == "Secret").unwrap();
    assert_eq!(secret["stringData"]["password"], "0x1F: 'a\" # b");
}

#[test]
fn versions_are_those_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &render::objects(&text("chart/garm-operator/Chart.yaml")).unwrap()[0];
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    for object in overlay("ha") {
        if object["kind"] == "Deployment" {
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["image"], format!("garm-operator:{version}"));
        }
    }
    let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile");
    let dockerfile = std::fs::read_to_string(dockerfile).unwrap();
    assert!(dockerfile.contains(&format!("ARG VERSION={version}\n")));
}

#[test]
fn names_that_users_of_the_go_operator_know_stay() {
    let objects = compared(overlay("cert-manager"));
    for name in [
        "ServiceAccount garm-operator-controller-manager",
        "ClusterRole garm-operator-manager-role",
        "Role garm-operator-leader-election-role",
        "RoleBinding garm-operator-leader-election-rolebinding",
        "Service garm-operator-webhook-service",
        "Deployment garm-operator-controller-manager",
        "Issuer garm-operator-selfsigned-issuer",
        "Certificate garm-operator-serving-cert",
        "ValidatingWebhookConfiguration garm-operator-validating-webhook-configuration",
    ] {
        let object = objects.get(name);
        let object = object.unwrap_or_else(|| unreachable!("{name} is missing"));
        let namespace = &object["metadata"]["namespace"];
        assert!(namespace.is_null() || namespace == "garm-operator-system");
    }
    let deployment = &objects["Deployment garm-operator-controller-manager"]["spec"];
    let labels = json!({"control-plane": "controller-manager"});
    assert_eq!(deployment["selector"]["matchLabels"], labels);
    let container = &deployment["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], "manager");
    assert_eq!(container["command"], json!(["/manager"]));
    assert_eq!(container["ports"][0]["containerPort"], 9443);
    let namespaced = compared(overlay("namespaced"));
    assert!(namespaced.contains_key("Role garm-operator-manager-role"));
    assert!(namespaced.contains_key("RoleBinding garm-operator-manager-rolebinding"));
}

/// The choices that both ways have, as values of the chart.
const GARM: &str = "garm-operator-garm";

#[test]
fn chart_and_kustomize_make_the_same_objects_of_the_same_choices() {
    let garm = json!({"existingSecret": GARM});
    assert_same("self-managed", &json!({"garm": garm}));
    assert_same(
        "cert-manager",
        &json!({"garm": garm, "certificates": {"source": "cert-manager"}}),
    );
    assert_same(
        "namespaced",
        &json!({"garm": garm, "watchNamespaces": ["garm-operator-system"]}),
    );
    assert_same("ha", &json!({"garm": garm, "replicas": 2}));
}

#[test]
fn helm_finds_no_fault_and_wrong_values_are_refused() {
    let chart_folder = folder().join("chart/garm-operator");
    let linted = render::helm(
        &SERVERS,
        &[
            "lint",
            "--strict",
            chart_folder.to_str().unwrap(),
            "--set=garm.existingSecret=garm",
        ],
    );
    linted.unwrap();
    for (values, words) in [
        (
            json!({}),
            "garm.existingSecret or garm.password is required",
        ),
        (
            json!({"garm": {"password": "secret"}}),
            "garm.server and garm.username are required",
        ),
        (
            json!({"garm": {"existingSecret": GARM, "sever": "http://garm"}}),
            "sever",
        ),
        (
            json!({"garm": {"existingSecret": GARM, "server": "garm:9997"}}),
            "/garm/server",
        ),
        (
            json!({"garm": {"existingSecret": GARM}, "certificates": {"source": "selfmanaged"}}),
            "/certificates/source",
        ),
        (
            json!({"garm": {"existingSecret": GARM}, "certificates": {"source": "existing"}}),
            "certificates.caBundle is required",
        ),
        (
            json!({"garm": {"existingSecret": GARM}, "watchNamespaces": ["Team A"]}),
            "/watchNamespaces/0",
        ),
        (
            json!({"garm": {"existingSecret": GARM}, "garmServer": {"enabled": true}}),
            "garmServer.config or garmServer.existingConfigSecret is required",
        ),
    ] {
        let told = chart(&values).map(drop).unwrap_err();
        assert!(told.contains(words), "{values}:\n{told}");
    }
}

#[test]
fn values_and_their_schema_name_the_same() {
    let read = |name: &str| -> Value {
        serde_saphyr::from_str(&text(&format!("chart/garm-operator/{name}"))).unwrap()
    };
    let (values, schema) = (read("values.yaml"), read("values.schema.json"));
    let mut pairs = vec![(String::new(), values, schema)];
    while let Some((path, values, schema)) = pairs.pop() {
        let Some(properties) = schema["properties"].as_object() else {
            continue;
        };
        let ours = values.as_object().unwrap();
        if ours.is_empty() {
            continue;
        }
        let known: BTreeSet<_> = properties.keys().filter(|key| *key != "global").collect();
        assert_eq!(ours.keys().collect::<BTreeSet<_>>(), known, "at {path:?}");
        for (key, value) in ours {
            let below = properties[key].clone();
            pairs.push((format!("{path}/{key}"), value.clone(), below));
        }
    }
}

#[test]
fn another_release_shares_no_name_that_the_cluster_has_once() {
    let values = json!({"garm": {"existingSecret": GARM}, "crds": {"install": false}});
    let first = compared(chart(&values).unwrap());
    let second = compared(chart_as("other", &values).unwrap());
    let shared: Vec<_> = second
        .keys()
        .filter(|name| first.contains_key(*name))
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
    let role = &second["ClusterRole other-garm-operator-webhook-bundle-role"];
    let expected = rbac::webhook_bundle("other-garm-operator");
    assert_eq!(role["rules"], serde_json::to_value(expected).unwrap());
    let container = &second["Deployment other-garm-operator-controller-manager"]["spec"]["template"]
        ["spec"]["containers"][0];
    let prefix = json!({"name": "OPERATOR_WEBHOOK_NAME_PREFIX", "value": "other-garm-operator"});
    assert!(container["env"].as_array().unwrap().contains(&prefix));
}

#[test]
fn crds_outlive_the_release_and_go_along_with_its_upgrades() {
    let values = json!({"garm": {"existingSecret": GARM}});
    let objects = chart(&values).unwrap();
    let crds = objects
        .iter()
        .filter(|one| one["kind"] == "CustomResourceDefinition");
    let kept =
        crds.filter(|crd| crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep");
    assert_eq!(kept.count(), 9);
    // What stands in this folder Helm installs once and never again.
    assert!(!folder().join("chart/garm-operator/crds").exists());
}

#[test]
fn samples_are_valid_and_there_is_one_of_each_kind_that_people_make() {
    let samples = folder().join("samples");
    let judged = std::process::Command::new(env!("CARGO_BIN_EXE_garm-operator"))
        .args(["validate", "--strict", "-f"])
        .arg(&samples)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{told}");
    let mut kinds = BTreeSet::new();
    for entry in std::fs::read_dir(samples).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(text.starts_with("# Written by hand"));
        let objects = render::objects(&text).unwrap();
        kinds.extend(
            objects
                .iter()
                .map(|one| one["kind"].as_str().unwrap().to_owned()),
        );
    }
    for crd in garm_operator::generate::crds::definitions() {
        let kind = crd.spec.names.kind;
        assert!(kind == "Runner" || kinds.contains(&kind), "no {kind}");
    }
}
