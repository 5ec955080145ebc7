//! Removes pools that were being made for an object which went away in between: they bear a marker whose uid no object has.
//!
//! Only old ones, and only while they are disabled and empty. A pool without a marker is never removed for want of an object.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::controllers::Context;
use crate::domain::pool::{is_abandoned, marked_uid};
use crate::domain::reference::uid_index;
use crate::garm::{self, Collection};
use crate::runtime::pulse::Pulse;

/// How often one age is looked at.
const LOOKS: u32 = 5;

/// Looks for such pools until cancelled.
pub async fn run(context: Arc<Context>, token: CancellationToken, pulse: Pulse) {
    let age = context.timings.marker_orphan_age;
    let mut seen: HashMap<String, Instant> = HashMap::new();
    while token
        .run_until_cancelled(tokio::time::sleep(age / LOOKS))
        .await
        .is_some()
    {
        pulse.turn();
        sweep(&context, &mut seen, age).await;
    }
}

/// Notes orphans at their first sight (v0.1.5 shows no age) and removes those that have been so for long enough.
async fn sweep(context: &Context, seen: &mut HashMap<String, Instant>, age: Duration) {
    if !context.garm.availability().is_ready() || context.garm.complete(Collection::Pools).is_none()
    {
        return;
    }
    let orphans: Vec<String> = context
        .garm
        .pools()
        .into_iter()
        .filter(|pool| {
            let uid = marked_uid(&pool.runner_prefix);
            uid.is_some_and(|uid| context.hubs.pools.by(&uid_index(uid)).is_empty())
        })
        .map(|pool| pool.id.clone())
        .collect();
    seen.retain(|id, _| orphans.contains(id));
    for id in orphans {
        let since = *seen.entry(id.clone()).or_insert_with(Instant::now);
        if since.elapsed() < age {
            continue;
        }
        match remove(context, &id).await {
            Ok(true) => {
                tracing::info!(garm.pool_id = %id, "removed a pool that was left behind while it was made");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(garm.pool_id = %id, %error, "a pool that was left behind could not be removed");
            }
        }
    }
}

/// Removes a pool after a live look that it still is as it was left.
async fn remove(context: &Context, id: &str) -> Result<bool, garm::Error> {
    let pool = match context.garm.read_pool(id).await {
        Ok(pool) => pool,
        Err(garm::Error::NotFound) => return Ok(false),
        Err(error) => return Err(error),
    };
    let instances = context.garm.list_instances_of(id).await?;
    if !is_abandoned(&pool, instances.len()) {
        return Ok(false);
    }
    context.garm.delete_pool(id).await?;
    Ok(true)
}
