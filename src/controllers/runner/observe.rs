//! Step 1: reads the mirror, and live only where the mirror's silence would delete something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use crate::api::meta;
use crate::api::v1beta1::{Pool, Runner};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::reaper::Reaper;
use crate::controllers::references::id_index;
use crate::domain::ownership::{Claim, claim};
use crate::garm::wire::Instance;
use crate::garm::{self, Collection};
use crate::runtime::ObjectKey;

use super::names::Names;

/// What a pass knows.
pub struct Observed {
    /// The instance, if GARM has it.
    pub instance: Option<Arc<Instance>>,
    /// The living Pool that claims the instance's pool.
    pub pool: Option<Arc<Pool>>,
    /// Whether Runner objects are wanted at all.
    pub enabled: bool,
    /// Whether GARM was asked to delete the instance a short while ago.
    pub asked: bool,
    /// Whether the user wants the instance removed although the provider fails. A busy runner stays all the same.
    pub force: bool,
    /// Until the next request for an instance that does not go.
    pub again: Duration,
}

/// Reads what a plan needs. An instance counts as gone only on proof.
pub async fn observe(
    context: &Context,
    names: &Names,
    reaper: &Reaper,
    object: &Runner,
) -> Result<Observed, Verdict> {
    let key = ObjectKey::of(&object.metadata);
    let name = names.instance_of(context, object);
    let is_orphaned = is_orphaned(context, object);
    let mut instance = name.as_deref().and_then(|name| context.garm.instance(name));
    if instance.is_none() && !is_orphaned && !is_proven_gone(context, names, object) {
        if let Some(name) = &name {
            instance = match context.garm.read_instance(name).await {
                Ok(instance) => Some(Arc::new(instance)),
                Err(garm::Error::NotFound) => None,
                Err(error) => return Err(Verdict::garm(&error)),
            };
        } else if context.garm.complete(Collection::Instances).is_none() {
            return Err(Verdict::Waiting {
                reason: crate::api::condition::reasons::WAITING_FOR_GARM,
                message: "GARM's instances have not been listed yet".to_owned(),
            });
        }
    }
    if instance.is_none() {
        names.forget(&key);
        if let Some(name) = &name {
            reaper.forget(name);
        }
    }
    let force = meta::has_flag(&object.metadata, meta::FORCE_REMOVE);
    Ok(Observed {
        pool: instance
            .as_ref()
            .filter(|_| !is_orphaned)
            .and_then(|instance| claiming_pool(context, &instance.pool_id)),
        enabled: context.runner_reconciliation,
        asked: name
            .as_deref()
            .is_some_and(|name| reaper.is_asked(name, force)),
        force,
        again: context.timings.instance_delete_again,
        instance,
    })
}

/// The living Pool that owns the GARM pool with this id. For a terminating Pool no Runner is made, and none asks GARM to delete.
pub fn claiming_pool(context: &Context, pool_id: &str) -> Option<Arc<Pool>> {
    if pool_id.is_empty() {
        return None;
    }
    let pools = context.hubs.pools.by(&id_index(pool_id));
    let owner = pools.iter().find(|pool| {
        claim(&pool.metadata, pools.iter().map(|other| &other.metadata)) == Claim::Owner
    })?;
    (!meta::is_terminating(&owner.metadata)).then(|| owner.clone())
}

/// Tells whether a terminating Runner's Pool is gone or going, as with garbage collection. Nothing is asked of GARM for it then, so that the
/// Runners of a Pool that was dropped by `force-delete` go, too, when GARM is gone for good.
pub fn is_orphaned(context: &Context, object: &Runner) -> bool {
    if !meta::is_terminating(&object.metadata) {
        return false;
    }
    let namespace = object.namespace().unwrap_or_default();
    let owner = object
        .owner_references()
        .iter()
        .find(|owner| owner.kind == Pool::kind(&()));
    owner.is_some_and(|owner| {
        let pool = context
            .hubs
            .pools
            .get(&ObjectKey::new(&namespace, &owner.name));
        !pool.is_some_and(|pool| {
            pool.meta().uid.as_deref() == Some(&owner.uid) && !meta::is_terminating(pool.meta())
        })
    })
}

/// Tells whether the mirror's silence proves that the instance is gone: this process has seen it before, or a complete list was asked for
/// after the object had been made.
fn is_proven_gone(context: &Context, names: &Names, object: &Runner) -> bool {
    let Some(listed) = context.garm.complete(Collection::Instances) else {
        return false;
    };
    if names.has_seen(&ObjectKey::of(&object.metadata)) {
        return true;
    }
    // Creation times come in whole seconds from another clock.
    let allowance = Duration::from_secs(5);
    let ago = Instant::now().saturating_duration_since(listed);
    let listed_at = Timestamp::now()
        .checked_sub(ago + allowance)
        .unwrap_or(Timestamp::MIN);
    object
        .metadata
        .creation_timestamp
        .as_ref()
        .is_some_and(|made| made.0 < listed_at)
}
