//! The ports for probes and metrics, which every replica serves.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::state::Diagnosis;
use super::vital::Vital;
use crate::config::Config;
use crate::server::health::{Check, Probes};
use crate::server::{self, debug, metrics};
use crate::telemetry::metrics::Metrics;

/// What is served besides the metrics.
pub(super) struct Views {
    /// What has to go on.
    pub(super) vital: Vital,
    /// Whether webhooks are served, where they are switched on.
    pub(super) webhooks: Option<Check>,
    /// The state of the process.
    pub(super) diagnosis: Diagnosis,
}

/// Opens the probe and metrics ports and serves them. Ready is who serves webhooks, where they are switched on; nothing else is waited for.
pub(super) async fn probes_and_metrics(
    config: &Config,
    registry: &Arc<Metrics>,
    views: Views,
    token: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    let Views {
        vital,
        webhooks,
        diagnosis,
    } = views;
    let mut probes = Probes::new()
        .live(move || vital.look())
        .ready("process", || Ok(()));
    if let Some(check) = webhooks {
        probes = probes.ready("webhooks", check);
    }
    let level = diagnosis.level.clone();
    let debug = debug::router(Box::new(move || diagnosis.look()), level);
    for (name, address, router) in [
        (
            "healthProbe",
            &config.operator.health_probe_bind_address,
            probes.router().merge(debug),
        ),
        (
            "metrics",
            &config.operator.metrics_bind_address,
            metrics::router(Arc::clone(registry)),
        ),
    ] {
        let bound = server::bind(address).await;
        let setting = format!("operator.{name}BindAddress");
        let Some(listener) = bound.context(setting)? else {
            continue;
        };
        let token = token.clone();
        servers.spawn(async move {
            if let Err(error) = server::serve(name, listener, router, token).await {
                tracing::error!(listener = name, %error, "listener failed");
            }
        });
    }
    Ok(servers)
}
