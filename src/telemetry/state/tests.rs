use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::api::v1beta1::{GarmServerConfig, GitHubCredential, Image, Organization, Pool};
use crate::telemetry::metrics::{Format, Metrics};

fn object<K: DeserializeOwned>(kind: &str, metadata: &Value, spec: &Value, status: &Value) -> K {
    let mut whole = json!({
        "apiVersion": meta::API_VERSION,
        "kind": kind,
        "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    });
    for (name, value) in metadata.as_object().into_iter().flatten() {
        whole["metadata"][name] = value.clone();
    }
    if !status.is_null() {
        whole["status"] = status.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn scraped<K: Shown + Send + Sync + 'static>(object: K, format: Format) -> String {
    let (metrics, objects) = (Metrics::new(), vec![Arc::new(object)]);
    metrics.on_scrape(move |encoder| write(encoder, &objects));
    metrics.encode(format).unwrap()
}

/// The lines about our objects, without what all series share.
fn lines<K: Shown + Send + Sync + 'static>(object: K) -> Vec<String> {
    let shared = format!(
        "crd_type=\"{}\",customresource_group=\"garm-operator.mercedes-benz.com\",customresource_kind=\"{}\",customresource_version=\"v1beta1\",name=\"a\",namespace=\"ns\"",
        K::TYPE,
        K::kind(&()),
    );
    let text = scraped(object, Format::Text);
    let ours = text.lines().filter(|line| line.contains(&shared));
    ours.map(|line| line.replace(&shared, "…")).collect()
}

fn pool() -> Pool {
    object(
        "Pool",
        &json!({"annotations": {(meta::PAUSED): "by \"me\"\n"}, "deletionTimestamp": "2026-01-01T00:00:10Z"}),
        &json!({
            "githubScopeRef": {"kind": "Repository", "name": "tools"},
            "providerName": "fake", "imageName": "runner", "flavor": "small", "osType": "linux", "osArch": "amd64",
            "tags": ["small", "linux"], "enabled": true, "maxRunners": 3, "minIdleRunners": 1, "runnerBootstrapTimeout": 20,
            "extraSpecs": "{\"token\": \"planted\"}",
        }),
        &json!({
            "id": "1-2", "longRunningIdleRunners": 4, "runners": {"total": 3, "idle": 2, "failed": 1},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "ImageReference", "status": "Unknown", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        }),
    )
}

#[test]
fn a_pool_shows_what_kube_state_metrics_would() {
    assert_eq!(
        lines(pool()),
        [
            "garm_operator_pool_created{…} 1767225600",
            "garm_operator_pool_info{…,scopeKind=\"Repository\",scopeName=\"tools\",imageName=\"runner\",osArch=\"amd64\",osType=\"linux\",providerName=\"fake\",runnerBootstrapTimeout=\"20\",tags=\"[small linux]\",id=\"1-2\"} 1",
            "garm_operator_pool_enabled{…} 1",
            "garm_operator_pool_min_idle_runners{…} 1",
            "garm_operator_pool_max_runners{…} 3",
            "garm_operator_status_long_running_idle_runners{…} 4",
            "garm_operator_pool_annotation_paused_info{…,paused_value=\"by \\\"me\\\"\\n\"} 1",
            "garm_operator_pool_status_conditions{…,type=\"Ready\"} 1",
            "garm_operator_pool_status_conditions{…,type=\"ImageReference\"} 0",
            "garm_operator_pool_deletion_timestamp{…} 1767225610",
            "garm_operator_pool_runners{…,state=\"total\"} 3",
            "garm_operator_pool_runners{…,state=\"pending\"} 0",
            "garm_operator_pool_runners{…,state=\"idle\"} 2",
            "garm_operator_pool_runners{…,state=\"active\"} 0",
            "garm_operator_pool_runners{…,state=\"failed\"} 1",
            "garm_operator_pool_runners{…,state=\"deleting\"} 0",
            "garm_operator_pool_runners{…,state=\"other\"} 0",
        ]
    );
}

#[test]
fn an_info_metric_is_a_gauge_in_the_older_format() {
    let text = scraped(pool(), Format::Text);
    assert!(
        text.contains("# TYPE garm_operator_pool_info gauge"),
        "{text}"
    );
    let open = scraped(pool(), Format::OpenMetrics);
    assert!(open.contains("# TYPE garm_operator_pool info"), "{open}");
    assert!(open.contains("garm_operator_pool_info{crd_type"), "{open}");
}

#[test]
fn what_an_object_does_not_have_is_not_shown() {
    let image: Image = object("Image", &Value::Null, &json!({}), &Value::Null);
    assert_eq!(lines(image), ["garm_operator_image_created{…} 1767225600"]);
    let spec =
        json!({"credentialsRef": {"name": "pat"}, "webhookSecretRef": {"name": "s", "key": "k"}});
    let org: Organization = object("Organization", &Value::Null, &spec, &Value::Null);
    assert_eq!(
        lines(org),
        [
            "garm_operator_org_created{…} 1767225600",
            "garm_operator_org_info{…,credentialsRefName=\"pat\",webhookSecretRefKey=\"k\",webhookSecretRefName=\"s\"} 1",
        ]
    );
}

#[test]
fn the_server_s_settings_show_their_state_too() {
    let status = json!({"version": "v0.2.1", "minimumJobAgeBackoff": 30, "conditions": [
        {"type": "Ready", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]});
    let config: GarmServerConfig = object(
        "GarmServerConfig",
        &json!({"annotations": {(meta::PAUSED): "true"}}),
        &json!({"metadataUrl": "http://m"}),
        &status,
    );
    assert_eq!(
        lines(config),
        [
            "garm_operator_garmserverconfig_created{…} 1767225600",
            "garm_operator_garmserverconfig_info{…,metadataUrl=\"http://m\",minimumJobAgeBackoff=\"30\",version=\"v0.2.1\"} 1",
            "garm_operator_garmserverconfig_annotation_paused_info{…,paused_value=\"true\"} 1",
            "garm_operator_garmserverconfig_status_conditions{…,type=\"Ready\"} 1",
        ]
    );
}

#[test]
fn a_credential_shows_where_its_secret_is_and_not_what_is_in_it() {
    let credential: GitHubCredential = object(
        "GitHubCredential",
        &Value::Null,
        &json!({"authType": "pat", "endpointRef": {"name": "ghes"}, "secretRef": {"name": "token", "key": "k"}}),
        &json!({"id": 3, "baseUrl": "http://b", "conditions": []}),
    );
    assert_eq!(
        lines(credential)[1],
        "garm_operator_githubcredential_info{…,authType=\"pat\",secretRefKey=\"k\",secretRefName=\"token\",endpointRefName=\"ghes\",baseUrl=\"http://b\",id=\"3\"} 1"
    );
}
