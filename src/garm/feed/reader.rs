//! Reads what is in doubt, one object at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::super::error::Error;
use super::super::handle::Shared;
use super::super::mirror::{Mirrored, Subject, Ticket};
use super::super::wire::{Credential, Endpoint, Entity, Instance, Pool};

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    // A read that another task dropped half-way is lost with its doubt's turn; the list that follows mends that.
    loop {
        let (subject, next) = {
            let mut mirror = shared.mirror_mut();
            (mirror.take_read(Instant::now()), mirror.next_read())
        };
        if let Some(subject) = subject {
            let pause = read(&shared, &subject).await;
            shared.mirror_mut().done(&subject, pause, Instant::now());
            continue;
        }
        let due = async {
            match next {
                Some(next) => sleep_until(next.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = shared.reads.notified() => {}
        }
    }
}

/// Reads an object; says how long to wait before it may be read again when that failed.
async fn read(shared: &Shared, subject: &Subject) -> Option<Duration> {
    let ticket = shared.ticket();
    let client = &shared.client;
    let result = match subject {
        Subject::Controller => take(shared, ticket, &(), client.controller().await),
        Subject::Endpoint(name) => {
            take::<Endpoint>(shared, ticket, name, client.endpoint(name).await)
        }
        Subject::Credential(id) => {
            take::<Credential>(shared, ticket, id, client.credential(*id).await)
        }
        Subject::Entity(kind, id) => {
            let answer = client.entity(*kind, id).await;
            take::<Entity>(shared, ticket, &(*kind, id.clone()), answer)
        }
        Subject::Pool(id) => take::<Pool>(shared, ticket, id, client.pool(id).await),
        Subject::Instance(name) => {
            take::<Instance>(shared, ticket, name, client.instance(name).await)
        }
    };
    let error = result.err()?;
    tracing::debug!(%error, ?subject, "reading an object of GARM failed");
    let (first, longest) = shared.settings.timings.dial_backoff;
    Some(if error.is_transient() {
        first * 5
    } else {
        longest
    })
}

fn take<R: Mirrored>(
    shared: &Shared,
    ticket: Ticket,
    key: &R::Key,
    answer: Result<R, Error>,
) -> Result<(), Error> {
    match answer {
        Ok(record) => shared.change(|mirror, now| mirror.read(record, ticket, now)),
        Err(Error::NotFound) => shared.change(|mirror, now| mirror.absent::<R>(key, ticket, now)),
        Err(error) => return Err(error),
    }
    Ok(())
}
