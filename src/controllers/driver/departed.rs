//! An object that went while something was made for it in GARM, finalizer or not.
//!
//! An API server lets an object go at once whose deletion it had judged just before the finalizer came; and a user may strip finalizers.
//! Nobody would ever ask for what was made, so the pass that made it takes it back.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::object::HasStatus;
use kube::{Resource, ResourceExt};

use super::kind::Controller;
use super::plan::{Plan, Verdict};
use super::{ROUNDS, carry_out, reasons, render};
use crate::runtime::ObjectKey;

/// Tries to take back, one for each pause of a deletion; what is left then is named in the log.
const TRIES: u32 = 12;

/// The object as its deletion would find it: with what was made for it, and terminating.
pub(super) fn departed<C: Controller>(
    controller: &C,
    object: &C::Object,
    observed: &C::Observed,
) -> C::Object {
    let verdict = Verdict::Waiting {
        reason: reasons::DELETING,
        message: String::new(),
    };
    let mut departed = object.clone();
    *departed.status_mut() = Some(render(controller, object, Some(observed), &verdict));
    departed.meta_mut().deletion_timestamp = Some(Time(Timestamp::now()));
    departed
}

/// Says whether the object is gone, by a live look. One that cannot be had says nothing: the object may be there.
pub(super) async fn is_gone<C: Controller>(controller: &C, departed: &C::Object) -> bool {
    let api = controller.context().api::<C::Object>(departed.meta());
    let live = api.get_metadata_opt(&departed.name_any()).await;
    live.is_ok_and(|live| live.is_none_or(|live| live.metadata.uid != departed.meta().uid))
}

/// Removes from GARM what was made for an object that is gone, by the same plan as its deletion; Kubernetes is told nothing.
pub(super) async fn take_back<C: Controller>(controller: &C, departed: &C::Object) {
    let object = ObjectKey::of(departed.meta());
    let mut last = String::new();
    for _ in 0..TRIES {
        let pause = match attempt(controller, departed).await {
            Ok(plan) if plan.release => {
                tracing::info!(%object, kind = C::NAME, "the object went while it was made in GARM; nothing of it stays there");
                controller.forget(departed);
                return;
            }
            Ok(plan) => pause(&plan.verdict, &mut last),
            Err(verdict) => pause(&verdict, &mut last),
        };
        tokio::time::sleep(pause).await;
    }
    tracing::warn!(%object, kind = C::NAME, reason = %last, "the object went while it was made in GARM, and what was made could not be removed; remove it there");
}

/// One round of the deletion.
async fn attempt<C: Controller>(
    controller: &C,
    departed: &C::Object,
) -> Result<Plan<C::Step>, Verdict> {
    let mut observed = controller.observe(departed).await?;
    let mut plan = controller.plan(departed, &observed, Timestamp::now());
    for _ in 0..ROUNDS {
        if plan.steps.is_empty() {
            break;
        }
        for step in &plan.steps {
            carry_out(controller, departed, &mut observed, step).await?;
        }
        plan = controller.plan(departed, &observed, Timestamp::now());
    }
    Ok(plan)
}

/// How long to wait after an attempt, and why.
fn pause(verdict: &Verdict, why: &mut String) -> Duration {
    verdict.condition().2.clone_into(why);
    match verdict {
        Verdict::Pace { after, .. } => *after,
        _ => Duration::from_secs(1),
    }
}
