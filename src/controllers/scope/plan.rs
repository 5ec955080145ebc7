//! Step 2: decides. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::condition::reasons;
use crate::api::meta;
use crate::controllers::driver::{Change, Plan, Verdict, change};
use crate::controllers::references::{conflict, dependants};
use crate::domain::entity::{DesiredEntity, manager_failure};
use crate::domain::field::sentence;
use crate::domain::ownership::Claim;
use crate::garm::wire::{Entity, UpdateEntity};

use super::observe::Observed;
use super::webhook::{Action, Webhook};
use super::{CREDENTIALS, SECRET};

/// One call to GARM.
#[derive(Clone, Debug)]
pub enum Step {
    /// POST the entity.
    Create(DesiredEntity),
    /// Take an entity that is in GARM already.
    Adopt,
    /// PUT what differs.
    Update {
        /// Id in GARM.
        id: String,
        /// What differs.
        update: UpdateEntity,
        /// What was wanted, to remember it once it is sent.
        desired: DesiredEntity,
    },
    /// Install or remove the webhook on GitHub.
    Webhook {
        /// Id in GARM.
        id: String,
        /// Which of the two.
        action: Action,
    },
    /// DELETE it.
    Delete {
        /// Id in GARM.
        id: String,
    },
}

impl Step {
    /// Says what it would change in GARM. Webhook secrets, which GARM never shows, are not compared, and GitHub is not asked for webhooks.
    pub fn changes(&self, observed: &Observed) -> Vec<Change> {
        match self {
            Self::Create(_) => vec![Change::Make],
            Self::Adopt => vec![Change::Take],
            Self::Update { update, .. } => {
                let before = observed.actual.as_deref().map(UpdateEntity::of);
                change::update(&before, &update.clone().shown())
            }
            Self::Webhook { .. } => Vec::new(),
            Self::Delete { .. } => vec![Change::Remove("the entity".to_owned())],
        }
    }
}

/// Decides what brings GARM to what the object wants. `kind` is the word for the kind in messages.
pub fn plan(kind: &str, metadata: &ObjectMeta, observed: &Observed) -> Plan<Step> {
    if meta::is_terminating(metadata) {
        return deletion(observed);
    }
    if let Some(owner) = observed.claim.other() {
        return Plan::idle(conflict(kind, owner));
    }
    let missing = observed
        .credentials
        .as_ref()
        .and_then(|r| r.awaited(CREDENTIALS));
    if let Some(verdict) =
        missing.or_else(|| observed.secret.as_ref().and_then(|r| r.awaited(SECRET)))
    {
        return Plan::idle(verdict);
    }
    let Some(desired) = &observed.desired else {
        return Plan::idle(Verdict::Ready);
    };
    let faults = desired.faults(observed.actual.as_deref());
    if !faults.is_empty() {
        return Plan::idle(Verdict::Invalid {
            message: sentence(&faults),
        });
    }
    match &observed.actual {
        None => Plan::with(vec![Step::Create(desired.clone())], Verdict::Ready),
        Some(actual) => update(observed, desired, actual),
    }
}

fn update(observed: &Observed, desired: &DesiredEntity, actual: &Entity) -> Plan<Step> {
    let memory = desired.memory(&observed.hasher, &observed.uid, &actual.id);
    let update = desired.diff(actual, &observed.pushed, &memory);
    let mut steps = Vec::new();
    if observed.is_new_to_us {
        steps.push(Step::Adopt);
    }
    if !update.is_empty() {
        steps.push(Step::Update {
            id: actual.id.clone(),
            update,
            desired: desired.clone(),
        });
    }
    let webhook = observed.webhook.as_ref();
    if let Some(action) = webhook.and_then(Webhook::action) {
        let id = actual.id.clone();
        steps.push(Step::Webhook { id, action });
    }
    let verdict = match manager_failure(actual) {
        None => Verdict::Ready,
        Some(_) => Verdict::Waiting {
            reason: reasons::POOL_MANAGER_FAILURE,
            message: "GARM's pool manager does not run, see the condition PoolManager".to_owned(),
        },
    };
    let mut plan = Plan::with(steps, verdict);
    plan.wake = webhook.and_then(|webhook| webhook.retry);
    plan
}

/// Our webhook goes first, since GARM finds it by the entity. One try is enough: deletion has to end.
fn deletion(observed: &Observed) -> Plan<Step> {
    match &observed.actual {
        Some(actual) if observed.claim == Claim::Owner => {
            if !observed.dependants.is_empty() {
                return Plan::idle(dependants(&observed.dependants));
            }
            let verdict = Verdict::Waiting {
                reason: reasons::DELETING,
                message: String::new(),
            };
            let id = actual.id.clone();
            let ours = observed
                .webhook
                .as_ref()
                .is_some_and(|w| w.ours.is_some() && w.failure.is_none());
            let webhook = ours.then(|| Step::Webhook {
                id: id.clone(),
                action: Action::Remove,
            });
            Plan::with(
                webhook.into_iter().chain([Step::Delete { id }]).collect(),
                verdict,
            )
        }
        _ => Plan::release(),
    }
}

#[cfg(test)]
mod tests;
