//! Files that `validate` is given.

use std::sync::LazyLock;

use garm_operator::api::meta::{API_VERSION, API_VERSION_V1ALPHA1};
use garm_operator::domain::defaults::PoolDefaults;
use garm_operator::validate::input::Input;
use garm_operator::validate::schema::Schemas;
use garm_operator::validate::validate;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::mutate::{change_bytes, change_somewhere};

/// Stands for a secret beside our objects; no line may hold it.
const SECRET: &str = "hunter2";

const WORDS: [&str; 20] = [
    API_VERSION,
    API_VERSION_V1ALPHA1,
    "v1",
    "List",
    "PoolList",
    "Pool",
    "Image",
    "items",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "spec",
    "status",
    "tags",
    "extraSpecs",
    "credentialsName",
    "credentialsRef",
    "<<",
    "*a",
];

/// YAML that is more than JSON, and what has its own way of being broken.
const PIECES: [&str; 12] = [
    "---\n",
    "...\n",
    "# comment\n",
    "&a ",
    "*a",
    "!!binary ",
    "|\n  text\n",
    ">-\n",
    "\t",
    "? ",
    "<<: *a\n",
    "%YAML 1.1\n",
];

fn objects() -> Vec<Value> {
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec});
    vec![
        object("Image", "ubuntu", json!({"tag": "24.04"})),
        object(
            "Repository",
            "tools",
            json!({"owner": "acme", "credentialsRef": {"name": "pat"}, "webhookSecretRef": {"name": "s", "key": "k"}}),
        ),
        object(
            "Pool",
            "small",
            json!({
                "githubScopeRef": {"kind": "Repository", "name": "tools"}, "providerName": "fake", "imageName": "ubuntu",
                "flavor": "small", "tags": ["linux"], "maxRunners": 4, "extraSpecs": "{\"token\": \"hunter2\"}",
            }),
        ),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": SECRET}}),
    ]
}

fn manifest(rng: &mut StdRng) -> Vec<u8> {
    let mut text = Vec::new();
    for mut object in objects() {
        // Secrets of others stay whole: what is ours and broken is told with the value, so that its user finds it.
        if object["kind"] != "Secret" {
            for _ in 0..rng.random_range(0..3) {
                change_somewhere(rng, &mut object, &WORDS);
            }
        }
        let yaml = if rng.random_bool(0.3) {
            object.to_string()
        } else {
            serde_saphyr::to_string(&object).unwrap_or_default()
        };
        text.extend_from_slice(b"---\n");
        text.extend_from_slice(yaml.as_bytes());
        text.push(b'\n');
    }
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..=text.len());
        let piece = PIECES[rng.random_range(0..PIECES.len())];
        text.splice(at..at, piece.bytes());
    }
    if rng.random_bool(0.4) {
        change_bytes(rng, &mut text);
    }
    text
}

fn check(bytes: &[u8]) {
    static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let lines = u64::try_from(text.lines().count().max(1)).unwrap();
    let input = Input {
        name: "f".to_owned(),
        text,
        named: true,
    };
    let report = validate(&[input], &SCHEMAS, &PoolDefaults::default());
    for finding in &report.findings {
        assert!((1..=lines + 1).contains(&finding.line), "{finding:?}");
        assert!(!finding.message.is_empty());
    }
    for fault in &report.unreadable {
        assert!(!fault.to_string().contains(SECRET), "{fault}");
    }
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(
        json["findings"].as_array().map(Vec::len),
        Some(report.findings.len())
    );
    assert!(report.exit_code(true) >= report.exit_code(false));
}

#[test]
fn manifests_are_judged_or_called_unreadable() {
    crate::run(manifest, check);
}
