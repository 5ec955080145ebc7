//! What ships for Prometheus: the configuration of kube-state-metrics against the CRDs, the alerts by promtool's own tests, the dashboard by its
//! syntax. That every query names what the operator exposes is looked at on a running one (`tests/it/metrics/queries.rs`).

#![expect(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use garm_operator::generate::crds;
use garm_operator_ground::servers::{Server, Servers};
use serde_json::{Value, json};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn words(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap();
    list.iter()
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// The resources of the configuration of kube-state-metrics.
fn resources() -> Vec<Value> {
    let map = yaml(&text("manifests/monitoring/kube-state-metrics.yaml"));
    let config = yaml(map["data"]["config.yaml"].as_str().unwrap());
    assert_eq!(config["kind"], "CustomResourceStateMetrics");
    config["spec"]["resources"].as_array().unwrap().clone()
}

/// Schemas of v1beta1 by kind.
fn schemas() -> BTreeMap<String, Value> {
    let definitions = crds::definitions().into_iter();
    definitions
        .map(|crd| {
            let crd = serde_json::to_value(crd).unwrap();
            let versions = crd["spec"]["versions"].as_array().unwrap();
            let stored = versions.iter().find(|version| version["name"] == "v1beta1");
            let schema = stored.unwrap()["schema"]["openAPIV3Schema"].clone();
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            (kind, schema)
        })
        .collect()
}

/// What a path leads to, from an object as the API server has it.
fn follow(schema: &Value, path: &[String]) -> Option<Value> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["metadata", "name" | "namespace"] | ["metadata", "annotations", _] => {
            Some(json!({"type": "string"}))
        }
        ["metadata", "creationTimestamp" | "deletionTimestamp"] => {
            Some(json!({"type": "string", "format": "date-time"}))
        }
        ["metadata", ..] => None,
        _ => path.iter().try_fold(schema.clone(), |at, word| {
            at["properties"].get(word).cloned()
        }),
    }
}

#[test]
fn every_path_for_kube_state_metrics_leads_to_a_field_of_the_crd() {
    let schemas = schemas();
    let resources = resources();
    let mut kinds = BTreeSet::new();
    for resource in &resources {
        let of = &resource["groupVersionKind"];
        assert_eq!(
            (&of["group"], &of["version"]),
            (&json!("garm-operator.mercedes-benz.com"), &json!("v1beta1"))
        );
        let kind = of["kind"].as_str().unwrap();
        kinds.insert(kind);
        let schema = &schemas[kind];
        let lead = |path: &Value| {
            let path = words(path);
            follow(schema, &path).unwrap_or_else(|| panic!("{kind}: {path:?} leads nowhere"))
        };
        for path in resource["labelsFromPath"].as_object().unwrap().values() {
            lead(path);
        }
        for metric in resource["metrics"].as_array().unwrap() {
            let name = &metric["name"];
            assert!(metric["help"].is_string(), "{name}");
            let each = &metric["each"];
            let labels = |of: &Value| {
                of["labelsFromPath"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default()
            };
            match each["type"].as_str().unwrap() {
                "Info" => {
                    let info = &each["info"];
                    if info["path"].is_array() {
                        assert_eq!(lead(&info["path"])["type"], "string", "{name}");
                        assert!(labels(info).values().all(|path| words(path).is_empty()));
                    } else {
                        labels(info).values().for_each(|path| drop(lead(path)));
                    }
                }
                "Gauge" => {
                    let gauge = &each["gauge"];
                    let target = lead(&gauge["path"]);
                    if gauge["valueFrom"].is_array() {
                        let item = &target["items"];
                        let paths = labels(gauge).into_iter().map(|(_, path)| path);
                        for path in paths.chain([gauge["valueFrom"].clone()]) {
                            assert!(follow(item, &words(&path)).is_some(), "{name}: {path}");
                        }
                    } else if gauge["labelFromKey"].is_string() {
                        let fields = target["properties"].as_object().unwrap();
                        assert!(
                            fields.values().all(|field| field["type"] == "integer"),
                            "{name}"
                        );
                    } else {
                        let is_number =
                            ["integer", "boolean"].contains(&target["type"].as_str().unwrap());
                        assert!(
                            is_number || target["format"] == "date-time",
                            "{name}: {target}"
                        );
                    }
                }
                other => panic!("{name} is a {other}"),
            }
        }
    }
    let all: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
    assert_eq!(kinds, all, "every kind is shown");
}

/// Full names of the metrics, by kind.
fn configured() -> BTreeMap<String, BTreeSet<String>> {
    resources()
        .iter()
        .map(|resource| {
            let prefix = resource["metricNamePrefix"].as_str().unwrap();
            let metrics = resource["metrics"].as_array().unwrap();
            let names = metrics
                .iter()
                .map(|metric| format!("{prefix}_{}", metric["name"].as_str().unwrap()));
            let kind = resource["groupVersionKind"]["kind"].as_str().unwrap();
            (kind.to_owned(), names.collect())
        })
        .collect()
}

#[test]
fn the_metrics_of_the_go_operator_s_configuration_keep_their_names() {
    let all = configured();
    let entity = [
        "created",
        "info",
        "annotation_paused_info",
        "status_conditions",
    ];
    for (kind, stem, metrics) in [
        ("Enterprise", "enterprise", &entity[..]),
        ("Organization", "org", &entity),
        ("Repository", "repo", &entity),
        ("Pool", "pool", &entity),
        (
            "Pool",
            "pool",
            &["enabled", "min_idle_runners", "max_runners"],
        ),
        ("Pool", "status", &["long_running_idle_runners"]),
        ("Image", "image", &["created", "info"]),
        ("GarmServerConfig", "garmserverconfig", &["created", "info"]),
        (
            "GitHubEndpoint",
            "githubendpoint",
            &["created", "info", "status_conditions"],
        ),
        (
            "GitHubCredential",
            "githubcredential",
            &["created", "info", "status_conditions"],
        ),
    ] {
        for metric in metrics {
            let name = format!("garm_operator_{stem}_{metric}");
            assert!(all[kind].contains(&name), "{name}");
        }
    }
}

/// The rules, as a plain Prometheus reads them.
fn rules() -> Value {
    let rules = yaml(&text("manifests/monitoring/prometheus-rules.yaml"));
    assert_eq!(rules["kind"], "PrometheusRule");
    rules["spec"].clone()
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let servers = Servers::ensure_only(&[Server::Promtool]).unwrap();
    let output = Command::new(servers.path(Server::Promtool).unwrap())
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "promtool {arguments:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn alerts_fire_on_what_they_are_for_and_on_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // JSON is YAML.
    fs::write(folder.path().join("rules.yaml"), rules().to_string()).unwrap();
    let tests = text("tests/data/prometheus-rules-test.yaml");
    fs::write(folder.path().join("tests.yaml"), &tests).unwrap();
    promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    promtool(folder.path(), &["test", "rules", "tests.yaml"]);
    for rule in rules()["groups"][0]["rules"].as_array().unwrap() {
        let alert = rule["alert"].as_str().unwrap();
        let fires = format!("alertname: {alert}\n        exp_alerts:");
        let rests = format!("alertname: {alert}}}");
        assert!(
            tests.contains(&fires) && tests.contains(&rests),
            "{alert} is not tested both ways"
        );
    }
}

#[test]
fn every_query_of_the_dashboard_is_one() {
    let board: Value = serde_json::from_str(&text("manifests/monitoring/dashboard.json")).unwrap();
    let queries = queries(&board);
    assert!(queries.len() > 20, "{}", queries.len());
    let filled = queries.iter().map(|query| {
        query
            .replace("$__rate_interval", "5m")
            .replace("$namespace", ".*")
            .replace("$pool", ".*")
    });
    let records: Vec<Value> = filled
        .enumerate()
        .map(|(number, expr)| json!({"record": format!("query:{number}"), "expr": expr}))
        .collect();
    let rules = json!({"groups": [{"name": "dashboard", "rules": records}]});
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules.to_string()).unwrap();
    promtool(folder.path(), &["check", "rules", "rules.yaml"]);
}

#[test]
fn panels_of_the_dashboard_stand_beside_each_other() {
    let board: Value = serde_json::from_str(&text("manifests/monitoring/dashboard.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["id"]);
        let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{}", panel["title"]);
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(taken.insert((x, y)), "{} covers another", panel["title"]);
            }
        }
    }
}

fn queries(board: &Value) -> Vec<String> {
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}
