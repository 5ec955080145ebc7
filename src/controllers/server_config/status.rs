//! Step 4: renders the status. Pure.

use crate::api::v1beta1::GarmServerConfigStatus;

use super::observe::Observed;

/// Renders the status but for the conditions: what GARM says of itself.
pub fn status(observed: &Observed) -> GarmServerConfigStatus {
    let actual = &observed.actual;
    let text = |value: &String| (!value.is_empty()).then(|| value.clone());
    GarmServerConfigStatus {
        controller_id: text(&actual.controller_id),
        hostname: text(&actual.hostname),
        metadata_url: text(&actual.metadata_url),
        callback_url: text(&actual.callback_url),
        webhook_url: text(&actual.webhook_url),
        controller_webhook_url: text(&actual.controller_webhook_url),
        minimum_job_age_backoff: Some(actual.minimum_job_age_backoff),
        version: text(&actual.version),
        conditions: Vec::new(),
    }
}
