//! Repository, Organization, Enterprise → an entity in GARM. One controller for the three.

mod apply;
mod observe;
mod plan;
mod status;
mod webhook;

use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::object::HasStatus;

use crate::api::condition::{Conditions, reasons, types};
use crate::api::v1beta1::{Enterprise, EntityStatus, Organization, Repository};
use crate::controllers::driver::{Change, Controller, Effect, Object, Plan, Verdict};
use crate::controllers::references::Shown;
use crate::controllers::{Context, Hubs};
use crate::domain::scope::Scope;
use crate::garm::Collection;
use crate::runtime::hub::Hub;

pub use observe::{Target, full_name, is_there, target};

/// How the Secret shows.
const SECRET: Shown = Shown {
    type_: types::WEBHOOK_SECRET_REFERENCE,
    found: reasons::FETCHING_WEBHOOK_SECRET_REF_SUCCESS,
    missing: reasons::FETCHING_WEBHOOK_SECRET_REF_FAILED,
};

/// How the credentials show.
const CREDENTIALS: Shown = Shown {
    type_: types::GITHUB_CREDENTIALS_REFERENCE,
    found: reasons::GITHUB_CREDENTIALS_REF_SUCCESS,
    missing: reasons::GITHUB_CREDENTIALS_REF_FAILED,
};

/// A scope kind as the controller handles it.
pub trait ScopeObject: Scope + Object + HasStatus<Status = EntityStatus> {
    /// Name of the kind in metrics.
    const METRIC: &'static str;

    /// Picks the watch of this kind.
    fn hub(hubs: &Hubs) -> &Arc<Hub<Self>>;
}

impl ScopeObject for Repository {
    const METRIC: &'static str = "repository";

    fn hub(hubs: &Hubs) -> &Arc<Hub<Self>> {
        &hubs.repositories
    }
}

impl ScopeObject for Organization {
    const METRIC: &'static str = "organization";

    fn hub(hubs: &Hubs) -> &Arc<Hub<Self>> {
        &hubs.organizations
    }
}

impl ScopeObject for Enterprise {
    const METRIC: &'static str = "enterprise";

    fn hub(hubs: &Hubs) -> &Arc<Hub<Self>> {
        &hubs.enterprises
    }
}

/// Reconciles one of the three kinds.
pub struct Scopes<K> {
    context: Arc<Context>,
    tries: webhook::Tries,
    kind: PhantomData<fn() -> K>,
}

impl<K: ScopeObject> Scopes<K> {
    /// Makes the controller of a kind.
    pub fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            tries: webhook::Tries::default(),
            kind: PhantomData,
        }
    }
}

impl<K: ScopeObject> Controller for Scopes<K> {
    type Object = K;
    type Observed = observe::Observed;
    type Step = plan::Step;

    const NAME: &'static str = K::METRIC;
    const COMPONENT: &'static str = <K as Scope>::COMPONENT;
    const FINALIZER: Option<&'static str> = Some(<K as Scope>::FINALIZER);

    fn needs(&self, _: &K) -> &'static [Collection] {
        const {
            &[
                Collection::Credentials,
                Collection::Entities(K::KIND),
                Collection::Pools,
            ]
        }
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn hub(&self) -> &Hub<K> {
        K::hub(&self.context.hubs)
    }

    async fn observe(&self, object: &K) -> Result<observe::Observed, Verdict> {
        observe::observe(&self.context, &self.tries, object).await
    }

    fn plan(&self, object: &K, observed: &observe::Observed, _: Timestamp) -> Plan<plan::Step> {
        plan::plan(<K as Scope>::NAME, object.meta(), observed)
    }

    async fn execute(
        &self,
        _: &K,
        observed: &mut observe::Observed,
        step: &plan::Step,
    ) -> Result<Effect, Verdict> {
        apply::execute(&self.context, &self.tries, K::KIND, observed, step).await
    }

    fn announcement(&self, step: &plan::Step) -> Option<String> {
        matches!(step, plan::Step::Create(_))
            .then(|| format!("making the {} in GARM", K::KIND.word()))
    }

    fn changes(&self, observed: &observe::Observed, step: &plan::Step) -> Vec<Change> {
        step.changes(observed)
    }

    fn status(
        &self,
        object: &K,
        observed: &observe::Observed,
        conditions: &mut Conditions,
    ) -> EntityStatus {
        status::status(object.entity_status(), observed, conditions)
    }
}
