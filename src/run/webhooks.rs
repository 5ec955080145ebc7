//! The webhook port, which every replica serves, whoever leads: the API server asks any of them.

use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Parts, grace};
use crate::config::{Config, WebhookCerts};
use crate::runtime::lease::{Leadership, each_term};
use crate::runtime::pulse::Pulses;
use crate::server;
use crate::server::certs::{Files, SelfManaged};
use crate::server::health::Check;
use crate::server::tls::{self, ServerCertificate};
use crate::telemetry::metrics::Metrics;

/// What the process gives to its parts.
pub(super) struct Process<'a> {
    pub(super) kube: &'a kube::Client,
    pub(super) config: &'a Config,
    pub(super) registry: &'a Arc<Metrics>,
    pub(super) pulses: &'a Pulses,
    pub(super) stop: &'a CancellationToken,
}

/// A webhook port that is open.
pub(super) struct Webhooks {
    certificate: Arc<ServerCertificate>,
}

/// Opens the webhook port and serves `router` there, as soon as there is a certificate; `None` when it is switched off.
///
/// # Errors
/// Fails when the address cannot be listened on.
pub(super) async fn open(
    config: &Config,
    router: Router,
    stop: &CancellationToken,
    parts: &mut Parts,
) -> anyhow::Result<Option<Webhooks>> {
    let bound = server::bind(&config.operator.webhook.bind_address).await;
    let Some(listener) = bound.context("operator.webhookBindAddress")? else {
        return Ok(None);
    };
    let certificate = Arc::new(ServerCertificate::default());
    let listening = tls::serve(
        listener,
        router,
        Arc::clone(&certificate),
        config.timings.webhook,
        stop.clone(),
    );
    parts.spawn(async move { listening.await.context("the webhook listener failed") });
    Ok(Some(Webhooks { certificate }))
}

impl Webhooks {
    /// Makes the check whether webhooks are served; a process that stops wants no more traffic.
    pub(super) fn check(&self, stop: &CancellationToken) -> Check {
        let (certificate, stop) = (Arc::clone(&self.certificate), stop.clone());
        Box::new(move || {
            if stop.is_cancelled() {
                return Err("stopping".to_owned());
            }
            certificate.check()
        })
    }

    /// Gets the certificate, and each later one. Where it is our own, whoever leads replaces its CA and makes it known.
    pub(super) fn keep_certificate(
        self,
        process: &Process<'_>,
        leadership: &watch::Receiver<Leadership>,
        parts: &mut Parts,
    ) {
        let &Process {
            kube,
            config,
            registry,
            pulses,
            stop,
        } = process;
        let (settings, times) = (&config.operator.webhook, config.timings.webhook);
        match settings.certs {
            WebhookCerts::Files => {
                let files = Files::new(&settings.cert_dir, self.certificate, Arc::clone(registry));
                let pulse = pulses.begin("certificate", times.files_poll);
                let watched = files.run(times.files_poll, stop.clone(), pulse);
                parts.spawn(async move {
                    watched.await;
                    Ok(())
                });
            }
            WebhookCerts::SelfManaged => {
                let (own, publisher) = SelfManaged::new(
                    kube,
                    settings,
                    times.secret_poll,
                    self.certificate,
                    Arc::clone(registry),
                    leadership.clone(),
                );
                let (stop, grace) = (stop.clone(), grace(&config.timings));
                let pulse = pulses.begin("certificate", times.secret_poll);
                let kept = own.run(stop.clone(), pulse);
                parts.spawn(async move {
                    kept.await;
                    Ok(())
                });
                let leadership = leadership.clone();
                parts.spawn(async move {
                    let work = |term, end| {
                        let run = publisher.clone().run(term, end);
                        async move {
                            run.await;
                            anyhow::Ok(())
                        }
                    };
                    each_term(leadership, &stop, grace, work).await
                });
            }
        }
    }
}
