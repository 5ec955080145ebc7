//! Lists: everything at first, on each connect and every sync period; instances alone while nobody tells of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use super::super::error::Error;
use super::super::handle::Shared;
use super::super::mirror::{Collection, Mirrored};
use super::super::observer::Loop;
use super::super::wire::{Credential, Endpoint, Entity, EntityKind, Instance, List, Pool};
use super::pause::Pause;

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, mut came_up: watch::Receiver<u64>) {
    let timings = shared.settings.timings;
    let mut pause = Pause::new(timings.dial_backoff);
    let mut next_sync = next_sync(&shared, Instant::now() + timings.sync_period);
    let mut next_poll = Instant::now() + timings.runners_interval;
    loop {
        shared.observer.turned(Loop::Lists);
        tokio::select! {
            // Its sender lives as long as `shared`.
            Ok(()) = came_up.changed() => next_sync = Instant::now(),
            () = sleep_until(next_sync.into()) => {
                let result = all(&shared).await;
                let wait = match &result {
                    Ok(()) => {
                        pause.reset();
                        timings.sync_period
                    }
                    Err(error) => {
                        tracing::warn!(%error, "listing GARM's objects failed");
                        pause.next()
                    }
                };
                next_sync = Instant::now() + wait;
                next_poll = Instant::now() + timings.runners_interval;
            }
            () = sleep_until(next_poll.into()) => {
                let is_deaf = !shared.socket_is_up.load(Ordering::Relaxed);
                if is_deaf
                    && shared.settings.poll_instances
                    && let Err(error) = instances(&shared).await
                {
                    tracing::debug!(%error, "listing instances failed");
                }
                next_poll = Instant::now() + timings.runners_interval;
            }
        }
    }
}

/// Begins at once when a list is missing from the first round.
fn next_sync(shared: &Shared, later: Instant) -> Instant {
    let mirror = shared.mirror();
    let all = Collection::all().all(|collection| mirror.complete(collection).is_some());
    if all {
        later
    } else {
        Instant::now() + shared.settings.timings.dial_backoff.0
    }
}

/// Lists everything.
pub(super) async fn all(shared: &Shared) -> Result<(), Error> {
    let result = in_turn(shared).await;
    shared.observer.resync(result.is_ok());
    result
}

/// Makes one list after the other. A list that fails does not keep back the others, unless GARM itself is in doubt.
async fn in_turn(shared: &Shared) -> Result<(), Error> {
    let mut first_error = Ok(());
    let mut note = |result: Result<(), Error>| match result {
        Err(error) if error.is_about_garm() => Err(error),
        Err(error) => {
            if first_error.is_ok() {
                first_error = Err(error);
            }
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    note(controller(shared).await)?;
    let endpoints = list::<Endpoint>(
        shared,
        Collection::Endpoints,
        shared.client.endpoints(),
        |_| true,
    );
    note(endpoints.await)?;
    let credentials = list::<Credential>(
        shared,
        Collection::Credentials,
        shared.client.credentials(),
        |_| true,
    );
    note(credentials.await)?;
    for kind in EntityKind::ALL {
        let call = shared.client.entities(kind);
        let entities = list::<Entity>(shared, Collection::Entities(kind), call, move |entity| {
            entity.kind == kind
        });
        note(entities.await)?;
    }
    note(list::<Pool>(shared, Collection::Pools, shared.client.pools(), |_| true).await)?;
    note(instances(shared).await)?;
    first_error
}

async fn controller(shared: &Shared) -> Result<(), Error> {
    let ticket = shared.ticket();
    let controller = shared.client.controller().await?;
    shared.change(|mirror, now| mirror.read(controller, ticket, now));
    Ok(())
}

/// Lists all instances, but never soon after the last time: on v0.2.x such a list holds back GARM's writers.
async fn instances(shared: &Shared) -> Result<(), Error> {
    let mut last = shared.instances_listed.lock().await;
    if let Some(last) = *last {
        let gap = shared.settings.timings.instance_list_gap;
        sleep(gap.saturating_sub(last.elapsed())).await;
    }
    *last = Some(Instant::now());
    list::<Instance>(
        shared,
        Collection::Instances,
        shared.client.instances(),
        |_| true,
    )
    .await
}

/// Makes one list and takes it in. The call must not have begun before: the ticket comes first.
async fn list<R: Mirrored>(
    shared: &Shared,
    collection: Collection,
    call: impl Future<Output = Result<List<R>, Error>>,
    in_scope: impl Fn(&R) -> bool,
) -> Result<(), Error> {
    let ticket = shared.ticket();
    let list = call.await?;
    if !list.unreadable.is_empty() {
        tracing::warn!(
            ?collection,
            count = list.unreadable.len(),
            "GARM listed objects that could not be read"
        );
    }
    shared.change(|mirror, now| mirror.listed(collection, list, ticket, in_scope, now));
    Ok(())
}
