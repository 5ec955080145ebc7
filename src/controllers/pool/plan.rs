//! Step 2: decides. Pure: creation by marker, the ordinary update, scale-down, and the deletion state machine.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::Pool;
use crate::controllers::driver::{Change, Plan, Verdict, change};
use crate::controllers::references::Reference;
use crate::domain::field::{FieldError, sentence};
use crate::domain::pool::DesiredPool;
use crate::domain::pool::adoption::Candidate;
use crate::domain::runner::{ScaleDown, Standing, expired, is_busy, is_deletable, scale_down};
use crate::garm::wire::{self, EntityKind, UpdatePool};

use super::IMAGE;
use super::observe::{Deletion, Observed, invalid};

/// One call to GARM.
#[derive(Clone, Debug)]
pub enum Step {
    /// POST the pool, disabled and marked.
    Create {
        /// Kind of the scope.
        kind: EntityKind,
        /// Id of the scope.
        scope: String,
        /// The pool.
        desired: Box<DesiredPool>,
    },
    /// Take a pool that bears our marker.
    Adopt {
        /// Its id.
        id: String,
    },
    /// Take the pool that the object asks for by its annotation.
    TakeOver {
        /// The pool, as GARM shows it.
        pool: Box<wire::Pool>,
    },
    /// DELETE a surplus pool that bears our marker.
    RemoveSurplus {
        /// Its id.
        id: String,
    },
    /// PUT the fields that differ.
    Update {
        /// Id of the pool.
        id: String,
        /// What differs.
        update: Box<UpdatePool>,
        /// What was wanted, to remember it once it is sent.
        desired: Box<DesiredPool>,
    },
    /// DELETE an idle runner above the minimum, if it still is one.
    ScaleDown {
        /// Name of the instance.
        name: String,
    },
    /// DELETE a runner that the provider could not make.
    RemoveFailed {
        /// Name of the instance.
        name: String,
    },
    /// PUT `enabled: false, min_idle_runners: 0`.
    Quiet {
        /// Id of the pool.
        id: String,
    },
    /// DELETE a runner of a pool that goes away.
    RemoveRunner {
        /// Name of the instance.
        name: String,
        /// Whether with `forceRemove`.
        force: bool,
    },
    /// DELETE the pool.
    Delete {
        /// Id of the pool.
        id: String,
    },
}

impl Step {
    /// Says what it would change in GARM. Which idle runners go is a matter of the moment, and not told.
    pub fn changes(&self, observed: &Observed) -> Vec<Change> {
        let remove = |what: String| vec![Change::Remove(what)];
        match self {
            Self::Create { .. } => vec![Change::Make],
            Self::Adopt { .. } => vec![Change::Take],
            Self::TakeOver { pool } => {
                let desired = observed
                    .desired
                    .as_ref()
                    .and_then(|desired| desired.as_ref().ok());
                let after = desired.map(|desired| desired.diff(pool));
                let mut changes = vec![Change::Take];
                changes.extend(change::update(&UpdatePool::of(pool), &after));
                changes
            }
            Self::Update { update, .. } => {
                let before = observed.actual.as_deref().map(UpdatePool::of);
                change::update(&before, update)
            }
            Self::ScaleDown { .. } | Self::RemoveFailed { .. } => Vec::new(),
            Self::RemoveSurplus { id } => remove(format!("the pool {id}, left by a creation")),
            Self::RemoveRunner { name, .. } => remove(format!("the runner {name}")),
            Self::Quiet { id } | Self::Delete { id } => remove(format!("the pool {id}")),
        }
    }
}

/// Decides what brings GARM to what the object wants.
pub fn plan(object: &Pool, observed: &Observed, now: Timestamp) -> Plan<Step> {
    let is_terminating = meta::is_terminating(&object.metadata);
    let mut plan = if is_terminating {
        deletion(observed)
    } else {
        life(observed, now)
    };
    if let Some(trouble) = &observed.trouble
        && !plan.release
    {
        plan.verdict = trouble.clone();
    }
    if !is_terminating {
        plan.wake = [plan.wake, observed.counts_due].into_iter().flatten().min();
    }
    plan
}

fn life(observed: &Observed, now: Timestamp) -> Plan<Step> {
    if let Some(verdict) = invalid(observed) {
        return Plan::idle(verdict);
    }
    let shown = observed.scope_shown();
    let missing = observed.scope.as_ref().and_then(|r| r.awaited(shown));
    if let Some(verdict) =
        missing.or_else(|| observed.image.as_ref().and_then(|r| r.awaited(IMAGE)))
    {
        return Plan::idle(verdict);
    }
    let (Some(Reference::Found(scope)), Some(Ok(desired))) = (&observed.scope, &observed.desired)
    else {
        return Plan::idle(Verdict::Ready);
    };
    if let Some(actual) = observed.actual.as_deref() {
        return update(observed, desired, actual, (scope.kind, &scope.id), now);
    }
    if scope.is_terminating {
        return Plan::idle(Verdict::Waiting {
            reason: reasons::SCOPE_REF_NOT_READY,
            message: "the scope is being deleted".to_owned(),
        });
    }
    if observed.marked.is_empty()
        && let Some(candidate) = &observed.adoption
    {
        return adoption(candidate, desired, (scope.kind, &scope.id));
    }
    if observed.marked.is_empty()
        && let Some((message, rest)) = &observed.refused
    {
        return Plan::idle(Verdict::Pace {
            reason: reasons::GARM_API_ERROR,
            message: message.clone(),
            after: *rest,
        });
    }
    Plan::with(
        creation(observed, desired, (scope.kind, &scope.id)),
        Verdict::Ready,
    )
}

/// Takes the pool that the object asks for, or says why not. None is ever made in its place.
fn adoption(candidate: &Candidate, desired: &DesiredPool, scope: (EntityKind, &str)) -> Plan<Step> {
    let refusal = candidate.refusal(scope, &desired.provider_name);
    match (refusal, &candidate.pool) {
        (None, Some(pool)) => {
            Plan::with(vec![Step::TakeOver { pool: pool.clone() }], Verdict::Ready)
        }
        (refusal, _) => Plan::idle(Verdict::Waiting {
            reason: reasons::ADOPTION_REFUSED,
            message: refusal.unwrap_or_default(),
        }),
    }
}

fn remove_surplus(observed: &Observed) -> impl Iterator<Item = Step> {
    let ids = observed.surplus.iter().cloned();
    ids.map(|id| Step::RemoveSurplus { id })
}

/// One pool with our marker: it is ours. Several: the lowest id stays, the others go first, so that a crash in between loses no trace of
/// them. None: a new one.
fn creation(
    observed: &Observed,
    desired: &DesiredPool,
    (kind, scope): (EntityKind, &str),
) -> Vec<Step> {
    let Some((ours, surplus)) = observed.marked.split_first() else {
        return vec![Step::Create {
            kind,
            scope: scope.to_owned(),
            desired: Box::new(desired.clone()),
        }];
    };
    let remove = surplus
        .iter()
        .filter(|pool| !pool.enabled)
        .map(|pool| Step::RemoveSurplus {
            id: pool.id.clone(),
        });
    remove
        .chain([Step::Adopt {
            id: ours.id.clone(),
        }])
        .collect()
}

fn update(
    observed: &Observed,
    desired: &DesiredPool,
    actual: &wire::Pool,
    scope: (EntityKind, &str),
    now: Timestamp,
) -> Plan<Step> {
    let fixed = immutable(desired, actual, scope);
    if !fixed.is_empty() {
        return Plan::idle(Verdict::Invalid {
            message: sentence(&fixed),
        });
    }
    let mut steps: Vec<Step> = remove_surplus(observed).collect();
    let update = desired.diff(actual);
    if !update.is_empty() {
        steps.push(Step::Update {
            id: actual.id.clone(),
            update: Box::new(update),
            desired: Box::new(desired.clone()),
        });
    }
    let scaling = scaling(observed, desired.min_idle_runners, now);
    steps.extend(
        scaling
            .remove
            .into_iter()
            .map(|name| Step::ScaleDown { name }),
    );
    let mut plan = Plan::with(steps, Verdict::Ready);
    let (lost, next_lost) = lost(observed, now);
    plan.steps
        .extend(lost.into_iter().map(|name| Step::RemoveFailed { name }));
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
    plan.wake = [scaling.next, next_lost]
        .into_iter()
        .flatten()
        .min()
        .map(until);
    plan
}

/// Failed runners whose time is up: they use up idle slots, and GARM 0.2 never tries them again.
fn lost(observed: &Observed, now: Timestamp) -> (Vec<String>, Option<Timestamp>) {
    let Some(ttl) = observed.failed_ttl else {
        return (Vec::new(), None);
    };
    let waiting = observed
        .failed
        .iter()
        .filter(|failure| !observed.asked.contains(&failure.instance.name));
    let standing = waiting.map(|failure| Standing {
        instance: &failure.instance,
        since: failure.since,
    });
    expired(&standing.collect::<Vec<_>>(), ttl, now)
}

fn standing<'a>(runners: &'a [(Arc<wire::Instance>, Timestamp)]) -> Vec<Standing<'a>> {
    let standing = |(instance, since): &'a (Arc<wire::Instance>, Timestamp)| Standing {
        instance,
        since: *since,
    };
    runners.iter().map(standing).collect()
}

/// What scale-down says at this moment.
pub fn scaling(observed: &Observed, min_idle: i64, now: Timestamp) -> ScaleDown {
    scale_down(&standing(&observed.idle), min_idle, observed.idle_age, now)
}

/// Names what GARM cannot change, where it differs.
fn immutable(
    desired: &DesiredPool,
    actual: &wire::Pool,
    scope: (EntityKind, &str),
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if desired.provider_name != actual.provider_name {
        errors.push(FieldError::immutable(
            "spec.providerName",
            &actual.provider_name,
            &desired.provider_name,
        ));
    }
    if actual.scope().is_some_and(|current| current != scope) {
        errors.push(FieldError::forbidden(
            "spec.githubScopeRef",
            "GARM cannot move a pool to another scope; delete the Pool and make it anew",
        ));
    }
    errors
}

/// Quiet it once, remove what can be removed as it becomes so, wait at a fixed pace, delete it when it is empty and settled.
fn deletion(observed: &Observed) -> Plan<Step> {
    let (Some(actual), Some(deletion)) = (&observed.actual, &observed.deletion) else {
        return Plan::release();
    };
    let mut steps: Vec<Step> = remove_surplus(observed).collect();
    if actual.enabled || actual.min_idle_runners > 0 {
        steps.push(Step::Quiet {
            id: actual.id.clone(),
        });
        return Plan::with(steps, deleting(observed, deletion.pace));
    }
    let removable = |i: &wire::Instance| is_deletable(i, deletion.force) && !is_busy(i);
    let runners = observed
        .instances
        .iter()
        .filter(|instance| removable(instance) && !observed.asked.contains(&instance.name))
        .map(|instance| Step::RemoveRunner {
            name: instance.name.clone(),
            force: deletion.force,
        });
    steps.extend(runners);
    if !observed.instances.is_empty() {
        return Plan::with(steps, deleting(observed, deletion.pace));
    }
    let rest = settled(deletion);
    if rest.is_none() {
        steps.push(Step::Delete {
            id: actual.id.clone(),
        });
    }
    Plan::with(steps, deleting(observed, rest.unwrap_or(deletion.pace)))
}

/// How long to wait until no creation can be under way any more; `None` when that is sure.
fn settled(deletion: &Deletion) -> Option<Duration> {
    let rest = deletion.settle.saturating_sub(deletion.quiet_for);
    (!rest.is_zero()).then_some(rest)
}

fn deleting(observed: &Observed, after: Duration) -> Verdict {
    let message = match observed.instances.len() {
        0 => "no runner remains, the pool is about to go".to_owned(),
        1 => "1 runner remains".to_owned(),
        n => format!("{n} runners remain"),
    };
    Verdict::Pace {
        reason: reasons::DELETING,
        message,
        after,
    }
}

#[cfg(test)]
mod tests;
