//! One look at GARM, for tools that read it once and end: everything is listed, nothing is written.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::garm::{Availability, Collection, Garm, NoObserver, Permit};

/// How long GARM has until everything is listed. A list of ten thousand runners takes it a few seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Until whether GARM answers is looked at again.
const PAUSE: Duration = Duration::from_millis(50);

/// A copy of GARM that is complete; it is kept true until it is dropped.
pub struct Look {
    /// The copy, and reads by id.
    pub garm: Garm,
    _keeper: AbortOnDropHandle<()>,
}

/// Logs in to GARM and lists everything. A fresh GARM is not initialised.
///
/// # Errors
/// Says why GARM cannot be looked at, and what to do.
pub async fn at_garm(config: &Config) -> anyhow::Result<Look> {
    at_garm_for(config, PATIENCE).await
}

async fn at_garm_for(config: &Config, patience: Duration) -> anyhow::Result<Look> {
    let mut settings = config.garm_settings(Permit::default());
    settings.init = false;
    let server = settings.base_url.clone();
    let garm = Garm::new(settings, Arc::new(NoObserver));
    let keeper = tokio::spawn({
        let garm = garm.clone();
        async move { garm.run(CancellationToken::new()).await }
    });
    let look = Look {
        garm,
        _keeper: AbortOnDropHandle::new(keeper),
    };
    let listed = tokio::time::timeout(patience, everything_listed(&look.garm)).await;
    match listed {
        Ok(Ok(())) => Ok(look),
        Ok(Err(reason)) => bail!("GARM at {server} cannot be read: {reason}"),
        Err(_) => Err(anyhow!(
            "GARM at {server} cannot be read: {}",
            missing(&look.garm)
        )),
    }
}

/// Waits until every collection is listed whole.
///
/// # Errors
/// Says what no waiting helps against.
async fn everything_listed(garm: &Garm) -> Result<(), String> {
    loop {
        match garm.availability() {
            Availability::Ready if unlisted(garm).is_none() => return Ok(()),
            Availability::Ready | Availability::Starting => {}
            away => return Err(away.message()),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn unlisted(garm: &Garm) -> Option<Collection> {
    Collection::all().find(|collection| garm.complete(*collection).is_none())
}

/// Says what is missing when time is up.
fn missing(garm: &Garm) -> String {
    let availability = garm.availability();
    match unlisted(garm) {
        Some(collection) if availability.is_ready() => {
            format!("it does not list its {}; see its log", collection.name())
        }
        _ => availability.message(),
    }
}
