//! Runner: a read-only image of an instance of a managed pool, and the way to remove one with `kubectl delete`.

mod apply;
mod names;
mod observe;
mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::PostParams;
use kube::core::Status;

use crate::api::condition::Conditions;
use crate::api::v1beta1::{Runner, RunnerStatus};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::{self, Controller, Effect, Plan, Verdict};
use crate::controllers::reaper::Reaper;
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;
use crate::runtime::hub::Hub;
use crate::runtime::worker::Next;

pub use names::{Names, instance_index, instance_name};

/// Reconciles Runners.
pub struct Runners {
    context: Arc<Context>,
    reaper: Arc<Reaper>,
    names: Arc<Names>,
}

impl Runners {
    /// Makes the controller; `names` is shared with what turns mirror changes into keys.
    pub fn new(context: Arc<Context>, reaper: Arc<Reaper>, names: Arc<Names>) -> Self {
        Self {
            context,
            reaper,
            names,
        }
    }

    /// Runs one pass over a key: over the object, or over the instance that has none yet.
    pub async fn reconcile(&self, key: &ObjectKey) -> Next {
        if self.hub().get(key).is_some() {
            return driver::reconcile(self, key).await;
        }
        let Some(object) = self.wanted(key) else {
            return Next::Done;
        };
        let api = self.context.api::<Runner>(&object.metadata);
        match api.create(&PostParams::default(), &object).await {
            Ok(stored) => driver::pass(self, Arc::new(stored)).await,
            // It exists and the watch is about to show it, or the namespace is going away.
            Err(kube::Error::Api(status)) if status.code == 409 || is_ending(&status) => {
                tracing::debug!(runner = %key, code = status.code, "runner object was not made");
                Next::Done
            }
            Err(error) => Next::Retry {
                error: format!("making the Runner failed: {}", explain(&error)),
            },
        }
    }

    /// The object that an instance without one should have; none for an instance that is gone or whose pool nobody claims.
    fn wanted(&self, key: &ObjectKey) -> Option<Runner> {
        if !self.context.runner_reconciliation {
            return None;
        }
        let name = self.names.instance(key)?;
        let Some(instance) = self.context.garm.instance(&name) else {
            self.names.forget(key);
            self.reaper.forget(&name);
            return None;
        };
        let pool = observe::claiming_pool(&self.context, &instance.pool_id)?;
        (pool.metadata.namespace.as_deref() == Some(&key.namespace))
            .then(|| apply::object(key, &pool))
    }
}

/// Tells whether the API server refuses new objects because their namespace is going away; any other 403 is a missing right.
fn is_ending(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403
        && (causes
            .into_iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
            || status.message.contains("is being terminated"))
}

impl Controller for Runners {
    type Object = Runner;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = "runner";
    const COMPONENT: &'static str = event::reporter::RUNNER;
    const FINALIZER: Option<&'static str> = Some(meta::FINALIZER_RUNNER);
    // The mirror would make it again at once; the way out is `force-remove`, or the end of its Pool.
    const FORCE_RELEASES: bool = false;
    const ANNOUNCES_DELETION: bool = false;
    // A runner's state is in its status, and there may be thousands.
    const SHOWS_READY: bool = false;

    fn lets_go(&self, object: &Runner) -> bool {
        observe::is_left_alone(&self.context, object)
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn hub(&self) -> &Hub<Runner> {
        &self.context.hubs.runners
    }

    async fn observe(&self, object: &Runner) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.context, &self.names, &self.reaper, object).await
    }

    fn plan(
        &self,
        object: &Runner,
        observed: &observe::Observed,
        _: Timestamp,
    ) -> Plan<plan::Step> {
        plan::plan(object, observed)
    }

    async fn execute(
        &self,
        object: &Runner,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(&self.context, &self.reaper, object, observed, step).await
    }

    fn status(
        &self,
        object: &Runner,
        observed: &observe::Observed,
        _: &mut Conditions,
    ) -> RunnerStatus {
        status::status(object, observed)
    }
}
