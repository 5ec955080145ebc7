//! GitHubEndpoint → a forge endpoint in GARM, by name.

mod apply;
mod observe;
mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;

use crate::api::condition::{Conditions, reasons, types};
use crate::api::v1beta1::{GitHubEndpoint, GitHubEndpointStatus};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::{Change, Controller, Effect, Plan, Verdict};
use crate::controllers::references::Shown;
use crate::garm::Collection;
use crate::runtime::hub::Hub;

/// How the Secret of the CA bundle shows.
const CA_SECRET: Shown = Shown {
    type_: types::WEBHOOK_SECRET_REFERENCE,
    found: reasons::FETCHING_WEBHOOK_SECRET_REF_SUCCESS,
    missing: reasons::FETCHING_WEBHOOK_SECRET_REF_FAILED,
};

/// Reconciles GitHubEndpoints.
pub struct Endpoints(pub Arc<Context>);

impl Controller for Endpoints {
    type Object = GitHubEndpoint;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = "githubendpoint";
    const COMPONENT: &'static str = event::reporter::GITHUB_ENDPOINT;
    const FINALIZER: Option<&'static str> = Some(meta::FINALIZER_ENDPOINT);

    fn needs(&self, _: &GitHubEndpoint) -> &'static [Collection] {
        &[Collection::Endpoints, Collection::Credentials]
    }

    fn context(&self) -> &Context {
        &self.0
    }

    fn hub(&self) -> &Hub<GitHubEndpoint> {
        &self.0.hubs.endpoints
    }

    async fn observe(&self, object: &GitHubEndpoint) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.0, object).await
    }

    fn plan(
        &self,
        object: &GitHubEndpoint,
        observed: &observe::Observed,
        _: Timestamp,
    ) -> Plan<plan::Step> {
        plan::plan(object, observed)
    }

    async fn execute(
        &self,
        _: &GitHubEndpoint,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(&self.0, observed, step).await
    }

    fn announcement(&self, step: &plan::Step) -> Option<String> {
        matches!(step, plan::Step::Create(_)).then(|| "making the endpoint in GARM".to_owned())
    }

    fn changes(&self, observed: &observe::Observed, step: &plan::Step) -> Vec<Change> {
        step.changes(observed)
    }

    fn status(
        &self,
        _: &GitHubEndpoint,
        observed: &observe::Observed,
        conditions: &mut Conditions,
    ) -> GitHubEndpointStatus {
        status::status(observed, conditions)
    }
}
