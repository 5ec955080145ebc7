//! The committed CRDs are those of the code, and the API they describe is the one users have installed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use garm_operator::api::install;
use garm_operator::generate::crds;
use serde_json::{Value, json};

/// Fields that the CRDs users have installed do not know. All are optional. v1alpha1 gains none in a spec: it stays what old
/// manifests are written for. What a status tells is the same in both versions.
const ADDED: [&str; 9] = [
    "GarmServerConfig v1beta1 .spec.minimumJobAgeBackoff",
    "Organization v1beta1 .spec.installWebhook",
    "Pool v1alpha1 .status.runners",
    "Pool v1alpha1 .status.tags",
    "Pool v1beta1 .spec.priority",
    "Pool v1beta1 .status.runners",
    "Pool v1beta1 .status.tags",
    "Repository v1beta1 .spec.installWebhook",
    "Runner v1alpha1 .status.conditions",
];

const READY: Column = (
    "Ready",
    "string",
    ".status.conditions[?(@.type=='Ready')].status",
    0,
);
/// Columns that the Go operator does not have; all of its own are kept.
const REASON: Column = (
    "Reason",
    "string",
    ".status.conditions[?(@.type=='Ready')].reason",
    0,
);
const ERROR: Column = (
    "Error",
    "string",
    ".status.conditions[?(@.type=='Ready')].message",
    1,
);
const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0);
const ID: Column = ("ID", "string", ".status.id", 0);
const POOL_MANAGER: Column = (
    "Pool_Manager_Failure",
    "string",
    ".status.conditions[?(@.reason=='PoolManagerFailure')].message",
    1,
);
const ENTITY: &[Column] = &[ID, READY, REASON, ERROR, POOL_MANAGER, AGE];

type Column = (&'static str, &'static str, &'static str, i64);

const SERVER_CONFIG: &[Column] = &[
    ("ID", "string", ".status.controllerId", 0),
    ("Version", "string", ".status.version", 0),
    READY,
    REASON,
    ("MetadataURL", "string", ".status.metadataUrl", 1),
    ("CallbackURL", "string", ".status.callbackUrl", 1),
    ("WebhookURL", "string", ".status.webhookUrl", 1),
    (
        "ControllerWebhookURL",
        "string",
        ".status.controllerWebhookUrl",
        1,
    ),
    AGE,
];
const CREDENTIAL: &[Column] = &[
    ID,
    READY,
    REASON,
    ERROR,
    ("AuthType", "string", ".spec.authType", 0),
    ("GitHubEndpoint", "string", ".spec.endpointRef.name", 0),
    ("Repositories", "string", ".status.repositories", 1),
    ("Organizations", "string", ".status.organizations", 1),
    ("Enterprises", "string", ".status.enterprises", 1),
    AGE,
];
const ENDPOINT: &[Column] = &[
    ("URL", "string", ".spec.apiBaseUrl", 0),
    READY,
    REASON,
    ERROR,
    AGE,
];
const IMAGE: &[Column] = &[("Tag", "string", ".spec.tag", 0), AGE];
const POOL: &[Column] = &[
    ID,
    ("MinIdleRunners", "string", ".spec.minIdleRunners", 0),
    ("MaxRunners", "string", ".spec.maxRunners", 0),
    // Two that the Go operator shows with -o wide only.
    ("ImageName", "string", ".spec.imageName", 0),
    ("Flavor", "string", ".spec.flavor", 1),
    ("Provider", "string", ".spec.providerName", 1),
    ("ScopeType", "string", ".spec.githubScopeRef.kind", 1),
    ("ScopeName", "string", ".spec.githubScopeRef.name", 0),
    READY,
    REASON,
    ("Idle", "integer", ".status.runners.idle", 0),
    ("Busy", "integer", ".status.runners.active", 0),
    ERROR,
    ("Enabled", "boolean", ".spec.enabled", 1),
    AGE,
];
const RUNNER: &[Column] = &[
    ID,
    ("Pool", "string", ".status.poolId", 0),
    ("Garm Runner Status", "string", ".status.status", 0),
    (
        "Provider Runner Status",
        "string",
        ".status.instanceStatus",
        0,
    ),
    ("Provider ID", "string", ".status.providerId", 1),
    ("Agent ID", "string", ".status.agentId", 1),
    AGE,
];

/// What a kind looks like besides its schema: kind, plural, short name and columns.
const SHAPES: [(&str, &str, Option<&str>, &[Column]); 9] = [
    ("Enterprise", "enterprises", Some("ent"), ENTITY),
    ("GarmServerConfig", "garmserverconfigs", None, SERVER_CONFIG),
    ("GitHubCredential", "githubcredentials", None, CREDENTIAL),
    ("GitHubEndpoint", "githubendpoints", None, ENDPOINT),
    ("Image", "images", None, IMAGE),
    ("Organization", "organizations", Some("org"), ENTITY),
    ("Pool", "pools", None, POOL),
    ("Repository", "repositories", Some("repo"), ENTITY),
    ("Runner", "runners", Some("run"), RUNNER),
];

fn subresources(kind: &str) -> Value {
    match kind {
        "Image" => Value::Null,
        "Pool" => json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.minIdleRunners",
                "statusReplicasPath": ".status.longRunningIdleRunners",
                "labelSelectorPath": ".status.selector",
            },
        }),
        _ => json!({"status": {}}),
    }
}

fn selectable(kind: &str) -> Value {
    match kind {
        "Runner" => json!([
            {"jsonPath": ".status.poolId"},
            {"jsonPath": ".status.status"},
            {"jsonPath": ".status.instanceStatus"},
        ]),
        _ => Value::Null,
    }
}

/// One field of a schema: all that makes its type, as text.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Field {
    type_: String,
    format: String,
    required: String,
    default: String,
    enum_: String,
    limits: BTreeSet<String>,
    extensions: BTreeSet<String>,
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Flattens a schema into its fields by path, as `.spec.tags[]`.
fn flatten(path: &str, required: &str, schema: &Value, into: &mut BTreeMap<String, Field>) {
    let object = schema.as_object().unwrap();
    let mut limits = BTreeSet::new();
    let mut extensions = BTreeSet::new();
    for (key, value) in object {
        match key.as_str() {
            "type" | "format" | "default" | "enum" | "description" | "properties" | "required"
            | "items" => {}
            "x-kubernetes-validations" => {
                for rule in value.as_array().unwrap() {
                    extensions.insert(format!("validation: {}", text(&rule["message"])));
                }
            }
            other if other.starts_with("x-kubernetes-") => {
                extensions.insert(format!("{other}={}", text(value)));
            }
            // Whatever else a schema can hold narrows it.
            other => {
                limits.insert(format!("{other}={}", text(value)));
            }
        }
    }
    let words = |value: &Value| {
        value
            .as_array()
            .map(|all| all.iter().map(text).collect::<Vec<_>>().join(","))
            .unwrap_or_default()
    };
    into.insert(
        path.to_owned(),
        Field {
            type_: text(&schema["type"]),
            format: text(&schema["format"]),
            required: required.to_owned(),
            default: text(&schema["default"]),
            enum_: words(&schema["enum"]),
            limits,
            extensions,
        },
    );
    let needed = words(&schema["required"]);
    let needed: Vec<_> = needed.split(',').collect();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let prefix = if path == "." { "" } else { path };
            let required = if needed.contains(&name.as_str()) {
                "yes"
            } else {
                "no"
            };
            flatten(&format!("{prefix}.{name}"), required, property, into);
        }
    }
    if !schema["items"].is_null() {
        flatten(&format!("{path}[]"), "-", &schema["items"], into);
    }
}

/// Reads the fields that users have installed, by kind and version, and by path.
fn installed() -> BTreeMap<(String, String), BTreeMap<String, Field>> {
    let table = std::fs::read_to_string(root().join("tests/data/crd-fields.tsv")).unwrap();
    let mut kinds: BTreeMap<_, BTreeMap<String, Field>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let cells: Vec<_> = line.split('\t').collect();
        let [
            kind,
            _,
            version,
            path,
            type_,
            format,
            required,
            default,
            enum_,
            limits,
            extensions,
        ] = cells[..]
        else {
            panic!("{} cells: {line}", cells.len())
        };
        let set = |cell: &str| {
            cell.split("; ")
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        let field = Field {
            type_: type_.to_owned(),
            format: format.to_owned(),
            required: required.to_owned(),
            default: default.to_owned(),
            enum_: enum_.to_owned(),
            limits: set(limits),
            // The rule itself is checked on its own below; its message is what users see.
            extensions: set(extensions)
                .into_iter()
                .map(|part| match part.split_once(" => ") {
                    Some((_, message)) => format!("validation: {message}"),
                    None => part,
                })
                .collect(),
        };
        kinds
            .entry((kind.to_owned(), version.to_owned()))
            .or_default()
            .insert(path.to_owned(), field);
    }
    kinds
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn generated() -> Vec<Value> {
    crds::definitions()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect()
}

/// Writes whole numbers without a fraction, as the table does.
fn whole(value: &Value) -> Value {
    serde_json::from_str(&value.to_string().replace(".0,", ",").replace(".0}", "}")).unwrap()
}

/// Flattens the schemas of all versions of all kinds, by kind and version, and by path.
fn ours() -> BTreeMap<(String, String), BTreeMap<String, Field>> {
    let mut kinds = BTreeMap::new();
    for crd in generated() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let mut fields = BTreeMap::new();
            flatten(".", "-", &schema(version), &mut fields);
            let key = (text(&crd["spec"]["names"]["kind"]), text(&version["name"]));
            kinds.insert(key, fields);
        }
    }
    kinds
}

fn schema(version: &Value) -> Value {
    whole(&version["schema"]["openAPIV3Schema"])
}

#[test]
fn committed_files_are_those_of_the_code() {
    let folder = root().join("crds");
    let files = crds::files().unwrap();
    for file in &files {
        let committed = std::fs::read_to_string(folder.join(&file.name)).unwrap_or_default();
        assert!(
            committed == file.text,
            "crds/{} differs from the code: run `cargo run -- generate crds --out crds`",
            file.name
        );
    }
    let names: BTreeSet<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, files.into_iter().map(|file| file.name).collect());
}

#[test]
fn every_installed_field_is_there_unchanged() {
    let ours = ours();
    let mut checked = 0;
    for (key, fields) in installed() {
        for (path, field) in fields {
            assert_eq!(ours[&key].get(&path), Some(&field), "{key:?} {path}");
            checked += 1;
        }
    }
    assert!(checked > 330, "only {checked} fields compared");
}

#[test]
fn every_added_field_is_optional_and_listed() {
    let mut installed = installed();
    let mut added = Vec::new();
    for ((kind, version), fields) in ours() {
        let known = installed.remove(&(kind.clone(), version.clone())).unwrap();
        for (path, field) in &fields {
            if known.contains_key(path) {
                continue;
            }
            // What is inside an added field is part of it.
            let name = format!("{kind} {version} {path}");
            if added
                .iter()
                .any(|outer: &String| name.starts_with(outer.as_str()))
            {
                continue;
            }
            assert_eq!(
                (field.required.as_str(), field.default.as_str()),
                ("no", ""),
                "{name}"
            );
            added.push(name);
        }
    }
    added.sort();
    assert_eq!(added, ADDED);
    assert!(installed.is_empty(), "versions are gone: {installed:?}");
}

#[test]
fn the_kinds_that_the_process_looks_for_are_those_that_are_generated() {
    let crds = generated();
    let names = crds.iter().map(|crd| text(&crd["spec"]["names"]["plural"]));
    assert_eq!(names.collect::<Vec<_>>(), install::plurals());
}

#[test]
fn names_columns_and_subresources_are_those_installed() {
    let generated = generated();
    assert_eq!(generated.len(), SHAPES.len());
    for (crd, (kind, plural, short, columns)) in generated.iter().zip(SHAPES) {
        let mut names = json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "plural": plural,
            "singular": kind.to_lowercase(),
            "categories": ["garm"],
        });
        if let Some(short) = short {
            names["shortNames"] = json!([short]);
        }
        assert_eq!(
            crd["metadata"],
            json!({"name": format!("{plural}.garm-operator.mercedes-benz.com")})
        );
        let spec = &crd["spec"];
        assert_eq!(spec["names"], names);
        assert_eq!(
            (&spec["group"], &spec["scope"]),
            (
                &json!("garm-operator.mercedes-benz.com"),
                &json!("Namespaced")
            )
        );
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, type_, path, priority)| match priority {
                0 => json!({"name": name, "type": type_, "jsonPath": path}),
                _ => json!({"name": name, "type": type_, "jsonPath": path, "priority": priority}),
            })
            .collect();
        let versions = spec["versions"].as_array().unwrap();
        let names: Vec<_> = versions.iter().map(|version| &version["name"]).collect();
        match kind {
            "GarmServerConfig" | "GitHubCredential" | "GitHubEndpoint" => {
                assert_eq!(names, ["v1beta1"], "{kind}");
            }
            _ => assert_eq!(names, ["v1alpha1", "v1beta1"], "{kind}"),
        }
        for version in versions {
            let is_old = version["name"] == "v1alpha1";
            let warning = "This version is deprecated. Use v1beta1 instead.";
            assert_eq!(
                json!([
                    version["served"],
                    version["storage"],
                    version["deprecated"],
                    version["deprecationWarning"]
                ]),
                if is_old {
                    json!([true, false, true, warning])
                } else {
                    json!([true, true, null, null])
                },
                "{kind}"
            );
            assert_eq!(version["subresources"], subresources(kind), "{kind}");
            assert_eq!(
                version["additionalPrinterColumns"],
                json!(columns),
                "{kind}"
            );
            assert_eq!(version["selectableFields"], selectable(kind), "{kind}");
        }
    }
}

#[test]
fn the_webhook_converts_the_kinds_that_it_converts_where_installed() {
    for crd in generated() {
        let kind = text(&crd["spec"]["names"]["kind"]);
        let by_webhook = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {
                    "name": "garm-operator-webhook-service",
                    "namespace": "garm-operator-system",
                    "path": "/convert",
                }},
                "conversionReviewVersions": ["v1"],
            },
        });
        let expected = match kind.as_str() {
            "Enterprise" | "Organization" | "Pool" | "Repository" => by_webhook,
            _ => Value::Null,
        };
        assert_eq!(crd["spec"]["conversion"], expected, "{kind}");
        let plural = text(&crd["spec"]["names"]["plural"]);
        let is_listed = install::CONVERTED.contains(&plural.as_str());
        assert_eq!(
            is_listed,
            !expected.is_null(),
            "the CA is made known to {kind}"
        );
    }
}

#[test]
fn the_pool_rule_lets_old_objects_be_edited_elsewhere() {
    let generated = generated();
    let pool = generated
        .iter()
        .find(|crd| crd["spec"]["names"]["kind"] == "Pool")
        .unwrap();
    for version in pool["spec"]["versions"].as_array().unwrap() {
        let rules = schema(version)["properties"]["spec"]["x-kubernetes-validations"].clone();
        let [rule] = rules.as_array().unwrap().as_slice() else {
            panic!("not one rule: {rules}")
        };
        assert_eq!(rule["optionalOldSelf"], json!(true));
        let text = rule["rule"].as_str().unwrap();
        assert!(
            text.starts_with("self.minIdleRunners <= self.maxRunners || (oldSelf.hasValue() && "),
            "{text}"
        );
    }
}

#[test]
fn nothing_may_be_null() {
    for file in crds::files().unwrap() {
        assert!(!file.text.contains("nullable"), "{}", file.name);
    }
}
