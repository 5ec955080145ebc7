use kube::{CustomResourceExt, Resource};
use serde_json::json;

use super::*;
use crate::api::meta::{GROUP, VERSION};

fn names<K: Resource<DynamicType = ()> + CustomResourceExt>() -> (String, String) {
    (K::group(&()).into_owned(), K::version(&()).into_owned())
}

#[test]
fn every_kind_is_in_our_group_and_version() {
    let all = [
        names::<Enterprise>(),
        names::<GarmServerConfig>(),
        names::<GitHubCredential>(),
        names::<GitHubEndpoint>(),
        names::<Image>(),
        names::<Organization>(),
        names::<Pool>(),
        names::<Repository>(),
        names::<Runner>(),
    ];
    assert_eq!(
        all,
        std::array::from_fn(|_| (GROUP.to_owned(), VERSION.to_owned()))
    );
}

#[test]
fn decodes_an_object_without_spec_and_status() {
    let bare = json!({"apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "Pool", "metadata": {"name": "p"}});
    let pool: Pool = serde_json::from_value(bare).unwrap();
    assert_eq!(pool.metadata.name.as_deref(), Some("p"));
    assert_eq!((pool.spec, pool.status), (PoolSpec::default(), None));
}

#[test]
fn decodes_what_a_wide_schema_let_in() {
    let odd = json!({
        "metadata": {},
        "spec": {"maxRunners": -1, "minIdleRunners": i64::MAX, "osType": "solaris", "tags": [], "unheardOf": {"a": 1}},
        "status": {"id": "x", "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    let pool: Pool = serde_json::from_value(odd).unwrap();
    assert_eq!(
        (pool.spec.max_runners, pool.spec.min_idle_runners),
        (-1, i64::MAX)
    );
    assert_eq!(pool.status.unwrap().conditions.len(), 1);
}

#[test]
fn a_first_status_carries_every_required_field_even_when_empty() {
    assert_eq!(
        serde_json::to_value(EntityStatus::default()).unwrap(),
        json!({"id": ""})
    );
    assert_eq!(
        serde_json::to_value(PoolStatus::default()).unwrap(),
        json!({"id": "", "longRunningIdleRunners": 0, "selector": ""})
    );
    assert_eq!(
        serde_json::to_value(GitHubCredentialStatus::default()).unwrap(),
        json!({"id": 0, "apiBaseUrl": "", "uploadBaseUrl": "", "baseUrl": ""})
    );
    assert_eq!(
        serde_json::to_value(RunnerStatus::default()).unwrap(),
        json!({"agentId": 0, "githubRunnerGroup": ""})
    );
}

#[test]
fn never_writes_null() {
    let all = [
        serde_json::to_string(&Pool::default()),
        serde_json::to_string(&Repository::default()),
        serde_json::to_string(&Organization::default()),
        serde_json::to_string(&Enterprise::default()),
        serde_json::to_string(&Image::default()),
        serde_json::to_string(&GitHubCredential::default()),
        serde_json::to_string(&GitHubEndpoint::default()),
        serde_json::to_string(&GarmServerConfig::default()),
        serde_json::to_string(&Runner::default()),
    ];
    for text in all {
        let text = text.unwrap();
        assert!(!text.contains("null"), "{text}");
    }
}
