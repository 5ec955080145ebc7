//! Rules about GARM's own settings.

use url::Url;

use crate::api::v1beta1::GarmServerConfigSpec;
use crate::domain::compare::same_url;
use crate::domain::field::{FieldError, sentence};
use crate::garm::wire::{Controller, UpdateController};

/// Lists the settings that the spec gives and that differ. Empty ones are not managed: GARM refuses to clear a URL.
///
/// # Errors
/// Names each URL that GARM would refuse.
pub fn diff(spec: &GarmServerConfigSpec, actual: &Controller) -> Result<UpdateController, String> {
    let faults: Vec<FieldError> = [
        ("spec.metadataUrl", &spec.metadata_url),
        ("spec.callbackUrl", &spec.callback_url),
        ("spec.webhookUrl", &spec.webhook_url),
    ]
    .into_iter()
    .filter_map(|(path, url)| {
        url.as_deref()
            .filter(|url| !url.is_empty() && !is_absolute(url))
            .map(|url| (path, url))
    })
    .map(|(path, url)| {
        FieldError::new(
            path,
            format!("{url:?} is not an absolute http or https URL"),
        )
    })
    .collect();
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

/// Tells whether this is a URL that GARM takes.
pub fn is_absolute(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
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
