//! The one pipeline of every reconcile: observe → plan → apply → status.
//!
//! A controller supplies the four pieces; this module owns their order, the finalizer, pause and force-delete, the annotations that remember
//! a push, the `Ready` condition, events and what happens next. Plans are executed and made again until one is empty, so that "a plan after
//! its own apply is empty" is checked at every pass, not only in tests.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::core::object::HasStatus;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::condition::{Conditions, Truth, find, reasons, types};
use crate::api::v1beta1::{
    EntityStatus, GarmServerConfigStatus, GitHubCredentialStatus, GitHubEndpointStatus, PoolStatus,
    RunnerStatus,
};
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::domain::lifecycle::{Disposition, disposition};
use crate::domain::pushed::Pushed;
use crate::garm::{self, Availability, Collection};
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;
use crate::runtime::hub::{Hub, Invalid, Stored};
use crate::runtime::meta::{self as write_meta, MetaPatch};
use crate::runtime::status::Written;
use crate::runtime::worker::Next;

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

/// How an object stands when a pass has done all it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as the spec says.
    Ready,
    /// Something that is watched has to come, change or go first. No event, no back-off: the watch ends the wait.
    Waiting {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What is awaited, by kind and name.
        message: String,
    },
    /// Something that cannot be watched is awaited at a fixed pace.
    Pace {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What is awaited.
        message: String,
        /// Until the next look.
        after: Duration,
    },
    /// The spec cannot work; only a change of it helps.
    Invalid {
        /// Which field and what to do.
        message: String,
    },
    /// What was read is older than what is stored: nothing is written, and the object is looked at again at once.
    Stale,
    /// A call failed and is tried again with back-off.
    Failed {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What failed and what to do.
        message: String,
    },
}

impl Verdict {
    /// Judges a failed call to GARM. Where GARM as a whole is known to be away, its return wakes the object: that is a wait, not a failure.
    pub fn garm(error: &garm::Error) -> Self {
        let message = error.to_string();
        match error {
            garm::Error::Unavailable(_) => Self::Waiting {
                reason: reasons::WAITING_FOR_GARM,
                message,
            },
            garm::Error::UrlsRequired => Self::Waiting {
                reason: reasons::WAITING_FOR_CONTROLLER_URLS,
                message,
            },
            garm::Error::RateLimited {
                retry_after: Some(after),
            } => Self::Pace {
                reason: reasons::GARM_API_ERROR,
                message,
                // Whatever stands before GARM says so, and may say anything.
                after: (*after).min(LONGEST_PAUSE),
            },
            _ => Self::Failed {
                reason: reasons::GARM_API_ERROR,
                message,
            },
        }
    }

    fn condition(&self) -> (Truth, &'static str, &str) {
        match self {
            Self::Stale => (Truth::Unknown, reasons::UNKNOWN_REASON, ""),
            Self::Ready => (Truth::True, reasons::RECONCILE_SUCCESS, ""),
            Self::Waiting { reason, message }
            | Self::Pace {
                reason, message, ..
            }
            | Self::Failed { reason, message } => (Truth::False, reason, message),
            Self::Invalid { message } => (Truth::False, reasons::INVALID_SPEC, message),
        }
    }
}

/// What is to be done for an object, and how it stands once that is done.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Calls to make, in order. Empty when nothing is to be done.
    pub steps: Vec<S>,
    /// How the object stands after the steps.
    pub verdict: Verdict,
    /// Whether the finalizer goes (the object is terminating and nothing of it is left).
    pub release: bool,
    /// When to look again without being woken, if at all.
    pub wake: Option<Duration>,
}

impl<S> Plan<S> {
    /// A plan that only states how the object stands.
    pub fn idle(verdict: Verdict) -> Self {
        Self::with(Vec::new(), verdict)
    }

    /// A plan of steps.
    pub fn with(steps: Vec<S>, verdict: Verdict) -> Self {
        Self {
            steps,
            verdict,
            release: false,
            wake: None,
        }
    }

    /// A plan that lets a terminating object go.
    pub fn release() -> Self {
        Self {
            release: true,
            ..Self::idle(Verdict::Waiting {
                reason: reasons::DELETING,
                message: String::new(),
            })
        }
    }
}

/// What one step did, beyond changing what is observed.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// A POST or PUT was answered with success: what to remember of it.
    pub pushed: Option<Pushed>,
    /// A POST or PUT was answered with success that changes nothing of what is remembered.
    pub stamped: bool,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The id in GARM changed and has to be stored before anything else is done.
    pub identity: bool,
    /// The object itself is gone: nothing more is to be written.
    pub gone: bool,
    /// Normal event to publish: reason and note.
    pub event: Option<(&'static str, String)>,
}

impl Effect {
    /// An effect that only publishes an event.
    pub fn told(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            event: Some((reason, note.into())),
            ..Self::default()
        }
    }

    /// An effect of a successful POST or PUT.
    pub fn pushed(memory: Pushed, reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            pushed: Some(memory),
            ..Self::told(reason, note)
        }
    }
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
    /// Renders the status but for `Ready`; pure. What it does not mention in `conditions` stays as it was.
    fn status(
        &self,
        object: &Self::Object,
        observed: &Self::Observed,
        conditions: &mut Conditions,
    ) -> <Self::Object as HasStatus>::Status;
}

/// A plan that still has steps after this many rounds is not converging: GARM accepts a change without making it.
const ROUNDS: usize = 4;

/// Longest pause that a rate limit asks for and gets.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How long the watch gets to catch up when an object turns out to have changed meanwhile.
const STALE: Duration = Duration::from_millis(100);

/// Runs one pass over the object with this key.
pub async fn reconcile<C: Controller>(controller: &C, key: &ObjectKey) -> Next {
    match controller.hub().get(key) {
        None => Next::Done,
        Some(Stored::Valid(object)) => pass(controller, object).await,
        Some(Stored::Invalid(invalid)) => salvage(controller, &invalid).await,
    }
}

/// Handles an object that does not decode: it is reported, and can still be deleted, since deletion reads only metadata and `status.id`.
async fn salvage<C: Controller>(controller: &C, invalid: &Invalid) -> Next {
    let context = controller.context();
    if meta::is_terminating(&invalid.metadata)
        && let Some(object) = bones::<C::Object>(invalid)
    {
        return pass(controller, Arc::new(object)).await;
    }
    let note = format!(
        "the stored object cannot be read ({}); correct the field and apply it again",
        invalid.error
    );
    tracing::warn!(object = %ObjectKey::of(&invalid.metadata), kind = C::NAME, error = %invalid.error, "stored object cannot be read");
    context
        .publish::<C::Object>(
            C::COMPONENT,
            &invalid.metadata,
            EventType::Warning,
            event::ERROR,
            "Decode",
            &note,
        )
        .await;
    Next::After(context.resync())
}

/// What deletion needs of an object that does not decode: an empty spec and the id, which is a number for some kinds.
fn bones<K: Object>(invalid: &Invalid) -> Option<K> {
    let id = invalid.id.clone().unwrap_or_default();
    let number: serde_json::Value = id.parse::<i64>().map_or_else(|_| 0.into(), Into::into);
    [id.into(), number].into_iter().find_map(|id: serde_json::Value| {
        let object = serde_json::json!({"metadata": &invalid.metadata, "spec": {}, "status": {"id": id}});
        serde_json::from_value(object).ok()
    })
}

/// Runs one pass over an object.
pub async fn pass<C: Controller>(controller: &C, object: Arc<C::Object>) -> Next {
    match disposition(object.meta(), C::FINALIZER, C::FORCE_RELEASES) {
        Disposition::Gone => Next::Done,
        Disposition::ForceRelease => release(controller, &object).await,
        Disposition::Delete if controller.lets_go(&object) => release(controller, &object).await,
        Disposition::Paused => {
            let mut conditions = start(&*object);
            let note = if meta::is_terminating(object.meta()) {
                "deletion waits until the annotation is removed"
            } else {
                "changes wait until the annotation is removed"
            };
            conditions.set(types::PAUSED, Truth::True, reasons::PAUSED, note);
            let mut status = object.status().cloned().unwrap_or_default();
            status.set_conditions(conditions.into_vec());
            match write_status(controller, &object, &status).await {
                Ok(_) => Next::Done,
                Err(next) => next,
            }
        }
        Disposition::Delete | Disposition::Live => work(controller, object).await,
    }
}

/// The pass over an object that is neither gone nor paused.
async fn work<C: Controller>(controller: &C, object: Arc<C::Object>) -> Next {
    let context = controller.context();
    match obstacle(&context.garm.availability(), C::NEEDS_URLS) {
        None => {}
        // GARM's return wakes the object; until then there is nothing to say about it.
        Some(_) if !C::SHOWS_READY && !meta::is_terminating(object.meta()) => {
            return Next::After(context.resync());
        }
        Some(Obstacle::Starting) => return Next::After(context.resync()),
        Some(Obstacle::Tell(verdict)) => {
            return stand(controller, &object, None, &verdict, None).await;
        }
    }
    let is_listed = |collection| context.garm.complete(collection).is_some();
    if let Some(verdict) = unlisted(controller.needs(&object), is_listed) {
        let again = context.timings.garm.probe_backoff.1;
        return stand(controller, &object, None, &verdict, Some(again)).await;
    }
    let object = match ensure_finalizer(controller, object).await {
        Ok(object) => object,
        Err(next) => return next,
    };
    if C::ANNOUNCES_DELETION && meta::is_terminating(object.meta()) && !was_deleting(&*object) {
        context
            .publish::<C::Object>(
                C::COMPONENT,
                object.meta(),
                EventType::Normal,
                event::DELETING,
                "Delete",
                "removing it from GARM",
            )
            .await;
    }
    let mut observed = match controller.observe(&object).await {
        Ok(observed) => observed,
        Err(verdict) => return stand(controller, &object, None, &verdict, None).await,
    };
    let done = apply(controller, object, &mut observed).await;
    match done {
        Err(next) => next,
        Ok(Applied { object, plan }) if plan.release => release(controller, &object).await,
        Ok(Applied { object, plan }) => {
            stand(
                controller,
                &object,
                Some(&observed),
                &plan.verdict,
                plan.wake,
            )
            .await
        }
    }
}

/// What is left when the steps are done: the object as last stored and the plan that had no more steps (or whose step failed).
struct Applied<C: Controller> {
    object: Arc<C::Object>,
    plan: Plan<C::Step>,
}

/// What keeps an object from being worked on, as far as GARM as a whole is concerned.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// Nothing is known of GARM yet. That is no news: a restart of the operator must not show in every object.
    Starting,
    /// The object waits, and says for what.
    Tell(Verdict),
}

fn obstacle(availability: &Availability, needs_urls: bool) -> Option<Obstacle> {
    let reason = match availability {
        Availability::Ready => return None,
        Availability::Starting => return Some(Obstacle::Starting),
        Availability::UrlsRequired if !needs_urls => return None,
        Availability::UrlsRequired => reasons::WAITING_FOR_CONTROLLER_URLS,
        _ => reasons::WAITING_FOR_GARM,
    };
    Some(Obstacle::Tell(Verdict::Waiting {
        reason,
        message: availability.message(),
    }))
}

/// What an object says while GARM fails to list what it decides by.
fn unlisted(needs: &[Collection], is_listed: impl Fn(Collection) -> bool) -> Option<Verdict> {
    let missing = needs.iter().find(|collection| !is_listed(**collection))?;
    let what = match missing {
        Collection::Endpoints => "endpoints",
        Collection::Credentials => "credentials",
        Collection::Entities(kind) => kind.path(),
        Collection::Pools => "pools",
        Collection::Instances => "instances",
    };
    Some(Verdict::Waiting {
        reason: reasons::WAITING_FOR_GARM,
        message: format!("GARM has not listed its {what} yet; see its log if this lasts"),
    })
}

/// Plans and executes until a plan is empty, then remembers what was pushed.
async fn apply<C: Controller>(
    controller: &C,
    mut object: Arc<C::Object>,
    observed: &mut C::Observed,
) -> Result<Applied<C>, Next> {
    let context = controller.context();
    let mut memory = Memory::default();
    let mut plan = controller.plan(&object, observed, Timestamp::now());
    let mut last_shape = String::new();
    'rounds: for round in 0.. {
        if plan.steps.is_empty() {
            break;
        }
        // Names of what is sent, no values; the same again means that the last time changed nothing.
        let shape = format!("{:?}", plan.steps);
        if round == ROUNDS || shape == last_shape {
            tracing::warn!(object = %ObjectKey::of(object.meta()), kind = C::NAME, steps = ?plan.steps, "plan did not converge");
            plan = Plan::idle(Verdict::Failed {
                reason: reasons::RECONCILE_ERROR,
                message: "GARM accepts the change without making it; the field cannot be changed, so delete the object and make it anew".to_owned(),
            });
            break;
        }
        last_shape = shape;
        for step in &plan.steps {
            match controller.execute(&object, observed, step).await {
                Ok(effect) => {
                    if effect.gone {
                        context
                            .status
                            .forget(object.meta().uid.as_deref().unwrap_or_default());
                        return Err(Next::Done);
                    }
                    memory.stamped |= effect.stamped || effect.pushed.is_some();
                    memory.pushed = effect.pushed.or(memory.pushed);
                    memory.annotations.extend(effect.annotations);
                    if effect.identity {
                        object = store_identity(controller, object, observed).await?;
                    }
                    if let Some((reason, note)) = &effect.event {
                        context
                            .publish::<C::Object>(
                                C::COMPONENT,
                                object.meta(),
                                EventType::Normal,
                                reason,
                                "Reconcile",
                                note,
                            )
                            .await;
                    }
                }
                Err(verdict) => {
                    plan = Plan::idle(verdict);
                    break 'rounds;
                }
            }
        }
        plan = controller.plan(&object, observed, Timestamp::now());
    }
    if memory != Memory::default() {
        object = remember(controller, object, memory).await?;
    }
    Ok(Applied { object, plan })
}

/// Stores a new id before anything else is sent to GARM, so that a crash finds it again.
async fn store_identity<C: Controller>(
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
struct Memory {
    stamped: bool,
    pushed: Option<Pushed>,
    annotations: Vec<(&'static str, Option<String>)>,
}

/// Writes `last-sync-time`, `pushed` and whatever else steps left in one patch.
async fn remember<C: Controller>(
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
async fn ensure_finalizer<C: Controller>(
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
async fn release<C: Controller>(controller: &C, object: &C::Object) -> Next {
    let Some(finalizer) = C::FINALIZER else {
        return Next::Done;
    };
    let api = controller.context().api::<C::Object>(object.meta());
    match write_meta::remove_finalizer(&api, object.meta(), finalizer).await {
        Ok(()) => {
            let uid = object.meta().uid.as_deref().unwrap_or_default();
            controller.context().status.forget(uid);
            controller.forget(object);
            Next::Done
        }
        Err(error) => kube_failure::<C>(object, "removing the finalizer", &error),
    }
}

/// Writes how the object stands and says when to look again.
async fn stand<C: Controller>(
    controller: &C,
    object: &Arc<C::Object>,
    observed: Option<&C::Observed>,
    verdict: &Verdict,
    wake: Option<Duration>,
) -> Next {
    let context = controller.context();
    if *verdict == Verdict::Stale {
        return Next::After(STALE);
    }
    let status = render(controller, &**object, observed, verdict);
    let repeated = same_ready(object.status(), &status);
    if let Err(next) = write_status(controller, object, &status).await {
        return next;
    }
    let warning = match verdict {
        Verdict::Failed { reason, message } => Some((*reason, message)),
        Verdict::Invalid { message } if !repeated => Some((reasons::INVALID_SPEC, message)),
        _ => None,
    };
    if let Some((action, note)) = warning {
        if !matches!(verdict, Verdict::Failed { .. }) {
            // A failure is logged by the worker, with the pause that follows it.
            tracing::warn!(object = %ObjectKey::of(object.meta()), kind = C::NAME, reason = action, error = %note, "the spec cannot work");
        }
        context
            .publish::<C::Object>(
                C::COMPONENT,
                object.meta(),
                EventType::Warning,
                event::ERROR,
                action,
                note,
            )
            .await;
    }
    let rest = wake.map_or_else(|| context.resync(), |wake| wake.min(context.resync()));
    match verdict {
        Verdict::Failed { message, .. } => retry(message.clone()),
        Verdict::Pace { after, .. } => Next::After(*after),
        _ => Next::After(rest),
    }
}

/// Renders the whole status: the kind's own part, then `Ready`.
fn render<C: Controller>(
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

fn start<K: Object>(object: &K) -> Conditions {
    let previous = object
        .status()
        .map(Conditioned::conditions)
        .unwrap_or_default();
    Conditions::from_previous(previous, object.meta().generation, Timestamp::now())
}

fn was_deleting<K: Object>(object: &K) -> bool {
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
async fn write_status<C: Controller>(
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
        Ok(Written::Sent) => {
            let mut stored = (**object).clone();
            *stored.status_mut() = Some(status.clone());
            Ok(Arc::new(stored))
        }
        Err(error) => Err(kube_failure::<C>(object, "writing the status", &error)),
    }
}

/// Shows our own write to the store at once, so that no later pass decides on the object as it was before.
///
/// The answer to a write of metadata does not carry the spec. Where the spec has changed meanwhile, nothing is shown: the watch brings the
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
fn kube_failure<C: Controller>(object: &C::Object, what: &str, error: &kube::Error) -> Next {
    let object = ObjectKey::of(object.meta());
    match error {
        kube::Error::Api(status) if status.code == 404 => Next::Done,
        kube::Error::Api(status) if status.code == 409 => {
            tracing::debug!(%object, kind = C::NAME, what, "object changed meanwhile");
            Next::After(STALE)
        }
        _ => retry(format!("{what} failed: {}", explain(error))),
    }
}

fn retry(error: String) -> Next {
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
    fn a_garm_that_is_away_fails_no_object() {
        let away = garm::Error::Unavailable(Availability::NotInitialised);
        assert!(matches!(Verdict::garm(&away), Verdict::Waiting { .. }));
        assert!(matches!(
            Verdict::garm(&garm::Error::UrlsRequired),
            Verdict::Waiting { reason, .. } if reason == reasons::WAITING_FOR_CONTROLLER_URLS
        ));
        let after = Duration::from_secs(30);
        let limited = garm::Error::RateLimited {
            retry_after: Some(after),
        };
        assert!(
            matches!(Verdict::garm(&limited), Verdict::Pace { after: found, .. } if found == after)
        );
        let absurd = garm::Error::RateLimited {
            retry_after: Some(Duration::MAX),
        };
        assert!(
            matches!(Verdict::garm(&absurd), Verdict::Pace { after, .. } if after == LONGEST_PAUSE)
        );
        assert!(matches!(
            Verdict::garm(&garm::Error::Timeout),
            Verdict::Failed { .. }
        ));
    }

    #[test]
    fn what_was_not_listed_is_not_absent() {
        use crate::garm::wire::EntityKind;
        let needs = [
            Collection::Pools,
            Collection::Entities(EntityKind::Enterprise),
        ];
        assert_eq!(unlisted(&needs, |_| true), None);
        assert_eq!(unlisted(&[], |_| false), None);
        let Some(Verdict::Waiting { message, .. }) =
            unlisted(&needs, |collection| collection == Collection::Pools)
        else {
            panic!("it goes on")
        };
        assert!(message.contains("enterprises"));
    }

    #[test]
    fn a_restart_shows_in_no_object_and_an_outage_does() {
        assert_eq!(
            obstacle(&Availability::Starting, true),
            Some(Obstacle::Starting)
        );
        assert_eq!(obstacle(&Availability::Ready, true), None);
        assert_eq!(obstacle(&Availability::UrlsRequired, false), None);
        for (away, reason) in [
            (Availability::NotInitialised, reasons::WAITING_FOR_GARM),
            (
                Availability::UrlsRequired,
                reasons::WAITING_FOR_CONTROLLER_URLS,
            ),
        ] {
            let Some(Obstacle::Tell(Verdict::Waiting { reason: told, .. })) = obstacle(&away, true)
            else {
                panic!("{away:?}")
            };
            assert_eq!(told, reason);
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
