//! Pool → a pool in GARM. Creation is made safe by a marker, deletion is a small state machine; both are decided in `plan`.

mod apply;
mod candidate;
mod memory;
mod observe;
mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;

use crate::api::condition::{Conditions, reasons, types};
use crate::api::v1beta1::{Pool, PoolStatus};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::{Change, Controller, Effect, Plan, Verdict};
use crate::controllers::reaper::Reaper;
use crate::controllers::references::Shown;
use crate::garm::Collection;
use crate::garm::wire::EntityKind;
use crate::runtime::hub::Hub;

/// How the scope shows: an object that is there.
const SCOPE: Shown = Shown {
    type_: types::SCOPE_REFERENCE,
    found: reasons::FETCHING_SCOPE_REF_SUCCESS,
    missing: reasons::SCOPE_REF_NOT_READY,
};

/// How a scope shows that no object describes.
const NO_SCOPE: Shown = Shown {
    missing: reasons::FETCHING_SCOPE_REF_FAILED,
    ..SCOPE
};

/// How the Image shows.
const IMAGE: Shown = Shown {
    type_: types::IMAGE_REFERENCE,
    found: reasons::FETCHING_IMAGE_REF_SUCCESS,
    missing: reasons::FETCHING_IMAGE_REF_FAILED,
};

/// Reconciles Pools.
pub struct Pools {
    context: Arc<Context>,
    reaper: Arc<Reaper>,
    memory: memory::Memory,
}

impl Pools {
    /// Makes the controller.
    pub fn new(context: Arc<Context>, reaper: Arc<Reaper>) -> Self {
        Self {
            context,
            reaper,
            memory: memory::Memory::default(),
        }
    }
}

impl Controller for Pools {
    type Object = Pool;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = "pool";
    const COMPONENT: &'static str = event::reporter::POOL;
    const FINALIZER: Option<&'static str> = Some(meta::FINALIZER_POOL);

    fn forget(&self, object: &Pool) {
        self.memory
            .forget(object.metadata.uid.as_deref().unwrap_or_default());
    }

    /// Deletion follows no reference, and looks at pools and instances live.
    fn needs(&self, object: &Pool) -> &'static [Collection] {
        const ALL: [Collection; 4] = [
            Collection::Entities(EntityKind::Repository),
            Collection::Entities(EntityKind::Organization),
            Collection::Entities(EntityKind::Enterprise),
            Collection::Pools,
        ];
        if meta::is_terminating(&object.metadata) {
            return &[];
        }
        // Only who asks for a pool decides by the absence of one in the copy.
        match meta::annotation(&object.metadata, meta::ADOPT_ID) {
            Some(_) => &ALL,
            None => &ALL[..3],
        }
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn hub(&self) -> &Hub<Pool> {
        &self.context.hubs.pools
    }

    async fn observe(&self, object: &Pool) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.context, &self.reaper, &self.memory, object).await
    }

    fn plan(
        &self,
        object: &Pool,
        observed: &observe::Observed,
        now: Timestamp,
    ) -> Plan<plan::Step> {
        plan::plan(object, observed, now)
    }

    async fn execute(
        &self,
        object: &Pool,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(
            &self.context,
            &self.reaper,
            &self.memory,
            object,
            observed,
            step,
        )
        .await
    }

    fn changes(&self, observed: &observe::Observed, step: &plan::Step) -> Vec<Change> {
        step.changes(observed)
    }

    fn status(
        &self,
        object: &Pool,
        observed: &observe::Observed,
        conditions: &mut Conditions,
    ) -> PoolStatus {
        status::status(object, observed, conditions)
    }
}
