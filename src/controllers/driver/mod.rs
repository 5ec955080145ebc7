//! The one pipeline of every reconcile: observe → plan → apply → status.
//!
//! A controller supplies the four pieces; this module owns their order, the finalizer, pause and force-delete, the annotations that remember
//! a push, the `Ready` condition, events and what happens next. Plans are executed and made again until one is empty, so that "a plan after
//! its own apply is empty" is checked at every pass, not only in tests.

pub mod change;
mod departed;
mod kind;
mod plan;
mod writes;

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use kube::core::object::HasStatus;
use kube::runtime::events::EventType;

pub use change::Change;
use departed::{departed, is_gone, take_back};
pub use kind::{Conditioned, Controller, Object};
pub use plan::{Effect, Plan, Verdict};
use writes::{
    Memory, ensure_finalizer, release, remember, render, stand, start, store_identity,
    was_deleting, write_status,
};

use crate::api::condition::{Truth, reasons, types};
use crate::api::{event, meta};
use crate::domain::lifecycle::{Disposition, disposition};
use crate::garm::{Availability, Collection};
use crate::runtime::ObjectKey;
use crate::runtime::hub::{Invalid, Stored};
use crate::runtime::worker::Next;

/// A plan that still has steps after this many rounds is not converging: GARM accepts a change without making it.
const ROUNDS: usize = 4;

/// Runs one pass over the object with this key.
pub async fn reconcile<C: Controller>(controller: &C, key: &ObjectKey) -> Next {
    match controller.hub().get(key) {
        None => Next::Done,
        Some(Stored::Valid(object)) => pass(controller, object).await,
        Some(Stored::Invalid(invalid)) => salvage(controller, &invalid).await,
    }
}

/// Handles an object that does not decode: it is reported, and can still be deleted, since deletion reads only metadata and `status.id`.
async fn salvage<C: Controller>(controller: &C, invalid: &Invalid) -> Next {
    let context = controller.context();
    if meta::is_terminating(&invalid.metadata)
        && let Some(object) = bones::<C::Object>(invalid)
    {
        return pass(controller, Arc::new(object)).await;
    }
    let note = format!(
        "the stored object cannot be read ({}); correct the field and apply it again",
        invalid.error
    );
    tracing::warn!(object = %ObjectKey::of(&invalid.metadata), kind = C::NAME, error = %invalid.error, "stored object cannot be read");
    context.publish::<C::Object>(
        C::COMPONENT,
        &invalid.metadata,
        EventType::Warning,
        event::ERROR,
        "Decode",
        &note,
    );
    Next::After(context.resync())
}

/// What deletion needs of an object that does not decode: an empty spec and the id, which is a number for some kinds.
fn bones<K: Object>(invalid: &Invalid) -> Option<K> {
    let id = invalid.id.clone().unwrap_or_default();
    let number: serde_json::Value = id.parse::<i64>().map_or_else(|_| 0.into(), Into::into);
    [id.into(), number].into_iter().find_map(|id: serde_json::Value| {
        let object = serde_json::json!({"metadata": &invalid.metadata, "spec": {}, "status": {"id": id}});
        serde_json::from_value(object).ok()
    })
}

/// Runs one pass over an object.
pub async fn pass<C: Controller>(controller: &C, object: Arc<C::Object>) -> Next {
    match disposition(object.meta(), C::FINALIZER, C::FORCE_RELEASES) {
        Disposition::Gone => Next::Done,
        Disposition::ForceRelease => {
            let note = "let go without asking GARM; what GARM holds of it stays there";
            tracing::warn!(object = %ObjectKey::of(object.meta()), kind = C::NAME, "{note}");
            controller.context().publish::<C::Object>(
                C::COMPONENT,
                object.meta(),
                EventType::Warning,
                event::DELETING,
                "ForceDelete",
                note,
            );
            release(controller, &object).await
        }
        Disposition::Delete if controller.lets_go(&object) => release(controller, &object).await,
        Disposition::Paused => {
            let mut conditions = start(&*object);
            let note = if meta::is_terminating(object.meta()) {
                "deletion waits"
            } else {
                "changes wait"
            };
            let note = format!("{note} until the annotation {} is removed", meta::PAUSED);
            conditions.set(types::PAUSED, Truth::True, reasons::PAUSED, note);
            let mut status = object.status().cloned().unwrap_or_default();
            status.set_conditions(conditions.into_vec());
            match write_status(controller, &object, &status).await {
                Ok(_) => Next::Done,
                Err(next) => next,
            }
        }
        Disposition::Delete | Disposition::Live => work(controller, object).await,
    }
}

/// The pass over an object that is neither gone nor paused.
async fn work<C: Controller>(controller: &C, object: Arc<C::Object>) -> Next {
    let context = controller.context();
    match obstacle(&context.garm.availability(), C::NEEDS_URLS) {
        None => {}
        // GARM's return wakes the object; until then there is nothing to say about it.
        Some(_) if !C::SHOWS_READY && !meta::is_terminating(object.meta()) => {
            return Next::After(context.resync());
        }
        Some(Obstacle::Starting) => return Next::After(context.resync()),
        Some(Obstacle::Tell(verdict)) => {
            return stand(controller, &object, None, &verdict, None).await;
        }
    }
    let is_listed = |collection| context.garm.complete(collection).is_some();
    if let Some(verdict) = unlisted(controller.needs(&object), is_listed) {
        let again = context.timings.garm.probe_backoff.1;
        return stand(controller, &object, None, &verdict, Some(again)).await;
    }
    let object = match ensure_finalizer(controller, object).await {
        Ok(object) => object,
        Err(next) => return next,
    };
    if C::ANNOUNCES_DELETION && meta::is_terminating(object.meta()) && !was_deleting(&*object) {
        context.publish::<C::Object>(
            C::COMPONENT,
            object.meta(),
            EventType::Normal,
            event::DELETING,
            "Delete",
            "removing it from GARM",
        );
    }
    let mut made = None;
    let next = match bring(controller, object, &mut made).await {
        Err(next) => next,
        Ok(Brought { object, plan, .. }) if plan.release => release(controller, &object).await,
        Ok(Brought {
            object,
            observed,
            plan,
        }) => {
            let (verdict, wake) = (&plan.verdict, plan.wake);
            stand(controller, &object, observed.as_ref(), verdict, wake).await
        }
    };
    if let Some(departed) = made
        && !matches!(next, Next::After(_))
        && is_gone(controller, &departed).await
    {
        take_back(controller, &departed).await;
    }
    next
}

/// Observes, plans and applies; once more from the start where GARM's database was locked, since only a new look tells what came of the call.
///
/// `made` becomes the object with what was made for it, as [`departed`] has it.
async fn bring<C: Controller>(
    controller: &C,
    object: Arc<C::Object>,
    made: &mut Option<C::Object>,
) -> Result<Brought<C>, Next> {
    let brought = try_to_bring(controller, object, made).await?;
    if !matches!(brought.plan.verdict, Verdict::Locked { .. }) {
        return Ok(brought);
    }
    tokio::time::sleep(controller.context().timings.garm.pause()).await;
    try_to_bring(controller, brought.object, made).await
}

async fn try_to_bring<C: Controller>(
    controller: &C,
    object: Arc<C::Object>,
    made: &mut Option<C::Object>,
) -> Result<Brought<C>, Next> {
    let mut observed = match controller.observe(&object).await {
        Ok(observed) => observed,
        Err(verdict) => {
            return Ok(Brought {
                object,
                observed: None,
                plan: Plan::idle(verdict),
            });
        }
    };
    let (object, plan) = apply(controller, object, &mut observed, made).await?;
    Ok(Brought {
        object,
        observed: Some(observed),
        plan,
    })
}

/// What is left when the steps are done: the object as last stored and the plan that had no more steps (or whose step failed).
struct Brought<C: Controller> {
    object: Arc<C::Object>,
    /// What is known by now; `None` where it could not be found out.
    observed: Option<C::Observed>,
    plan: Plan<C::Step>,
}

/// What keeps an object from being worked on, as far as GARM as a whole is concerned.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// Nothing is known of GARM yet. That is no news: a restart of the operator must not show in every object.
    Starting,
    /// The object waits, and says for what.
    Tell(Verdict),
}

fn obstacle(availability: &Availability, needs_urls: bool) -> Option<Obstacle> {
    let reason = match availability {
        Availability::Ready => return None,
        Availability::Starting => return Some(Obstacle::Starting),
        Availability::UrlsRequired if !needs_urls => return None,
        Availability::UrlsRequired => reasons::WAITING_FOR_CONTROLLER_URLS,
        _ => reasons::WAITING_FOR_GARM,
    };
    Some(Obstacle::Tell(Verdict::Waiting {
        reason,
        message: availability.message(),
    }))
}

/// What an object says while GARM fails to list what it decides by.
fn unlisted(needs: &[Collection], is_listed: impl Fn(Collection) -> bool) -> Option<Verdict> {
    let missing = needs.iter().find(|collection| !is_listed(**collection))?;
    let what = missing.name();
    Some(Verdict::Waiting {
        reason: reasons::WAITING_FOR_GARM,
        message: format!("GARM has not listed its {what} yet; see its log if this lasts"),
    })
}

/// Plans and executes until a plan is empty, then remembers what was pushed.
async fn apply<C: Controller>(
    controller: &C,
    mut object: Arc<C::Object>,
    observed: &mut C::Observed,
    made: &mut Option<C::Object>,
) -> Result<(Arc<C::Object>, Plan<C::Step>), Next> {
    let context = controller.context();
    let mut memory = Memory::default();
    let mut plan = controller.plan(&object, observed, Timestamp::now());
    let mut last_shape = String::new();
    'rounds: for round in 0.. {
        if plan.steps.is_empty() {
            break;
        }
        // Never shown: it may hold what is secret. The same again means that the last time changed nothing.
        let shape = format!("{:?}", plan.steps);
        if round == ROUNDS || shape == last_shape {
            tracing::warn!(object = %ObjectKey::of(object.meta()), kind = C::NAME, steps = plan.steps.len(), "plan did not converge");
            plan = Plan::idle(Verdict::Failed {
                reason: reasons::RECONCILE_ERROR,
                message: "GARM accepts the change without making it; the field cannot be changed, so delete the object and make it anew".to_owned(),
            });
            break;
        }
        last_shape = shape;
        for step in &plan.steps {
            match carry_out(controller, &object, observed, step).await {
                Ok(effect) => {
                    if effect.gone {
                        context
                            .status
                            .forget(object.meta().uid.as_deref().unwrap_or_default());
                        return Err(Next::Done);
                    }
                    if effect.made {
                        *made = Some(departed(controller, &*object, observed));
                    }
                    memory.stamped |= effect.stamped || effect.pushed.is_some();
                    memory.pushed = effect.pushed.or(memory.pushed);
                    memory.annotations.extend(effect.annotations);
                    if effect.identity {
                        object = store_identity(controller, object, observed).await?;
                    }
                    if let Some((reason, note)) = &effect.event {
                        tracing::info!(object = %ObjectKey::of(object.meta()), kind = C::NAME, change = %note, "worked on GARM");
                        context.publish::<C::Object>(
                            C::COMPONENT,
                            object.meta(),
                            EventType::Normal,
                            reason,
                            "Reconcile",
                            note,
                        );
                    }
                }
                Err(verdict) => {
                    plan = Plan::idle(verdict);
                    break 'rounds;
                }
            }
        }
        plan = controller.plan(&object, observed, Timestamp::now());
    }
    if memory != Memory::default() {
        object = remember(controller, object, memory).await?;
    }
    Ok((object, plan))
}

/// Makes the call of a step, and tells of its beginning.
async fn carry_out<C: Controller>(
    controller: &C,
    object: &C::Object,
    observed: &mut C::Observed,
    step: &C::Step,
) -> Result<Effect, Verdict> {
    if let Some(note) = controller.announcement(step) {
        controller.context().publish::<C::Object>(
            C::COMPONENT,
            object.meta(),
            EventType::Normal,
            event::CREATING,
            "Create",
            &note,
        );
    }
    controller.execute(object, observed, step).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_listed_is_not_absent() {
        use crate::garm::wire::EntityKind;
        let needs = [
            Collection::Pools,
            Collection::Entities(EntityKind::Enterprise),
        ];
        assert_eq!(unlisted(&needs, |_| true), None);
        assert_eq!(unlisted(&[], |_| false), None);
        let Some(Verdict::Waiting { message, .. }) =
            unlisted(&needs, |collection| collection == Collection::Pools)
        else {
            panic!("it goes on")
        };
        assert!(message.contains("enterprises"));
    }

    #[test]
    fn a_restart_shows_in_no_object_and_an_outage_does() {
        assert_eq!(
            obstacle(&Availability::Starting, true),
            Some(Obstacle::Starting)
        );
        assert_eq!(obstacle(&Availability::Ready, true), None);
        assert_eq!(obstacle(&Availability::UrlsRequired, false), None);
        for (away, reason) in [
            (Availability::NotInitialised, reasons::WAITING_FOR_GARM),
            (
                Availability::UrlsRequired,
                reasons::WAITING_FOR_CONTROLLER_URLS,
            ),
        ] {
            let Some(Obstacle::Tell(Verdict::Waiting { reason: told, .. })) = obstacle(&away, true)
            else {
                panic!("{away:?}")
            };
            assert_eq!(told, reason);
        }
    }
}
