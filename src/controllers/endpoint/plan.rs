//! Step 2: decides. Pure.

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::GitHubEndpoint;
use crate::controllers::driver::{Plan, Verdict};
use crate::controllers::references::{conflict, dependants};
use crate::domain::endpoint::{BUILT_IN, DesiredEndpoint};
use crate::domain::field::{FieldError, sentence};
use crate::domain::ownership::Claim;
use crate::garm::wire::UpdateEndpoint;

use super::CA_SECRET;
use super::observe::Observed;

/// One call to GARM.
#[derive(Clone, Debug)]
pub enum Step {
    /// POST the endpoint.
    Create(DesiredEndpoint),
    /// PUT the fields that differ.
    Update(UpdateEndpoint),
    /// DELETE it.
    Delete,
}

/// Decides what brings GARM to what the object wants.
pub fn plan(object: &GitHubEndpoint, observed: &Observed) -> Plan<Step> {
    if meta::is_terminating(&object.metadata) {
        return deletion(observed);
    }
    if let Some(owner) = observed.claim.other() {
        return Plan::idle(conflict("GitHubEndpoint", owner));
    }
    if let Some(verdict) = observed
        .ca_bundle
        .as_ref()
        .and_then(|ca| ca.awaited(CA_SECRET))
    {
        return Plan::idle(verdict);
    }
    let Some(desired) = &observed.desired else {
        return Plan::idle(Verdict::Ready);
    };
    match &observed.actual {
        None => match missing_urls(desired) {
            Some(message) => Plan::idle(Verdict::Invalid { message }),
            None => Plan::with(vec![Step::Create(desired.clone())], Verdict::Ready),
        },
        Some(actual) => {
            let update = desired.diff(actual);
            let steps = if update.is_empty() {
                Vec::new()
            } else {
                vec![Step::Update(update)]
            };
            Plan::with(steps, Verdict::Ready)
        }
    }
}

fn deletion(observed: &Observed) -> Plan<Step> {
    if observed.claim != Claim::Owner
        || observed.name.eq_ignore_ascii_case(BUILT_IN)
        || observed.actual.is_none()
    {
        return Plan::release();
    }
    if !observed.dependants.is_empty() {
        return Plan::idle(dependants(&observed.dependants));
    }
    Plan::with(
        vec![Step::Delete],
        Verdict::Waiting {
            reason: reasons::DELETING,
            message: String::new(),
        },
    )
}

/// GARM needs all three URLs to make an endpoint.
fn missing_urls(desired: &DesiredEndpoint) -> Option<String> {
    let faults: Vec<FieldError> = [
        ("spec.apiBaseUrl", &desired.api_base_url),
        ("spec.uploadBaseUrl", &desired.upload_base_url),
        ("spec.baseUrl", &desired.base_url),
    ]
    .into_iter()
    .filter(|(_, url)| url.is_empty())
    .map(|(path, _)| {
        FieldError::new(
            path,
            "an absolute URL is needed, such as https://github.example.com",
        )
    })
    .collect();
    (!faults.is_empty()).then(|| sentence(&faults))
}

#[cfg(test)]
mod tests;
