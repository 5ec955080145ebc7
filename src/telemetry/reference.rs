//! All metric families by name, for the documentation: what a scrape shows of a process in which everything has happened once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::metrics::{Format, GarmReading, Metrics};
use super::state::{self, Shown};
use crate::api::meta;
use crate::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository,
};

/// One metric family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Name, as a scrape in the text format shows it.
    pub name: String,
    /// `counter`, `gauge`, `histogram`.
    pub kind: String,
    /// What it tells.
    pub help: String,
    /// Labels, sorted; of a histogram without `le`.
    pub labels: Vec<String>,
}

/// Describes what the process tells of itself, by name. The usual `process_*` are not among it: which of them there are is a matter of the
/// system.
///
/// # Errors
/// Fails when the metrics cannot be written.
pub fn own() -> Result<Vec<Described>, fmt::Error> {
    let metrics = Metrics::new();
    touch(&metrics);
    let mut all = read(&metrics.encode(Format::Text)?);
    all.retain(|family| !family.name.starts_with("process_"));
    Ok(all)
}

/// Describes the state of objects (`operator.stateMetrics`), by name.
///
/// # Errors
/// Fails when the metrics cannot be written.
pub fn state() -> Result<Vec<Described>, fmt::Error> {
    let metrics = Metrics::new();
    show::<Enterprise>(&metrics, "id");
    show::<GarmServerConfig>(&metrics, "id");
    show::<GitHubCredential>(&metrics, 1);
    show::<GitHubEndpoint>(&metrics, "id");
    show::<Image>(&metrics, "id");
    show::<Organization>(&metrics, "id");
    show::<Pool>(&metrics, "id");
    show::<Repository>(&metrics, "id");
    let mut all = read(&metrics.encode(Format::Text)?);
    let own = read(&Metrics::new().encode(Format::Text)?);
    all.retain(|family| own.iter().all(|other| other.name != family.name));
    Ok(all)
}

/// Has everything happen once, so that each family has a sample.
pub(super) fn touch(metrics: &Metrics) {
    metrics.garm_called("pool.Get", true);
    metrics.garm_answered("GET", "/pools/{id}", None, Duration::ZERO);
    metrics.garm_resync(true);
    metrics.garm_gauges().set(Some(&GarmReading {
        is_ready: true,
        event_age: Some(Duration::ZERO),
        under_way: 0,
        mirror: vec![("pools", 3, 1)],
    }));
    metrics.leads("lease", false);
    metrics.kube_request(Some(200), "GET", &Arc::from("host:443"));
    metrics.certificate_expiry(1_900_000_000);
    metrics.ca_expiry(1_900_000_000);
    metrics.controller("pool", 10);
    metrics.queue("pool");
    metrics.hub("Pool");
    metrics.webhook("/convert");
}

/// Shows an object of a kind that has every field which any metric tells of.
fn show<K>(metrics: &Metrics, id: impl Into<Value>)
where
    K: Shown + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let time = "2026-01-01T00:00:00Z";
    let word = "x";
    let url = "http://x";
    let reference = json!({"kind": word, "name": word, "key": word});
    let condition = json!({"type": "Ready", "status": "True", "reason": word, "message": "", "lastTransitionTime": time});
    let object = json!({
        "metadata": {
            "name": word, "namespace": word, "creationTimestamp": time, "deletionTimestamp": time,
            "annotations": {(meta::PAUSED): word},
        },
        "spec": {
            "owner": word, "credentialsRef": reference, "webhookSecretRef": reference, "secretRef": reference, "endpointRef": reference,
            "authType": word, "githubScopeRef": reference, "githubRunnerGroup": word, "imageName": word, "osArch": word, "osType": word,
            "providerName": word, "runnerPrefix": word, "tags": [word], "priority": 1, "tag": word,
            "apiBaseUrl": url, "baseUrl": url, "uploadBaseUrl": url, "callbackUrl": url, "metadataUrl": url, "webhookUrl": url,
        },
        "status": {
            "id": id.into(), "conditions": [condition], "longRunningIdleRunners": 0, "selector": "", "runners": {},
            "apiBaseUrl": url, "baseUrl": url, "uploadBaseUrl": url,
            "controllerId": word, "minimumJobAgeBackoff": 1, "version": word,
        },
    });
    // It decodes; the test below would miss the kind's metrics.
    let Ok(object) = serde_json::from_value::<K>(object) else {
        return;
    };
    let objects = vec![Arc::new(object)];
    metrics.on_scrape(move |encoder| state::write(encoder, &objects));
}

/// Reads what a scrape shows.
fn read(text: &str) -> Vec<Described> {
    let mut families: BTreeMap<&str, Described> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => {
                let family = family(&mut families, name);
                format!("{}.", help.trim_end_matches('.')).clone_into(&mut family.help);
            }
            ["#", "TYPE", name, kind] => (*kind).clone_into(&mut family(&mut families, name).kind),
            ["#", ..] => {}
            _ => labels(&mut families, line),
        }
    }
    let mut all: Vec<Described> = families.into_values().collect();
    for family in &mut all {
        family.labels.sort();
    }
    all
}

fn family<'f, 't>(
    families: &'f mut BTreeMap<&'t str, Described>,
    name: &'t str,
) -> &'f mut Described {
    families.entry(name).or_insert_with(|| Described {
        name: name.to_owned(),
        kind: String::new(),
        help: String::new(),
        labels: Vec::new(),
    })
}

/// Notes the labels of a sample. Values hold no quotation marks: they are those of [`touch`] and [`show`].
fn labels(families: &mut BTreeMap<&str, Described>, sample: &str) {
    let Some((name, rest)) = sample.split_once('{') else {
        return;
    };
    let base = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|part| name.strip_suffix(part))
        .filter(|base| families.contains_key(base));
    let Some(family) = families.get_mut(base.unwrap_or(name)) else {
        return;
    };
    for pair in rest.split("\",") {
        let label = pair.split_once("=\"").map(|(label, _)| label.to_owned());
        let is_new = |label: &String| label != "le" && !family.labels.contains(label);
        let new = label.filter(is_new);
        family.labels.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_described_with_its_labels() {
        let all = own().unwrap();
        let find = |name: &str| all.iter().find(|family| family.name == name).unwrap();
        let requests = find("garm_operator_garm_requests_total");
        assert_eq!(requests.labels, ["controller", "method", "route", "status"]);
        assert_eq!(requests.kind, "counter");
        let durations = find("garm_operator_garm_request_duration_seconds");
        assert_eq!(
            (durations.kind.as_str(), durations.labels.join(" ")),
            ("histogram", "controller method route".to_owned())
        );
        assert!(
            all.iter()
                .all(|family| family.help.len() > 10 && !family.kind.is_empty())
        );
        assert!(all.iter().all(|family| !family.help.ends_with("..")));
    }

    #[test]
    fn the_state_of_each_kind_is_described() {
        let all = state().unwrap();
        for stem in [
            "enterprise",
            "garmserverconfig",
            "githubcredential",
            "githubendpoint",
            "image",
            "org",
            "pool",
            "repo",
        ] {
            let name = format!("garm_operator_{stem}_info");
            let family = all.iter().find(|family| family.name == name);
            assert!(family.unwrap().labels.len() > 6, "{name}");
        }
        let runners = all
            .iter()
            .find(|family| family.name == "garm_operator_pool_runners")
            .unwrap();
        assert!(runners.labels.contains(&"state".to_owned()));
        assert!(
            all.iter()
                .all(|family| family.name.starts_with("garm_operator_"))
        );
    }
}
