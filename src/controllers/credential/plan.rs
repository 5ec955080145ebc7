//! Step 2: decides. Pure.

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::GitHubCredential;
use crate::controllers::driver::{Change, Plan, Verdict, change};
use crate::controllers::references::{Reference, Shown, conflict, dependants};
use crate::domain::credential::DesiredCredential;
use crate::domain::field::sentence;
use crate::domain::ownership::Claim;
use crate::garm::wire::{Credential, UpdateCredential};

use super::observe::Observed;
use super::{ENDPOINT, SECRET};

/// One call to GARM.
#[derive(Clone, Debug)]
pub enum Step {
    /// POST the credentials.
    Create(DesiredCredential),
    /// PUT what differs.
    Update {
        /// Number in GARM.
        id: i64,
        /// What differs.
        update: UpdateCredential,
        /// What was wanted, to remember it once it is sent.
        desired: DesiredCredential,
    },
    /// DELETE them.
    Delete {
        /// Number in GARM.
        id: i64,
    },
}

impl Step {
    /// Says what it would change in GARM. Tokens and keys, which GARM never shows, are not compared.
    pub fn changes(&self, observed: &Observed) -> Vec<Change> {
        match self {
            Self::Create(_) => vec![Change::Make],
            Self::Update { update, .. } => {
                let before = observed.actual.as_deref().map(UpdateCredential::of);
                change::update(&before, &update.clone().shown())
            }
            Self::Delete { .. } => vec![Change::Remove("the credentials".to_owned())],
        }
    }
}

/// Decides what brings GARM to what the object wants.
pub fn plan(object: &GitHubCredential, observed: &Observed) -> Plan<Step> {
    if meta::is_terminating(&object.metadata) {
        return deletion(observed);
    }
    if let Some(owner) = observed.claim.other() {
        return Plan::idle(conflict("GitHubCredential", owner));
    }
    if let Some(verdict) = awaited(observed.endpoint.as_ref(), ENDPOINT)
        .or_else(|| awaited(observed.secret.as_ref(), SECRET))
    {
        return Plan::idle(verdict);
    }
    match (&observed.desired, &observed.actual) {
        (None, _) => Plan::idle(Verdict::Ready),
        (Some(Err(errors)), _) => Plan::idle(Verdict::Invalid {
            message: sentence(errors),
        }),
        (Some(Ok(desired)), None) => {
            Plan::with(vec![Step::Create(desired.clone())], Verdict::Ready)
        }
        (Some(Ok(desired)), Some(actual)) => update(observed, desired, actual),
    }
}

fn awaited(reference: Option<&Reference<()>>, shown: Shown) -> Option<Verdict> {
    reference.and_then(|reference| reference.awaited(shown))
}

fn update(observed: &Observed, desired: &DesiredCredential, actual: &Credential) -> Plan<Step> {
    let immutable = desired.immutable(actual);
    if !immutable.is_empty() {
        return Plan::idle(Verdict::Invalid {
            message: sentence(&immutable),
        });
    }
    let memory = desired.memory(&observed.hasher, &observed.uid, actual);
    let update = desired.diff(actual, &observed.pushed, &memory);
    if update.is_empty() {
        return Plan::idle(Verdict::Ready);
    }
    let step = Step::Update {
        id: actual.id,
        update,
        desired: desired.clone(),
    };
    Plan::with(vec![step], Verdict::Ready)
}

fn deletion(observed: &Observed) -> Plan<Step> {
    if observed.claim == Claim::Owner && !observed.dependants.is_empty() {
        return Plan::idle(dependants(&observed.dependants));
    }
    match &observed.actual {
        Some(actual) if observed.claim == Claim::Owner => Plan::with(
            vec![Step::Delete { id: actual.id }],
            Verdict::Waiting {
                reason: reasons::DELETING,
                message: String::new(),
            },
        ),
        _ => Plan::release(),
    }
}

#[cfg(test)]
mod tests;
