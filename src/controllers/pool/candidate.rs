//! Part of step 1: the pool that an object asks to take over, and who else has it or asks for it.

use std::sync::Arc;

use crate::api::v1beta1::Pool;
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::domain::ownership::rank;
use crate::domain::pool::adoption::{self, Candidate, adopt_index};
use crate::domain::reference::id_index;
use crate::garm;
use crate::runtime::ObjectKey;

/// Looks at the pool that the object asks for, live: what is taken must be what GARM has.
pub async fn candidate(context: &Context, object: &Pool, id: String) -> Result<Candidate, Verdict> {
    let pool = match adoption::fault(&id) {
        Some(_) => None,
        None => match context.garm.read_pool(&id).await {
            Ok(pool) => Some(Box::new(pool)),
            Err(garm::Error::NotFound) => None,
            Err(error) => return Err(Verdict::garm(&error)),
        },
    };
    Ok(Candidate {
        holder: holder(context, object, &id),
        pool,
        id,
    })
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
