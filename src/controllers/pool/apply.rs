//! Step 3: makes the calls.

use std::sync::Arc;

use crate::api::condition::reasons;
use crate::api::event;
use crate::api::v1beta1::Pool;
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::controllers::reaper::{Asked, Reaper};
use crate::domain::field::FieldError;
use crate::domain::pool::{DesiredPool, marked_uid};
use crate::domain::reference::uid_index;
use crate::garm::wire::{self, UpdatePool};
use crate::garm::{self, Garm};

use super::memory::Memory;
use super::observe::{Observed, pool_memory};
use super::plan::Step;

/// Makes one call and updates what is observed with its answer.
pub async fn execute(
    context: &Context,
    reaper: &Reaper,
    memory: &Memory,
    object: &Pool,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    let garm = &context.garm;
    match step {
        Step::Create {
            kind,
            scope,
            desired,
        } => {
            let uid = observed.uid.clone();
            let made = match garm.create_pool(*kind, scope, &desired.create(&uid)).await {
                Ok(made) => made,
                Err(error) => {
                    return Err(create_failure(garm, memory, &uid, desired, &error).await);
                }
            };
            memory.made(&uid);
            Ok(identified(observed, desired, made, "pool was made in GARM"))
        }
        Step::Adopt { id } => {
            let pool = garm.read_pool(id).await.map_err(|e| Verdict::garm(&e))?;
            observed.actual = Some(Arc::new(pool));
            let note = "a pool made for this object was found in GARM and taken";
            Ok(Effect {
                identity: true,
                ..Effect::told(event::INFO, note)
            })
        }
        Step::TakeOver { pool } => take_over(context, memory, observed, pool),
        Step::RemoveSurplus { id } => remove_surplus(garm, observed, id).await,
        Step::Update {
            id,
            update,
            desired,
        } => match garm.update_pool(id, update).await {
            Ok(answer) => Ok(updated(observed, desired, answer, update)),
            Err(garm::Error::NotFound) => Err(vanished()),
            Err(error) => Err(Verdict::garm(&error)),
        },
        Step::Quiet { id } => quiet(garm, memory, observed, id).await,
        Step::ScaleDown { .. } | Step::RemoveFailed { .. } | Step::RemoveRunner { .. } => {
            Ok(remove_runner(context, reaper, object, observed, step).await)
        }
        Step::Delete { id } => delete(context, memory, observed, id).await,
    }
}

/// Takes a pool of GARM as it is. That a second object is about to take the same one may not show in the store yet.
fn take_over(
    context: &Context,
    memory: &Memory,
    observed: &mut Observed,
    pool: &wire::Pool,
) -> Result<Effect, Verdict> {
    let lives = |uid: &str| !context.hubs.pools.keys_by(&uid_index(uid)).is_empty();
    if !memory.takes(&observed.uid, &pool.id, lives) {
        return Err(Verdict::Stale);
    }
    observed.actual = Some(Arc::new(pool.clone()));
    let note = format!(
        "the pool {} of GARM was taken over, as the annotation adopt-id asks",
        pool.id
    );
    Ok(Effect {
        identity: true,
        ..Effect::told(event::INFO, note)
    })
}

async fn remove_surplus(garm: &Garm, observed: &mut Observed, id: &str) -> Result<Effect, Verdict> {
    match garm.delete_pool(id).await {
        // One that has got a runner is left alone.
        Ok(()) | Err(garm::Error::NotFound | garm::Error::BadRequest { .. }) => {
            observed.marked.retain(|pool| pool.id != id);
            observed.surplus.retain(|surplus| surplus != id);
            Ok(Effect::default())
        }
        Err(error) => Err(Verdict::garm(&error)),
    }
}

async fn quiet(
    garm: &Garm,
    memory: &Memory,
    observed: &mut Observed,
    id: &str,
) -> Result<Effect, Verdict> {
    let quiet = UpdatePool {
        enabled: Some(false),
        min_idle_runners: Some(0),
        ..UpdatePool::default()
    };
    match garm.update_pool(id, &quiet).await {
        Ok(answer) => {
            memory.quieted(&observed.uid);
            observed.actual = Some(Arc::new(answer));
        }
        Err(garm::Error::NotFound) => observed.actual = None,
        Err(error) => return Err(Verdict::garm(&error)),
    }
    Ok(Effect::default())
}

/// Asks for one runner to go. Its trouble keeps no other step from being done.
async fn remove_runner(
    context: &Context,
    reaper: &Reaper,
    object: &Pool,
    observed: &mut Observed,
    step: &Step,
) -> Effect {
    let (answer, reason, note) = match step {
        Step::ScaleDown { name } => {
            observed.idle.retain(|(idle, _)| idle.name != *name);
            let note = format!(
                "idle runner {name} is removed: it is older than the limit and more than minIdleRunners"
            );
            (
                reaper.remove_idle(name).await,
                reasons::GARM_API_ERROR,
                note,
            )
        }
        Step::RemoveFailed { name } => {
            observed.asked.insert(name.clone());
            let note = format!("runner {name} is removed: the provider could not make it");
            (
                reaper.remove(name, false).await,
                reasons::GARM_API_ERROR,
                note,
            )
        }
        Step::RemoveRunner { name, force } => {
            observed.asked.insert(name.clone());
            let pool = object.metadata.name.as_deref().unwrap_or_default();
            let note = format!("runner {name} is removed, since its Pool {pool} is being deleted");
            (
                reaper.remove(name, *force).await,
                reasons::DELETION_FAILED,
                note,
            )
        }
        _ => return Effect::default(),
    };
    match answer {
        Ok(Asked::Sent) => Effect::told(event::SCALING, note),
        Ok(_) => Effect::default(),
        Err(error) => {
            let trouble = runner_failure(context, &error, reason);
            observed.trouble.get_or_insert(trouble);
            Effect::default()
        }
    }
}

async fn delete(
    context: &Context,
    memory: &Memory,
    observed: &mut Observed,
    id: &str,
) -> Result<Effect, Verdict> {
    match context.garm.delete_pool(id).await {
        Ok(()) | Err(garm::Error::NotFound) => {
            observed.actual = None;
            memory.forget(&observed.uid);
            Ok(Effect::default())
        }
        // It has a runner after all: wait like for any other.
        Err(garm::Error::BadRequest { details }) => Err(Verdict::Pace {
            reason: reasons::DELETING,
            message: format!("GARM does not delete the pool yet: {details}"),
            after: context.deletion_pace(),
        }),
        Err(error) => Err(Verdict::garm(&error)),
    }
}

fn identified(
    observed: &mut Observed,
    desired: &DesiredPool,
    made: wire::Pool,
    note: &str,
) -> Effect {
    observed.pushed = pool_memory(&observed.hasher, &observed.uid, desired, &made);
    observed.actual = Some(Arc::new(complete(made, desired)));
    Effect {
        identity: true,
        ..Effect::made(observed.pushed.clone(), note)
    }
}

fn updated(
    observed: &mut Observed,
    desired: &DesiredPool,
    answer: wire::Pool,
    update: &UpdatePool,
) -> Effect {
    let answer = complete(answer, desired);
    observed.pushed = pool_memory(&observed.hasher, &observed.uid, desired, &answer);
    let before = observed.actual.replace(Arc::new(answer));
    let fields = update.fields().join(", ");
    let told = Effect::pushed(
        observed.pushed.clone(),
        event::UPDATING,
        format!("pool was changed in GARM: {fields}"),
    );
    // The second half of a creation is no change that anybody asked for.
    let was_marked = before.is_some_and(|pool| marked_uid(&pool.runner_prefix).is_some());
    Effect {
        event: told.event.filter(|_| !was_marked),
        ..told
    }
}

/// Fills extra specs into an answer to our own write that did not carry them: they are what was just sent, or compared as equal.
fn complete(mut answer: wire::Pool, desired: &DesiredPool) -> wire::Pool {
    answer
        .extra_specs
        .get_or_insert_with(|| desired.extra_specs.clone());
    answer
}

/// Judges the failed creation of a pool.
async fn create_failure(
    garm: &Garm,
    memory: &Memory,
    uid: &str,
    desired: &DesiredPool,
    error: &garm::Error,
) -> Verdict {
    if !matches!(
        error,
        garm::Error::Server { .. } | garm::Error::BadRequest { .. }
    ) {
        return Verdict::garm(error);
    }
    // An unknown provider is the likeliest cause that only GARM can see. v0.1.5 answers 500 without details to it.
    let providers = garm.list_providers().await.unwrap_or_default();
    let unknown = unknown_provider(desired, &providers);
    let is_locked = unknown.is_none() && error.is_locked();
    let message = unknown.unwrap_or_else(|| format!("GARM did not make the pool: {error}"));
    memory.refused(uid, desired, message.clone());
    if is_locked {
        return Verdict::Locked { message };
    }
    Verdict::Failed {
        reason: reasons::GARM_API_ERROR,
        message,
    }
}

/// Says that GARM has no such provider, as far as its providers are known.
fn unknown_provider(desired: &DesiredPool, providers: &[String]) -> Option<String> {
    if providers.is_empty() || providers.contains(&desired.provider_name) {
        return None;
    }
    let detail = format!(
        "GARM has no such provider; it has: {}",
        providers.join(", ")
    );
    let name = desired.provider_name.as_str();
    Some(FieldError::invalid("spec.providerName", name, &detail).to_string())
}

/// The pool went while we were about to change it: the next pass finds out and makes it anew.
fn vanished() -> Verdict {
    Verdict::Failed {
        reason: reasons::GARM_API_ERROR,
        message: "the pool has gone from GARM; it is made anew".to_owned(),
    }
}

/// A runner that cannot be removed. Where GitHub refuses GARM: no Warning at each try, no new login. At a fixed pace, since other runners of
/// the pool become removable meanwhile.
fn runner_failure(context: &Context, error: &garm::Error, reason: &'static str) -> Verdict {
    match error {
        garm::Error::Unauthorized { .. } | garm::Error::Conflict { .. } => Verdict::Pace {
            reason: reasons::POOL_MANAGER_NOT_RUNNING,
            message: "GARM cannot remove runners, since GitHub refuses its credentials or the pool manager does not run".to_owned(),
            after: context.deletion_pace(),
        },
        other => Verdict::Pace {
            reason,
            message: other.to_string(),
            after: context.deletion_pace(),
        },
    }
}
