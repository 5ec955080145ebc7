//! Step 2: decides. Pure.

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::GitHubEndpoint;
use crate::controllers::driver::{Change, Plan, Verdict, change};
use crate::controllers::references::{conflict, dependants};
use crate::domain::endpoint::{BUILT_IN, DesiredEndpoint};
use crate::domain::field::sentence;
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

impl Step {
    /// Says what it would change in GARM.
    pub fn changes(&self, observed: &Observed) -> Vec<Change> {
        match (self, &observed.actual) {
            (Self::Create(_), _) => vec![Change::Make],
            (Self::Update(update), Some(actual)) => {
                change::update(&UpdateEndpoint::of(actual), update)
            }
            (Self::Update(update), None) => change::update(&(), update),
            (Self::Delete, _) => vec![Change::Remove("the endpoint".to_owned())],
        }
    }
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
    let faults = desired.faults(observed.actual.is_none());
    if !faults.is_empty() {
        return Plan::idle(Verdict::Invalid {
            message: sentence(&faults),
        });
    }
    let steps = match &observed.actual {
        None => vec![Step::Create(desired.clone())],
        Some(actual) => {
            let update = desired.diff(actual);
            let differs = !update.is_empty();
            differs
                .then_some(Step::Update(update))
                .into_iter()
                .collect()
        }
    };
    Plan::with(steps, Verdict::Ready)
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

#[cfg(test)]
mod tests;
