//! Step 1: reads the mirror, and live only where the mirror's silence would delete something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::api::meta;
use crate::api::v1beta1::{Pool, Runner};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::reaper::Reaper;
use crate::domain::ownership::{Claim, claim};
use crate::domain::reference::id_index;
use crate::garm::wire::Instance;
use crate::garm::{self, Collection};
use crate::runtime::ObjectKey;
use crate::runtime::hub::Stored;

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

/// Reads what a plan needs. An instance counts as gone when GARM says so of it by its name.
pub async fn observe(
    context: &Context,
    names: &Names,
    reaper: &Reaper,
    object: &Runner,
) -> Result<Observed, Verdict> {
    let key = ObjectKey::of(&object.metadata);
    let name = names.instance_of(context, object);
    let mut instance = name.as_deref().and_then(|name| context.garm.instance(name));
    match &name {
        // A list may leave out what is there: of a GARM that has just come up, or of another one.
        Some(name) if instance.is_none() && !context.garm.was_told_gone(name) => {
            instance = match context.garm.read_instance(name).await {
                Ok(instance) => Some(Arc::new(instance)),
                Err(garm::Error::NotFound) => None,
                Err(error) => return Err(Verdict::garm(&error)),
            };
        }
        // Nothing tells which instance it is. The next complete list proves that there is none.
        None if !is_listed_since(context, object) => {
            return Err(Verdict::Waiting {
                reason: crate::api::condition::reasons::WAITING_FOR_GARM,
                message: "GARM's instances have not been listed since this object was made"
                    .to_owned(),
            });
        }
        _ => {}
    }
    if let Some(seen) = &instance
        && lacks_addresses(object, seen)
    {
        // Without them the object is still right in all else.
        if let Ok(whole) = context.garm.read_instance(&seen.name).await {
            instance = Some(Arc::new(whole));
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
            .and_then(|instance| claiming_pool(context, &instance.pool_id)),
        enabled: context.runner_reconciliation,
        asked: instance
            .as_ref()
            .is_some_and(|instance| reaper.is_asked(instance, force)),
        force,
        again: context.timings.instance_delete_lost,
        instance,
    })
}

/// Tells whether the addresses of a running instance have to be read: lists leave them out, and one that ran before the operator came tells
/// of no change that would bring them. Once, for a new object: the others keep what they show.
fn lacks_addresses(object: &Runner, instance: &Instance) -> bool {
    let is_new = object
        .status
        .as_ref()
        .is_none_or(|status| status.id.is_none());
    is_new
        && !meta::is_terminating(&object.metadata)
        && instance.status == "running"
        && instance.addresses.is_none()
}

/// Tells whether the Pool that a Runner names as its owner is gone or going: its own deletion removes the instance, or nobody does. A Runner
/// that names none is looked up in GARM.
pub fn is_left_alone(context: &Context, object: &Runner) -> bool {
    let owners = object.metadata.owner_references.iter().flatten();
    let Some(owner) = owners
        .into_iter()
        .find(|owner| owner.kind == Pool::kind(&()))
    else {
        return false;
    };
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let key = ObjectKey::new(namespace, &owner.name);
    let pool = context.hubs.pools.get(&key);
    !lives(&owner.uid, pool.as_ref().map(Stored::meta))
}

/// Tells whether the Pool found under an owner's name is that owner and stays.
fn lives(uid: &str, pool: Option<&ObjectMeta>) -> bool {
    pool.is_some_and(|pool| pool.uid.as_deref() == Some(uid) && !meta::is_terminating(pool))
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

/// Tells whether all instances were listed after the object had been made.
fn is_listed_since(context: &Context, object: &Runner) -> bool {
    let Some(listed) = context.garm.complete(Collection::Instances) else {
        return false;
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn addresses_are_read_once_for_a_runner_that_ran_before() {
        let running = Instance {
            status: "running".to_owned(),
            ..Instance::default()
        };
        let mut object = Runner::default();
        assert!(lacks_addresses(&object, &running));
        for known in [
            Instance {
                addresses: Some(Vec::new()),
                ..running.clone()
            },
            Instance {
                status: "creating".to_owned(),
                ..running.clone()
            },
        ] {
            assert!(!lacks_addresses(&object, &known));
        }
        object.status.get_or_insert_default().id = Some("1".to_owned());
        assert!(!lacks_addresses(&object, &running));
    }

    #[test]
    fn a_runner_waits_for_garm_only_while_its_own_pool_stays() {
        let pool = |uid: &str, is_terminating: bool| ObjectMeta {
            uid: Some(uid.to_owned()),
            deletion_timestamp: is_terminating.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        assert!(lives("u", Some(&pool("u", false))));
        assert!(!lives("u", Some(&pool("u", true))), "it is going");
        assert!(
            !lives("u", Some(&pool("v", false))),
            "another one of that name"
        );
        assert!(!lives("u", None));
    }
}
