//! GarmServerConfig → GARM's controller settings. There is one GARM, so the oldest object wins.

mod apply;
mod observe;
mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;

use crate::api::condition::Conditions;
use crate::api::event;
use crate::api::v1beta1::{GarmServerConfig, GarmServerConfigStatus};
use crate::controllers::Context;
use crate::controllers::driver::{Change, Controller, Effect, Plan, Verdict};
use crate::runtime::hub::Hub;

/// Reconciles GarmServerConfigs.
pub struct ServerConfigs(pub Arc<Context>);

impl Controller for ServerConfigs {
    type Object = GarmServerConfig;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = "garmserverconfig";
    const COMPONENT: &'static str = event::reporter::GARM_SERVER_CONFIG;
    const FINALIZER: Option<&'static str> = None;
    const NEEDS_URLS: bool = false;

    fn context(&self) -> &Context {
        &self.0
    }

    fn hub(&self) -> &Hub<GarmServerConfig> {
        &self.0.hubs.server_configs
    }

    async fn observe(&self, object: &GarmServerConfig) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.0, object)
    }

    fn plan(
        &self,
        _: &GarmServerConfig,
        observed: &observe::Observed,
        _: Timestamp,
    ) -> Plan<plan::Step> {
        plan::plan(observed)
    }

    async fn execute(
        &self,
        _: &GarmServerConfig,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(&self.0, observed, step).await
    }

    fn changes(&self, observed: &observe::Observed, step: &plan::Step) -> Vec<Change> {
        step.changes(observed)
    }

    fn status(
        &self,
        _: &GarmServerConfig,
        observed: &observe::Observed,
        _: &mut Conditions,
    ) -> GarmServerConfigStatus {
        status::status(observed)
    }
}
