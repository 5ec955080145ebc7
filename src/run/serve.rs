//! The ports for probes and metrics, which every replica serves.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::controllers::Hubs;
use crate::server::health::{Check, Probes};
use crate::server::{self, metrics};
use crate::telemetry::metrics::Metrics;

/// Opens the probe and metrics ports and serves them. Ready is who serves webhooks, where they are switched on; nothing else is waited for.
pub(super) async fn probes_and_metrics(
    config: &Config,
    registry: &Arc<Metrics>,
    hubs: &Hubs,
    webhooks_ready: Option<Check>,
    token: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    let (hubs, stuck) = (hubs.clone(), config.timings.watch_stuck);
    let mut probes = Probes::new()
        .live("watches", move || hubs.check_progress(stuck))
        .ready("process", || Ok(()));
    if let Some(check) = webhooks_ready {
        probes = probes.ready("webhooks", check);
    }
    for (name, address, router) in [
        (
            "healthProbe",
            &config.operator.health_probe_bind_address,
            probes.router(),
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
