//! The ports of the process, which every replica serves.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, WebhookCerts};
use crate::controllers::Hubs;
use crate::server::certs::Files;
use crate::server::health::{Check, Probes};
use crate::server::tls::{self, ServerCertificate};
use crate::server::{self, metrics};
use crate::telemetry::metrics::Metrics;

/// Opens the webhook port, serves `router` there and keeps its certificate. Answers the check whether it is ready; `None` when it is switched
/// off.
///
/// All replicas do so, whoever leads: the API server asks any of them.
pub(super) async fn webhooks(
    config: &Config,
    registry: &Arc<Metrics>,
    router: Router,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<Option<Check>> {
    let (settings, times) = (&config.operator.webhook, config.timings.webhook);
    let bound = server::bind(&settings.bind_address).await;
    let Some(listener) = bound.context("operator.webhookBindAddress")? else {
        return Ok(None);
    };
    let certificate = Arc::new(ServerCertificate::default());
    let shown = Arc::clone(&certificate);
    match settings.certs {
        WebhookCerts::Files => {
            let files = Files::new(&settings.cert_dir, shown, Arc::clone(registry));
            tasks.spawn(files.run(times.files_poll, stop.clone()));
        }
        WebhookCerts::SelfManaged => {}
    }
    let listening = tls::serve(
        listener,
        router,
        Arc::clone(&certificate),
        times,
        stop.clone(),
    );
    tasks.spawn(async move {
        if let Err(error) = listening.await {
            tracing::error!(listener = "webhook", %error, "listener failed");
        }
    });
    let stop = stop.clone();
    Ok(Some(Box::new(move || {
        if stop.is_cancelled() {
            return Err("stopping".to_owned());
        }
        certificate.check()
    })))
}

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
