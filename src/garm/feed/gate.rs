//! Whether GARM can be worked with: it answers, accepts the login, is new enough, and has its URLs.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::super::availability::{Availability, Support, support};
use super::super::error::Error;
use super::super::handle::Shared;
use super::super::observer::Loop;
use super::super::wire::Controller;
use super::pause::Pause;

/// Waits until GARM can be worked with, and says meanwhile why not.
pub(super) async fn wait_until_open(shared: &Shared) {
    let timings = &shared.settings.timings;
    let mut pause = Pause::new(timings.probe_backoff);
    loop {
        shared.observer.turned(Loop::Gate);
        let reason = match check(shared).await {
            Ok(Support::Unknown) => {
                tracing::warn!("GARM's version is unknown; v0.1.5 or newer is needed");
                return;
            }
            Ok(_) => return,
            Err(reason) => reason,
        };
        shared.observer.turned(Loop::Gate);
        let wait = match reason {
            Availability::Unreachable { .. } => pause.next(),
            // The next try is quiet: GARM is not asked again before the login's own pause is over.
            Availability::UrlsRequired | Availability::LoginRefused { .. } => timings.urls_poll,
            _ => timings.probe_backoff.1,
        };
        shared.set_availability(reason);
        let _ = timeout(wait, shared.nudge.notified()).await;
    }
}

/// Waits until GARM cannot be worked with any more, and says why. One failed call is only a reason to look.
pub(super) async fn wait_until_closed(shared: &Shared) -> Availability {
    let grace = shared.settings.timings.grace;
    loop {
        shared.client.doubt.notified().await;
        let since = Instant::now();
        let mut pause = Pause::new(shared.settings.timings.probe_backoff);
        while let Err(reason) = check(shared).await {
            let may_pass = matches!(reason, Availability::Unreachable { .. });
            if !may_pass || since.elapsed() >= grace {
                return reason;
            }
            pause.wait().await;
        }
        // A burst of failed calls is one reason to look.
        tokio::time::sleep(pause.next()).await;
    }
}

/// Looks at GARM once.
async fn check(shared: &Shared) -> Result<Support, Availability> {
    let controller = controller(shared)
        .await
        .map_err(|error| closed_by(&error))?;
    let support = support(&controller.version);
    if support == Support::TooOld {
        return Err(Availability::Unsupported {
            found: controller.version,
        });
    }
    if controller.metadata_url.is_empty() || controller.callback_url.is_empty() {
        return Err(Availability::UrlsRequired);
    }
    if controller.webhook_url.is_empty() {
        // v0.1.5 needs it, later versions do not: only another route tells.
        let endpoints = limited(shared, shared.client.endpoints()).await;
        if let Err(error) = endpoints {
            return Err(closed_by(&error));
        }
    }
    Ok(support)
}

/// Reads what GARM says about itself.
async fn controller(shared: &Shared) -> Result<Controller, Error> {
    let ticket = shared.ticket();
    let controller = limited(shared, shared.client.controller()).await?;
    shared.change(|mirror, now| mirror.read(controller.clone(), ticket, now));
    Ok(controller)
}

/// Waits for an answer no longer than for a connection: this is about whether GARM lives.
async fn limited<T>(
    shared: &Shared,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let limit: Duration = shared.settings.timings.connect;
    timeout(limit, call).await.unwrap_or(Err(Error::Timeout))
}

/// Says what a failed call means for the others.
pub(super) fn closed_by(error: &Error) -> Availability {
    let reason = error.to_string();
    match error {
        Error::InitRequired => Availability::NotInitialised,
        Error::UrlsRequired => Availability::UrlsRequired,
        // The last two come from a first-run.
        Error::LoginRefused | Error::BadRequest { .. } | Error::Conflict { .. } => {
            Availability::LoginRefused { reason }
        }
        Error::NotFound | Error::NoRoute { .. } => Availability::Unsupported {
            found: "without the route /controller".to_owned(),
        },
        _ => Availability::Unreachable { reason },
    }
}
