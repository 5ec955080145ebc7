//! Rules about GARM's own settings.

use url::Url;

use crate::api::v1beta1::GarmServerConfigSpec;
use crate::domain::compare::same_url;
use crate::domain::field::{FieldError, sentence};
use crate::domain::judgement::Judgement;
use crate::garm::wire::{Controller, UpdateController};

/// Judges a spec that somebody writes.
pub fn judge(spec: &GarmServerConfigSpec) -> Judgement {
    Judgement {
        faults: faults(spec),
        doubts: doubts(spec),
        references: Vec::new(),
    }
}

/// Names what is wrong with a spec, all faults at once.
fn faults(spec: &GarmServerConfigSpec) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = [
        ("spec.metadataUrl", &spec.metadata_url),
        ("spec.callbackUrl", &spec.callback_url),
        ("spec.webhookUrl", &spec.webhook_url),
    ]
    .into_iter()
    .filter_map(|(path, url)| url_fault(path, url.as_deref().unwrap_or_default()))
    .collect();
    let path = "spec.minimumJobAgeBackoff";
    if let Some(age) = spec.minimum_job_age_backoff.filter(|age| *age < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, age, detail));
    }
    errors
}

/// Names what is allowed and probably not meant.
fn doubts(spec: &GarmServerConfigSpec) -> Vec<String> {
    let url = spec.webhook_url.as_deref().unwrap_or_default();
    let is_doubtful = url.trim_end_matches('/').ends_with("/webhook");
    is_doubtful
        .then(|| {
            "spec.webhookUrl: ends in /webhook, but GARM takes webhooks at /webhooks".to_owned()
        })
        .into_iter()
        .collect()
}

/// Lists the settings that the spec gives and that differ. Empty ones are not managed: GARM refuses to clear a URL.
///
/// # Errors
/// Names each value that GARM would refuse.
pub fn diff(spec: &GarmServerConfigSpec, actual: &Controller) -> Result<UpdateController, String> {
    let faults = faults(spec);
    if !faults.is_empty() {
        return Err(sentence(&faults));
    }
    let url = |desired: &Option<String>, actual: &str| {
        desired
            .clone()
            .filter(|url| !url.is_empty() && !same_url(url, actual))
    };
    Ok(UpdateController {
        metadata_url: url(&spec.metadata_url, &actual.metadata_url),
        callback_url: url(&spec.callback_url, &actual.callback_url),
        webhook_url: url(&spec.webhook_url, &actual.webhook_url),
        minimum_job_age_backoff: spec
            .minimum_job_age_backoff
            .filter(|age| *age != actual.minimum_job_age_backoff),
    })
}

/// Refuses a URL that GARM would not take. An empty one is none.
pub fn url_fault(path: &str, url: &str) -> Option<FieldError> {
    let is_absolute =
        Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    (!url.is_empty() && !is_absolute).then(|| {
        let detail = "must be an absolute http or https URL, such as https://github.example.com";
        FieldError::invalid(path, url, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_and_differing_settings_are_sent() {
        let actual = Controller {
            callback_url: "http://garm/api/v1/callbacks".to_owned(),
            metadata_url: "http://garm/api/v1/metadata".to_owned(),
            minimum_job_age_backoff: 30,
            ..Controller::default()
        };
        let spec = GarmServerConfigSpec {
            callback_url: Some("http://garm/api/v1/callbacks/".to_owned()),
            metadata_url: Some("http://other/api/v1/metadata".to_owned()),
            webhook_url: Some(String::new()),
            minimum_job_age_backoff: None,
        };
        let update = diff(&spec, &actual).unwrap();
        assert_eq!(
            serde_json::to_value(update).unwrap(),
            serde_json::json!({"metadata_url": "http://other/api/v1/metadata"})
        );
    }

    #[test]
    fn refuses_what_garm_would() {
        for bad in ["garm/metadata", "ftp://garm/x", "http://", "/path"] {
            let spec = GarmServerConfigSpec {
                metadata_url: Some(bad.to_owned()),
                ..GarmServerConfigSpec::default()
            };
            assert!(
                diff(&spec, &Controller::default())
                    .unwrap_err()
                    .starts_with("spec.metadataUrl"),
                "{bad}"
            );
        }
    }
}
