//! Part of step 1: the pool that an object asks to take over, and who else has it or asks for it.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::condition::reasons;
use crate::api::v1beta1::Pool;
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::scope::Target;
use crate::domain::ownership::rank;
use crate::domain::pool::adoption::{self, Candidate, adopt_index};
use crate::domain::pool::marker;
use crate::domain::reference::id_index;
use crate::garm;
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;

use super::memory::Memory;
use super::observe::own_id;

/// Looks at the pool that the object asks for: in the copy of GARM at first, and live before it may be taken.
pub async fn candidate(
    context: &Context,
    memory: &Memory,
    object: &Pool,
    id: String,
    (scope, provider): (&Target, &str),
) -> Result<Candidate, Verdict> {
    let known = context.garm.pool(&id);
    let mut candidate = Candidate {
        holder: holder(context, object, &id),
        pool: known.map(|pool| Box::new((*pool).clone())),
        id,
    };
    let refusal = |candidate: &Candidate| candidate.refusal((scope.kind, &scope.id), provider);
    if refusal(&candidate).is_none() {
        ensure_current(context, object).await?;
        candidate.pool = match context.garm.read_pool(&candidate.id).await {
            Ok(pool) => Some(Box::new(pool)),
            Err(garm::Error::NotFound) => None,
            Err(error) => return Err(Verdict::garm(&error)),
        };
    }
    if refusal(&candidate).is_some() {
        memory.lets_go(object.metadata.uid.as_deref().unwrap_or_default());
    }
    Ok(candidate)
}

/// The object that has this pool, or the first of those that ask for it, if that is not this object.
fn holder(context: &Context, object: &Pool, id: &str) -> Option<String> {
    let pools = &context.hubs.pools;
    let is_other = |other: &Arc<Pool>| other.metadata.uid != object.metadata.uid;
    let has_none = |other: &Arc<Pool>| {
        let status = other.status.as_ref();
        status.is_none_or(|status| status.id.is_empty())
    };
    let has_it = pools.by(&id_index(id)).into_iter().find(is_other);
    let asks_first = || {
        let asking = pools.by(&adopt_index(id)).into_iter();
        asking
            .filter(is_other)
            .filter(has_none)
            .find(|other| rank(&other.metadata) < rank(&object.metadata))
    };
    let holder = has_it.or_else(asks_first)?;
    Some(ObjectKey::of(&holder.metadata).to_string())
}

/// The pool that the object asks to take over. One that was its own and is gone from GARM is made anew, whatever it once was taken from, and
/// one that is being made for it comes first.
pub fn adopted(context: &Context, object: &Pool) -> Option<String> {
    let marker = marker(&object.uid().unwrap_or_default());
    let is_free = own_id(context, object).is_none();
    let wanted = adoption::wanted(&object.metadata).filter(|_| is_free);
    wanted.filter(|_| context.garm.pools_by_prefix(&marker).is_empty())
}

/// Looks live whether the object still is there and as free as the store shows it.
pub async fn ensure_current(context: &Context, object: &Pool) -> Result<(), Verdict> {
    let api = context.api::<Pool>(&object.metadata);
    let live = api
        .get_opt(&object.name_any())
        .await
        .map_err(|error| Verdict::Failed {
            reason: reasons::RECONCILE_ERROR,
            message: format!(
                "reading the Pool before creation failed: {}",
                explain(&error)
            ),
        })?;
    let id = |pool: &Pool| {
        let status = pool.status.as_ref();
        status.map_or_else(String::new, |status| status.id.clone())
    };
    let asks = |pool: &Pool| adoption::wanted(&pool.metadata);
    let is_current = live.is_some_and(|live| {
        live.metadata.uid == object.metadata.uid
            && live.metadata.deletion_timestamp.is_none()
            && id(&live) == id(object)
            && asks(&live) == asks(object)
    });
    if is_current {
        Ok(())
    } else {
        Err(Verdict::Stale)
    }
}
