//! What the pipeline needs of a kind and of its controller.

use std::fmt::Debug;
use std::future::Future;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change::Change;
use super::plan::{Effect, Plan, Verdict};
use crate::api::condition::Conditions;
use crate::api::v1beta1::{
    EntityStatus, GarmServerConfigStatus, GitHubCredentialStatus, GitHubEndpointStatus, PoolStatus,
    RunnerStatus,
};
use crate::controllers::Context;
use crate::garm::Collection;
use crate::runtime::hub::Hub;

/// A status with conditions.
pub trait Conditioned {
    /// Reads the conditions.
    fn conditions(&self) -> &[Condition];
    /// Replaces the conditions.
    fn set_conditions(&mut self, conditions: Vec<Condition>);
}

macro_rules! conditioned {
    ($($status:ident),*) => {$(
        impl Conditioned for $status {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn set_conditions(&mut self, conditions: Vec<Condition>) {
                self.conditions = conditions;
            }
        }
    )*};
}

conditioned!(
    EntityStatus,
    GarmServerConfigStatus,
    GitHubCredentialStatus,
    GitHubEndpointStatus,
    PoolStatus,
    RunnerStatus
);

/// What the driver needs of a kind.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: Conditioned + Clone + Debug + Default + PartialEq + Serialize + Send + Sync>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + HasStatus<
            Status: Conditioned + Clone + Debug + Default + PartialEq + Serialize + Send + Sync,
        > + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// The four pieces of a reconcile, and the names that belong to a kind.
pub trait Controller: Send + Sync + 'static {
    /// The kind.
    type Object: Object;
    /// What a pass knows.
    type Observed: Send + Sync;
    /// One call of a plan.
    type Step: Send + Sync + Debug;

    /// Name in metrics: the kind in lower case.
    const NAME: &'static str;
    /// Reporting component of events.
    const COMPONENT: &'static str;
    /// The finalizer, if the kind has one.
    const FINALIZER: Option<&'static str>;
    /// Whether GARM has to know its own URLs before anything works (all kinds but the one that sets them).
    const NEEDS_URLS: bool = true;

    /// Whether `force-delete` lets a terminating object go at once.
    const FORCE_RELEASES: bool = true;
    /// Whether an object that is as it should be says `Ready=True`.
    const SHOWS_READY: bool = true;
    /// Whether the start of a deletion is told as an event.
    const ANNOUNCES_DELETION: bool = true;

    /// Whether a terminating object goes without a look at GARM, which may be away for good.
    fn lets_go(&self, _object: &Self::Object) -> bool {
        false
    }

    /// Forgets what the controller remembers of an object that has been let go.
    fn forget(&self, _object: &Self::Object) {}

    /// Collections of GARM's objects whose absences this object's pass decides by. While one of them has not been listed whole, the object
    /// waits: an error is not absence.
    fn needs(&self, _object: &Self::Object) -> &'static [Collection] {
        &[]
    }

    /// The process-wide parts.
    fn context(&self) -> &Context;
    /// The watch of this kind.
    fn hub(&self) -> &Hub<Self::Object>;
    /// Reads what a plan needs: stores, mirror, and what must be live.
    fn observe(
        &self,
        object: &Self::Object,
    ) -> impl Future<Output = Result<Self::Observed, Verdict>> + Send;
    /// Decides; pure and total.
    fn plan(
        &self,
        object: &Self::Object,
        observed: &Self::Observed,
        now: Timestamp,
    ) -> Plan<Self::Step>;
    /// Makes one call and updates what is observed with its answer.
    fn execute(
        &self,
        object: &Self::Object,
        observed: &mut Self::Observed,
        step: &Self::Step,
    ) -> impl Future<Output = Result<Effect, Verdict>> + Send;
    /// What is told of a step as it begins, in an event `Creating`.
    fn announcement(&self, _step: &Self::Step) -> Option<String> {
        None
    }
    /// Says what a step would change in GARM, for who looks before it is done. What GARM never shows is no change that can be told.
    fn changes(&self, _observed: &Self::Observed, _step: &Self::Step) -> Vec<Change> {
        Vec::new()
    }
    /// Renders the status but for `Ready`; pure. What it does not mention in `conditions` stays as it was.
    fn status(
        &self,
        object: &Self::Object,
        observed: &Self::Observed,
        conditions: &mut Conditions,
    ) -> <Self::Object as HasStatus>::Status;
}
