//! Step 1: reads the stores and the mirror, and live what must not be guessed: whether a pool is gone, and what bears our marker.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use crate::api::meta;
use crate::api::v1beta1::{Pool, RunnerCounts};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::duplicates::duplicate_of;
use crate::controllers::reaper::Reaper;
use crate::controllers::references::{Reference, Shown};
use crate::controllers::scope::{Target, is_there, target};
use crate::domain::duplicate::tag;
use crate::domain::field::{FieldError, sentence};
use crate::domain::ownership::{Claim, claim};
use crate::domain::pool::adoption::Candidate;
use crate::domain::pool::{DesiredPool, desired, marker};
use crate::domain::pushed::{Hasher, Pushed};
use crate::domain::reference::{id_index, missing};
use crate::domain::runner::{counts, is_idle};
use crate::garm::wire::{self, Instance};
use crate::garm::{self, Collection};
use crate::runtime::ObjectKey;

use super::candidate::{adopted, candidate, ensure_current};
use super::memory::{Failure, Memory};
use super::{NO_SCOPE, SCOPE};

/// What a pass knows.
pub struct Observed {
    /// The object's uid.
    pub uid: String,
    /// The scope; `None` in deletion, which follows no reference.
    pub scope: Option<Reference<Target>>,
    /// Whether the scope's object is there, whatever GARM has of it.
    pub scope_is_there: bool,
    /// Tag of the Image; `None` in deletion.
    pub image: Option<Reference<String>>,
    /// What the object wants, or what is wrong with it; `None` while a reference is missing.
    pub desired: Option<Result<DesiredPool, Vec<FieldError>>>,
    /// GARM's pool.
    pub actual: Option<Arc<wire::Pool>>,
    /// Pools that bear this object's marker, by a live list made when there was no `actual`; sorted by id.
    pub marked: Vec<wire::Pool>,
    /// Ids of further pools that bear this object's marker, disabled and empty: a create whose answer was lost left them.
    pub surplus: Vec<String>,
    /// The pool that the object asks to take instead of having one made; only while it has none.
    pub adoption: Option<Candidate>,
    /// GARM's words to the last of several attempts to make this very pool, and how long it is not asked again.
    pub refused: Option<(String, Duration)>,
    /// What is known to have been sent.
    pub pushed: Pushed,
    /// Makes the keyed hashes.
    pub hasher: Hasher,
    /// Instances of the pool.
    pub instances: Vec<Arc<Instance>>,
    /// The idle ones, and since when they have been idle.
    pub idle: Vec<(Arc<Instance>, Timestamp)>,
    /// Those that the provider could not make.
    pub failed: Vec<Failure>,
    /// Age from which a failed one goes, if at all.
    pub failed_ttl: Option<Duration>,
    /// Age from which an idle runner above the minimum goes.
    pub idle_age: Duration,
    /// Counts to show, which may lag behind for some seconds.
    pub counts: RunnerCounts,
    /// When held-back counts are due.
    pub counts_due: Option<Duration>,
    /// Instances that GARM has been asked to delete: they count as present but not as idle.
    pub asked: HashSet<String>,
    /// What went wrong with single runners in this pass, which keeps no other one waiting.
    pub trouble: Option<Verdict>,
    /// Says of which older Pool this one is a duplicate, if of any.
    pub duplicate_of: Option<String>,
    /// What deletion needs to know.
    pub deletion: Option<Deletion>,
}

impl Observed {
    /// Knows nothing yet but what the object itself says.
    pub fn new(object: &Pool, hasher: Hasher, idle_age: Duration) -> Self {
        Self {
            uid: object.uid().unwrap_or_default(),
            scope: None,
            scope_is_there: false,
            image: None,
            desired: None,
            actual: None,
            marked: Vec::new(),
            surplus: Vec::new(),
            adoption: None,
            refused: None,
            pushed: Pushed::parse(meta::annotation(&object.metadata, meta::PUSHED)),
            hasher,
            instances: Vec::new(),
            idle: Vec::new(),
            failed: Vec::new(),
            failed_ttl: None,
            idle_age,
            counts: RunnerCounts::default(),
            counts_due: None,
            asked: HashSet::new(),
            trouble: None,
            duplicate_of: None,
            deletion: None,
        }
    }

    /// How the scope shows in conditions.
    pub fn scope_shown(&self) -> Shown {
        if self.scope_is_there { SCOPE } else { NO_SCOPE }
    }
}

/// What only deletion needs.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// For how long the pool has started no runner.
    pub quiet_for: Duration,
    /// How long that has to be before the pool may go.
    pub settle: Duration,
    /// Pace of looking again.
    pub pace: Duration,
    /// Whether the user wants runners removed although the provider fails. Busy ones stay all the same.
    pub force: bool,
}

/// Reads what a plan needs.
pub async fn observe(
    context: &Context,
    reaper: &Reaper,
    memory: &Memory,
    object: &Pool,
) -> Result<Observed, Verdict> {
    let mut observed = Observed::new(object, context.hasher.clone(), context.min_idle_runners_age);
    if meta::is_terminating(&object.metadata) {
        observe_deletion(context, memory, object, &mut observed).await?;
    } else {
        observe_life(context, memory, object, &mut observed).await?;
    }
    observed.surplus = surplus(context, &observed);
    observe_runners(context, reaper, memory, object, &mut observed);
    Ok(observed)
}

async fn observe_life(
    context: &Context,
    memory: &Memory,
    object: &Pool,
    observed: &mut Observed,
) -> Result<(), Verdict> {
    let namespace = object.namespace().unwrap_or_default();
    let scope = target(context, &namespace, &object.spec.github_scope_ref).map_err(|fault| {
        Verdict::Invalid {
            message: fault.to_string(),
        }
    })?;
    observed.scope_is_there = is_there(context, &namespace, &object.spec.github_scope_ref);
    let image = image_tag(context, &namespace, &object.spec.image_name);
    // Faults of the spec show even while a reference is missing.
    let tag = image.found().map(String::as_str).unwrap_or_default();
    observed.desired = Some(desired(&object.spec, tag));
    observed.actual = stored_pool(context, object).await?;
    if let Some(actual) = observed.actual.clone() {
        observed.actual = Some(with_extra_specs(context, observed, actual).await?);
    } else if let (Reference::Found(scope), Reference::Found(_), Some(Ok(desired))) =
        (&scope, &image, &observed.desired)
        && !scope.is_terminating
    {
        if let Some(id) = adopted(context, object) {
            let wanted = (scope, desired.provider_name.as_str());
            observed.adoption = Some(candidate(context, memory, object, id, wanted).await?);
        } else {
            let again = context.timings.create_again;
            observed.refused = memory.refusal(&observed.uid, desired, again);
            observed.marked = marked_pools(context, object, scope).await?;
        }
    }
    observed.scope = Some(scope);
    observed.image = Some(image);
    observed.duplicate_of = duplicate_of(&context.hubs, object);
    Ok(())
}

fn image_tag(context: &Context, namespace: &str, name: &str) -> Reference<String> {
    let key = ObjectKey::new(namespace, name);
    let Some(image) = context.hubs.images.valid(&key) else {
        return Reference::Missing(missing("Image", key));
    };
    match tag(&image) {
        Some(tag) => Reference::Found(tag.to_owned()),
        None => Reference::Missing(format!("Image {key} has no spec.tag")),
    }
}

/// The stored id, as far as it is ours: one that an older object holds as well is not, nor one that a living object goes on with.
pub(super) fn own_id<'a>(context: &Context, object: &'a Pool) -> Option<&'a str> {
    let id = object.status.as_ref().map(|status| status.id.as_str());
    let id = id.filter(|id| !id.is_empty())?;
    let rivals = context.hubs.pools.by(&id_index(id));
    let claim = claim(&object.metadata, rivals.iter().map(|rival| &rival.metadata));
    (claim == Claim::Owner).then_some(id)
}

/// Finds the pool by the stored id. Only GARM's own 404 means that it is gone.
async fn stored_pool(context: &Context, object: &Pool) -> Result<Option<Arc<wire::Pool>>, Verdict> {
    let Some(id) = own_id(context, object) else {
        return Ok(None);
    };
    if let Some(pool) = context.garm.pool(id) {
        return Ok(Some(pool));
    }
    match context.garm.read_pool(id).await {
        Ok(pool) => Ok(Some(Arc::new(pool))),
        Err(garm::Error::NotFound) => Ok(None),
        Err(error) => Err(Verdict::garm(&error)),
    }
}

/// Completes a pool whose extra specs no list has shown, by a read by id, unless our own last write is known to be GARM's last one.
async fn with_extra_specs(
    context: &Context,
    observed: &Observed,
    actual: Arc<wire::Pool>,
) -> Result<Arc<wire::Pool>, Verdict> {
    if actual.extra_specs.is_some() {
        return Ok(actual);
    }
    if let Some(Ok(desired)) = &observed.desired {
        let memory = pool_memory(&observed.hasher, &observed.uid, desired, &actual);
        if memory.updated_at.is_some() && memory == observed.pushed {
            let mut known = (*actual).clone();
            known.extra_specs = Some(desired.extra_specs.clone());
            return Ok(Arc::new(known));
        }
    }
    match context.garm.read_pool(&actual.id).await {
        Ok(pool) => Ok(Arc::new(pool)),
        Err(error) => Err(Verdict::garm(&error)),
    }
}

/// What to remember of a pool whose extra specs are as desired: enough to know after a restart that nobody wrote to it since.
pub fn pool_memory(
    hasher: &Hasher,
    uid: &str,
    desired: &DesiredPool,
    actual: &wire::Pool,
) -> Pushed {
    let specs = desired.extra_specs.to_string();
    Pushed {
        hash: Some(hasher.hash(uid, &actual.id, "extra_specs", specs.as_bytes())),
        updated_at: actual.updated_at,
    }
}

/// Lists live what bears our marker, after a live look at the object itself: a create is not idempotent, and a stale copy makes two.
async fn marked_pools(
    context: &Context,
    object: &Pool,
    scope: &Target,
) -> Result<Vec<wire::Pool>, Verdict> {
    ensure_current(context, object).await?;
    let pools = context
        .garm
        .list_pools_of(scope.kind, &scope.id)
        .await
        .map_err(|error| Verdict::garm(&error))?;
    Ok(ours(pools, object))
}

fn ours(pools: Vec<wire::Pool>, object: &Pool) -> Vec<wire::Pool> {
    let marker = marker(&object.uid().unwrap_or_default());
    let mut ours: Vec<wire::Pool> = pools
        .into_iter()
        .filter(|pool| pool.runner_prefix == marker)
        .collect();
    ours.sort_by(|a, b| a.id.cmp(&b.id));
    ours
}

/// Further pools that bear the marker of an object that has its pool: an answer came too late, or two operators were at work.
fn surplus(context: &Context, observed: &Observed) -> Vec<String> {
    let Some(actual) = &observed.actual else {
        return Vec::new();
    };
    let marked = context.garm.pools_by_prefix(&marker(&observed.uid));
    marked
        .iter()
        .filter(|pool| pool.id != actual.id && !pool.enabled)
        .filter(|pool| context.garm.instances_of(&pool.id).is_empty())
        .map(|pool| pool.id.clone())
        .collect()
}

/// Deletion reads only metadata and the id. Without an id a create may have been sent all the same: the marker tells.
async fn observe_deletion(
    context: &Context,
    memory: &Memory,
    object: &Pool,
    observed: &mut Observed,
) -> Result<(), Verdict> {
    observed.actual = stored_pool(context, object).await?;
    if own_id(context, object).is_none() {
        let all = context
            .garm
            .list_pools()
            .await
            .map_err(|error| Verdict::garm(&error))?;
        observed.actual = ours(all, object).into_iter().next().map(Arc::new);
    }
    let Some(actual) = &observed.actual else {
        memory.forget(&observed.uid);
        return Ok(());
    };
    if memory.list_due(&observed.uid, context.deletion_pace()) {
        // Feeds the mirror, which is all that is read below.
        context
            .garm
            .list_instances_of(&actual.id)
            .await
            .map_err(|error| Verdict::garm(&error))?;
    }
    let starts_none = !actual.enabled && actual.min_idle_runners == 0;
    observed.deletion = Some(Deletion {
        quiet_for: if starts_none {
            memory.quiet_for(&observed.uid)
        } else {
            Duration::ZERO
        },
        settle: context.timings.pool_delete_settle,
        pace: context.deletion_pace(),
        force: meta::has_flag(&object.metadata, meta::FORCE_REMOVE),
    });
    Ok(())
}

fn observe_runners(
    context: &Context,
    reaper: &Reaper,
    memory: &Memory,
    object: &Pool,
    observed: &mut Observed,
) {
    let Some(actual) = &observed.actual else {
        return;
    };
    observed.instances = context.garm.instances_of(&actual.id);
    let force = observed.deletion.as_ref().is_some_and(|d| d.force);
    let asked = observed
        .instances
        .iter()
        .filter(|i| reaper.is_asked(i, force));
    observed.asked = asked.map(|i| i.name.clone()).collect();
    let waits = |i: &&Arc<Instance>| is_idle(i) && !observed.asked.contains(&i.name);
    let idle: Vec<Arc<Instance>> = observed.instances.iter().filter(waits).cloned().collect();
    let plain: Vec<&Instance> = idle.iter().map(|i| &**i).collect();
    let since = memory.idle_since(&observed.uid, &plain, Timestamp::now());
    observed.idle = idle.into_iter().zip(since).collect();
    observed.failed = memory.failures(&observed.uid, &observed.instances, Timestamp::now());
    observed.failed_ttl = context.failed_runner_ttl;
    let stored = object.status.as_ref().and_then(|status| status.runners);
    if context.garm.complete(Collection::Instances).is_none()
        && let Some(stored) = stored
    {
        // Not all instances are known, so that a count would show a part.
        observed.counts = stored;
        observed.counts_due = Some(context.timings.status_counts_interval);
        return;
    }
    let current = counts(observed.instances.iter().map(|i| &**i));
    (observed.counts, observed.counts_due) = memory.counts(
        &observed.uid,
        stored,
        current,
        context.timings.status_counts_interval,
    );
}

/// The faults of the spec, if any, as a verdict.
pub fn invalid(observed: &Observed) -> Option<Verdict> {
    match &observed.desired {
        Some(Err(errors)) => Some(Verdict::Invalid {
            message: sentence(errors),
        }),
        _ => None,
    }
}
