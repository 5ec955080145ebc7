use serde_json::json;

use super::*;
use crate::controllers::driver::change::FieldChange;
use crate::domain::defaults::PoolDefaults;

const FILE: &str = r"
apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Pool
metadata: {name: small, namespace: ns}
spec: {githubScopeRef: {kind: Repository, name: tools}, flavor: small}
---
apiVersion: garm-operator.mercedes-benz.com/v1alpha1
kind: Repository
metadata: {name: tools}
spec: {owner: acme, credentialsName: pat, webhookSecretRef: {name: hook, key: secret}}
---
apiVersion: v1
kind: Secret
metadata: {name: hook}
stringData: {secret: hunter2, other: kept}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: none-of-ours}
";

fn objects(text: &str) -> anyhow::Result<Objects> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("all.yaml"), text)?;
    Objects::of_files(&[folder.path().to_owned()], &PoolDefaults::default())
}

#[test]
fn files_are_read_as_the_cluster_would_hold_them() {
    let all = objects(FILE).unwrap();
    let [pool] = all.of_kind("Pool").try_into().unwrap();
    assert_eq!(pool["spec"]["osType"], "linux", "defaults of admission");
    assert_eq!(pool["metadata"]["namespace"], "ns");
    let [repository] = all.of_kind("Repository").try_into().unwrap();
    assert_eq!(repository["spec"]["credentialsRef"]["name"], "pat");
    assert_eq!(repository["metadata"]["namespace"], "default");
    assert_ne!(pool["metadata"]["uid"], repository["metadata"]["uid"]);
    assert!(all.of_kind("ConfigMap").is_empty());
}

#[test]
fn no_secret_that_an_object_names_is_ever_used() {
    let all = objects(FILE).unwrap();
    let shelf: HashMap<String, serde_json::Value> = all.by_path().collect();
    let secret = &shelf["/api/v1/namespaces/default/secrets/hook"];
    let text = secret.to_string();
    let planted = json!({"secret": "aHVudGVyMg=="});
    assert!(
        !text.contains(planted["secret"].as_str().unwrap()),
        "{text}"
    );
    assert_eq!(secret["data"]["other"], "a2VwdA==");
    assert!(
        shelf.contains_key(
            "/apis/garm-operator.mercedes-benz.com/v1beta1/namespaces/ns/pools/small"
        )
    );
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let error = objects("a: [").unwrap_err();
    assert!(format!("{error:#}").contains("all.yaml"), "{error:#}");
    let nameless = FILE.replace("{name: small, namespace: ns}", "{generateName: x-}");
    let error = objects(&nameless).unwrap_err();
    assert!(
        format!("{error:#}").contains("all.yaml:2: this Pool has no name"),
        "{error:#}"
    );
}

#[test]
fn differences_are_lines_and_an_exit_code() {
    let mut found = Differences::default();
    assert_eq!((found.exit_code(), found.to_text().as_str()), (0, ""));
    found.notes.push("worth knowing".to_owned());
    assert_eq!(found.exit_code(), 0);
    found.lines.push(Line {
        object: "Pool ns/small".to_owned(),
        what: "would be changed".to_owned(),
        fields: vec![FieldChange {
            field: "maxRunners".to_owned(),
            from: "4".to_owned(),
            to: "6".to_owned(),
        }],
    });
    assert_eq!(found.exit_code(), 1);
    assert_eq!(
        found.to_text(),
        "Pool ns/small: would be changed\n  maxRunners: 4 -> 6\n"
    );
}

#[test]
fn a_pool_manager_that_does_not_run_is_no_difference() {
    let waiting = |reason| Verdict::Waiting {
        reason,
        message: "m".to_owned(),
    };
    assert_eq!(waits(&waiting(reasons::POOL_MANAGER_FAILURE)), None);
    assert_eq!(waits(&Verdict::Ready), None);
    let told = waits(&waiting(reasons::ADOPTION_REFUSED)).unwrap();
    assert_eq!(told, "waits (AdoptionRefused): m");
}
