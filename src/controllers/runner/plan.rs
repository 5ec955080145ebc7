//! Step 2: decides. Pure.

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::Runner;
use crate::controllers::driver::{Plan, Verdict};
use crate::domain::runner::{is_busy, is_deletable};

use super::observe::Observed;

/// One call.
#[derive(Clone, Debug)]
pub enum Step {
    /// Ask GARM to delete the instance.
    Remove {
        /// Exact name of the instance.
        name: String,
        /// Whether with `forceRemove`.
        force: bool,
    },
    /// Remove the object, whose instance is gone or which is not wanted.
    Drop,
}

/// Decides what becomes of the object or its instance.
pub fn plan(object: &Runner, observed: &Observed) -> Plan<Step> {
    if meta::is_terminating(&object.metadata) {
        return deletion(observed);
    }
    if !observed.enabled || observed.instance.is_none() {
        return Plan::with(vec![Step::Drop], Verdict::Ready);
    }
    Plan::idle(Verdict::Ready)
}

/// GARM is asked only while a living Pool claims the instance; garbage collection just lets the object go.
fn deletion(observed: &Observed) -> Plan<Step> {
    let Some(instance) = observed.instance.as_deref() else {
        return Plan::release();
    };
    if observed.pool.is_none() || !observed.enabled {
        return Plan::release();
    }
    if is_busy(instance) {
        return Plan::idle(Verdict::Waiting {
            reason: reasons::RUNNER_BUSY,
            message: "the runner works on a job and is removed after it".to_owned(),
        });
    }
    let waiting = |message: String| Verdict::Waiting {
        reason: reasons::DELETING,
        message,
    };
    let mut plan = if observed.asked || !is_deletable(instance, observed.force) {
        Plan::idle(waiting(format!(
            "GARM has the runner in state {:?}",
            instance.status
        )))
    } else {
        let step = Step::Remove {
            name: instance.name.clone(),
            force: observed.force,
        };
        Plan::with(
            vec![step],
            waiting("GARM was asked to remove the runner".to_owned()),
        )
    };
    plan.wake = Some(observed.again);
    plan
}

#[cfg(test)]
mod tests;
