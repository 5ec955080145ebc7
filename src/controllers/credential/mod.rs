//! GitHubCredential → credentials in GARM, by name.

mod apply;
mod observe;
mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;

use crate::api::condition::{Conditions, reasons, types};
use crate::api::v1beta1::{GitHubCredential, GitHubCredentialStatus};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::{Change, Controller, Effect, Plan, Verdict};
use crate::controllers::references::Shown;
use crate::garm::Collection;
use crate::garm::wire::EntityKind;
use crate::runtime::hub::Hub;

/// How the Secret shows.
const SECRET: Shown = Shown {
    type_: types::WEBHOOK_SECRET_REFERENCE,
    found: reasons::FETCHING_WEBHOOK_SECRET_REF_SUCCESS,
    missing: reasons::FETCHING_WEBHOOK_SECRET_REF_FAILED,
};

/// How the endpoint shows.
const ENDPOINT: Shown = Shown {
    type_: types::GITHUB_ENDPOINT_REFERENCE,
    found: reasons::FETCHING_GITHUB_ENDPOINT_REF_SUCCESS,
    missing: reasons::FETCHING_GITHUB_ENDPOINT_REF_FAILED,
};

/// Reconciles GitHubCredentials.
pub struct Credentials(pub Arc<Context>);

impl Controller for Credentials {
    type Object = GitHubCredential;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = "githubcredential";
    const COMPONENT: &'static str = event::reporter::GITHUB_CREDENTIAL;
    const FINALIZER: Option<&'static str> = Some(meta::FINALIZER_CREDENTIALS);

    fn needs(&self, _: &GitHubCredential) -> &'static [Collection] {
        &[
            Collection::Endpoints,
            Collection::Credentials,
            Collection::Entities(EntityKind::Repository),
            Collection::Entities(EntityKind::Organization),
            Collection::Entities(EntityKind::Enterprise),
        ]
    }

    fn context(&self) -> &Context {
        &self.0
    }

    fn hub(&self) -> &Hub<GitHubCredential> {
        &self.0.hubs.credentials
    }

    async fn observe(&self, object: &GitHubCredential) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.0, object).await
    }

    fn plan(
        &self,
        object: &GitHubCredential,
        observed: &observe::Observed,
        _: Timestamp,
    ) -> Plan<plan::Step> {
        plan::plan(object, observed)
    }

    async fn execute(
        &self,
        _: &GitHubCredential,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(&self.0, observed, step).await
    }

    fn announcement(&self, step: &plan::Step) -> Option<String> {
        matches!(step, plan::Step::Create(_)).then(|| "making the credentials in GARM".to_owned())
    }

    fn changes(&self, observed: &observe::Observed, step: &plan::Step) -> Vec<Change> {
        step.changes(observed)
    }

    fn status(
        &self,
        object: &GitHubCredential,
        observed: &observe::Observed,
        conditions: &mut Conditions,
    ) -> GitHubCredentialStatus {
        status::status(object, observed, conditions)
    }
}
