//! Admission: judges and completes objects before they are stored.
//!
//! A verdict reads memory only: it asks neither GARM nor the API server, and every replica gives it. What it says is in `domain`; here is how
//! the API server asks and is answered.

pub mod convert;
mod default;
mod duplicates;
pub mod hooks;
mod leaving;
mod outcome;
mod passed;
mod review;
mod router;
mod validate;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::duplicates::Duplicates;
use self::hooks::{Hook, Phase};
use self::leaving::Leaving;
pub use self::outcome::{Outcome, Refusal, Stop};
pub use self::review::{Metadata, Request, Subject};
use crate::config::Config;
use crate::controllers::Hubs;
use crate::domain::defaults::PoolDefaults;
use crate::domain::duplicate::DuplicatePools;

/// What admission is told by the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces that are watched; all when empty. Of the others nothing is known.
    pub namespaces: Vec<String>,
    /// What becomes of a Pool that equals another one.
    pub duplicate_pools: DuplicatePools,
    /// What a Pool gets where its manifest says nothing.
    pub pool_defaults: PoolDefaults,
    /// How long a verdict waits for a watch that has not delivered its first list, and a request for its turn.
    pub wait: Duration,
    /// How long an answer may take in all.
    pub answer: Duration,
    /// How long a conversion may take.
    pub conversion: Duration,
    /// Reviews worked on at a time; each may hold 7 MiB.
    pub concurrency: usize,
}

impl Settings {
    /// The settings of a running operator.
    pub fn new(config: &Config) -> Self {
        Self {
            namespaces: config.operator.watch_namespaces.clone(),
            duplicate_pools: config.operator.duplicate_pools,
            pool_defaults: config.operator.pool_defaults.clone(),
            wait: config.timings.webhook_wait,
            answer: config.timings.webhook_answer,
            conversion: config.timings.webhook_conversion,
            concurrency: 100,
        }
    }
}

/// What judges and fills in.
pub struct Admission {
    hubs: Hubs,
    duplicates: Duplicates,
    leaving: Leaving,
    settings: Settings,
}

impl Admission {
    /// Judges by the objects in these stores.
    pub fn new(hubs: Hubs, settings: Settings) -> Self {
        Self {
            duplicates: Duplicates::new(hubs.clone(), settings.duplicate_pools),
            hubs,
            leaving: Leaving::default(),
            settings,
        }
    }

    /// Keeps up with the watches until `token` is cancelled.
    pub async fn run(&self, token: &CancellationToken) {
        self.duplicates.follow(token).await;
    }

    /// Answers a request that came in on the path of a webhook.
    async fn answer(&self, hook: &Hook, request: &Request<'_>) -> Result<Outcome, Stop> {
        let kind = &request.kind.kind;
        if kind != hook.kind {
            return Err(Stop::Undecodable(format!(
                "{} is for {}",
                hook.path, hook.kind
            )));
        }
        match hook.phase {
            Phase::Mutating => default::fill_in(&self.settings.pool_defaults, request),
            Phase::Validating => validate::judge(self, request).await,
        }
    }

    /// Tells whether the objects of a namespace are known.
    fn watches(&self, namespace: &str) -> bool {
        let watched = &self.settings.namespaces;
        watched.is_empty() || watched.iter().any(|one| one == namespace)
    }
}

#[cfg(test)]
mod tests;
