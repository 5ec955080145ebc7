//! What a pass writes: finalizer, annotations, status, events; each once, and only if it differs.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::object::HasStatus;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};

use super::kind::{Conditioned, Controller, Object};
use super::plan::Verdict;
use crate::api::condition::{Conditions, find, reasons, types};
use crate::api::{event, meta};
use crate::domain::pushed::Pushed;
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;
use crate::runtime::meta::{self as write_meta, MetaPatch};
use crate::runtime::status::Written;
use crate::runtime::worker::Next;

/// Stores a new id before anything else is sent to GARM, so that a crash finds it again.
pub(super) async fn store_identity<C: Controller>(
    controller: &C,
    object: Arc<C::Object>,
    observed: &C::Observed,
) -> Result<Arc<C::Object>, Next> {
    let verdict = Verdict::Waiting {
        reason: reasons::WAITING,
        message: "it was made in GARM and is being set up".to_owned(),
    };
    let status = render(controller, &*object, Some(observed), &verdict);
    write_status(controller, &object, &status).await
}

/// What a pass leaves in annotations.
#[derive(Default, PartialEq)]
pub(super) struct Memory {
    pub(super) stamped: bool,
    pub(super) pushed: Option<Pushed>,
    pub(super) annotations: Vec<(&'static str, Option<String>)>,
}

/// Writes `last-sync-time`, `pushed` and whatever else steps left in one patch.
pub(super) async fn remember<C: Controller>(
    controller: &C,
    object: Arc<C::Object>,
    memory: Memory,
) -> Result<Arc<C::Object>, Next> {
    let mut values = memory.annotations;
    if memory.stamped {
        let now = Timestamp::now();
        let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
        values.push((meta::LAST_SYNC_TIME, Some(time.to_string())));
    }
    if let Some(pushed) = memory.pushed {
        let known = pushed != Pushed::default();
        values.push((meta::PUSHED, known.then(|| pushed.render())));
    }
    let annotations: Vec<(&str, Option<&str>)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_deref()))
        .collect();
    let change = MetaPatch {
        annotations: &annotations,
        ..MetaPatch::default()
    };
    let api = controller.context().api::<C::Object>(object.meta());
    match write_meta::patch_metadata(&api, &object.name_any(), &change).await {
        Ok(stored) => Ok(offer(controller, &object, stored)),
        Err(error) => Err(kube_failure::<C>(&object, "writing annotations", &error)),
    }
}

/// Adds the finalizer of a living object where it lacks it. The pass goes on with the answer.
pub(super) async fn ensure_finalizer<C: Controller>(
    controller: &C,
    object: Arc<C::Object>,
) -> Result<Arc<C::Object>, Next> {
    let Some(finalizer) = C::FINALIZER else {
        return Ok(object);
    };
    if meta::is_terminating(object.meta()) || meta::has_finalizer(object.meta(), finalizer) {
        return Ok(object);
    }
    let api = controller.context().api::<C::Object>(object.meta());
    match write_meta::add_finalizer(&api, object.meta(), finalizer).await {
        Ok(stored) => Ok(offer(controller, &object, stored)),
        Err(error) => Err(kube_failure::<C>(&object, "adding the finalizer", &error)),
    }
}

/// Removes the finalizer; nothing is written after that.
pub(super) async fn release<C: Controller>(controller: &C, object: &C::Object) -> Next {
    let Some(finalizer) = C::FINALIZER else {
        return Next::Done;
    };
    let api = controller.context().api::<C::Object>(object.meta());
    match write_meta::remove_finalizer(&api, object.meta(), finalizer).await {
        Ok(since) => {
            if let Some(mut since) = since {
                // The store knows at once that nothing is left to do, or a pass amid a slow watch would let go of it again.
                since
                    .finalizers
                    .get_or_insert_default()
                    .retain(|one| one != finalizer);
                offer(controller, object, since);
            }
            let uid = object.meta().uid.as_deref().unwrap_or_default();
            controller.context().status.forget(uid);
            controller.forget(object);
            Next::Done
        }
        Err(error) => kube_failure::<C>(object, "removing the finalizer", &error),
    }
}

/// Writes how the object stands and says when to look again.
pub(super) async fn stand<C: Controller>(
    controller: &C,
    object: &Arc<C::Object>,
    observed: Option<&C::Observed>,
    verdict: &Verdict,
    wake: Option<Duration>,
) -> Next {
    let context = controller.context();
    if *verdict == Verdict::Stale {
        return Next::Stale;
    }
    let status = render(controller, &**object, observed, verdict);
    let repeated = same_ready(object.status(), &status);
    if let Err(next) = write_status(controller, object, &status).await {
        return next;
    }
    let warning = match verdict {
        Verdict::Failed { reason, message } => Some((*reason, message)),
        Verdict::Locked { message } => Some((reasons::GARM_API_ERROR, message)),
        Verdict::Invalid { message } if !repeated => Some((reasons::INVALID_SPEC, message)),
        _ => None,
    };
    if let Some((action, note)) = warning {
        if matches!(verdict, Verdict::Invalid { .. }) {
            // A failure is logged by the worker, with the pause that follows it.
            tracing::warn!(object = %ObjectKey::of(object.meta()), kind = C::NAME, reason = action, error = %note, "the spec cannot work");
        }
        context.publish::<C::Object>(
            C::COMPONENT,
            object.meta(),
            EventType::Warning,
            event::ERROR,
            action,
            note,
        );
    }
    let rest = wake.map_or_else(|| context.resync(), |wake| wake.min(context.resync()));
    match verdict {
        Verdict::Failed { message, .. } | Verdict::Locked { message } => retry(message.clone()),
        Verdict::Pace { after, .. } => Next::After(*after),
        _ => Next::After(rest),
    }
}

/// Renders the whole status: the kind's own part, then `Ready`.
pub(super) fn render<C: Controller>(
    controller: &C,
    object: &C::Object,
    observed: Option<&C::Observed>,
    verdict: &Verdict,
) -> <C::Object as HasStatus>::Status {
    let mut conditions = start(object);
    conditions.remove(types::PAUSED);
    let mut status = match observed {
        Some(observed) => controller.status(object, observed, &mut conditions),
        None => object.status().cloned().unwrap_or_default(),
    };
    let (truth, reason, message) = verdict.condition();
    if *verdict == Verdict::Ready && !C::SHOWS_READY {
        conditions.remove(types::READY);
    } else {
        conditions.set(types::READY, truth, reason, message);
    }
    status.set_conditions(conditions.into_vec());
    status
}

pub(super) fn start<K: Object>(object: &K) -> Conditions {
    let previous = object
        .status()
        .map(Conditioned::conditions)
        .unwrap_or_default();
    Conditions::from_previous(previous, object.meta().generation, Timestamp::now())
}

pub(super) fn was_deleting<K: Object>(object: &K) -> bool {
    let conditions = object
        .status()
        .map(Conditioned::conditions)
        .unwrap_or_default();
    find(conditions, types::READY)
        .is_some_and(|ready| ready.observed_generation == object.meta().generation)
}

fn same_ready<S: Conditioned>(before: Option<&S>, after: &S) -> bool {
    let ready = |status: &S| {
        find(status.conditions(), types::READY).map(|c| (c.reason.clone(), c.message.clone()))
    };
    before.and_then(ready) == ready(after)
}

/// Writes the status if it differs; answers the object as stored now.
pub(super) async fn write_status<C: Controller>(
    controller: &C,
    object: &Arc<C::Object>,
    status: &<C::Object as HasStatus>::Status,
) -> Result<Arc<C::Object>, Next> {
    let context = controller.context();
    let api = context.api::<C::Object>(object.meta());
    match context
        .status
        .write(&api, object.meta(), object.status(), status)
        .await
    {
        Ok(Written::Unchanged) => Ok(object.clone()),
        Ok(Written::Gone) => Err(Next::Done),
        Ok(Written::Sent(metadata)) => {
            let mut stored = (**object).clone();
            *stored.status_mut() = Some(status.clone());
            Ok(offer(controller, &stored, *metadata))
        }
        Err(error) => Err(kube_failure::<C>(object, "writing the status", &error)),
    }
}

/// Shows our own write to the store at once, so that no later pass decides on the object as it was before.
///
/// Of the answer only the metadata are taken. Where the spec has changed meanwhile, nothing is shown: the watch brings the
/// object whole, and its new generation makes for another pass.
fn offer<C: Controller>(
    controller: &C,
    object: &C::Object,
    metadata: ObjectMeta,
) -> Arc<C::Object> {
    let (stored, is_whole) = with_metadata(object, metadata);
    if is_whole {
        controller.hub().offer(stored.clone());
    }
    Arc::new(stored)
}

/// Gives an object its newer metadata, but for the generation, which belongs to the spec at hand; tells whether that is the newest spec.
fn with_metadata<K: Object>(object: &K, metadata: ObjectMeta) -> (K, bool) {
    let generation = object.meta().generation;
    let is_whole = metadata.generation == generation;
    let mut stored = object.clone();
    *stored.meta_mut() = ObjectMeta {
        generation,
        ..metadata
    };
    (stored, is_whole)
}

/// Judges a failed write to the API server. An object that is gone needs nothing; a conflict is looked at again at once.
pub(super) fn kube_failure<C: Controller>(
    object: &C::Object,
    what: &str,
    error: &kube::Error,
) -> Next {
    let object = ObjectKey::of(object.meta());
    match error {
        kube::Error::Api(status) if status.code == 404 => Next::Done,
        kube::Error::Api(status) if status.code == 409 => {
            tracing::debug!(%object, kind = C::NAME, what, "object changed meanwhile");
            Next::Stale
        }
        _ => retry(format!("{what} failed: {}", explain(error))),
    }
}

pub(super) fn retry(error: String) -> Next {
    Next::Retry { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1beta1::Pool;

    fn metadata(generation: i64, version: &str) -> ObjectMeta {
        ObjectMeta {
            generation: Some(generation),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_spec_that_changed_during_a_pass_is_never_shown_as_the_newer_one() {
        let pool = Pool {
            metadata: metadata(1, "10"),
            ..Pool::default()
        };
        let (same, is_whole) = with_metadata(&pool, metadata(1, "11"));
        assert!(is_whole);
        assert_eq!(same.metadata, metadata(1, "11"));
        let (old, is_whole) = with_metadata(&pool, metadata(2, "12"));
        assert!(!is_whole, "somebody else wrote the spec in between");
        assert_eq!(
            old.metadata,
            metadata(1, "12"),
            "conditions tell the generation that was acted on"
        );
    }
}
