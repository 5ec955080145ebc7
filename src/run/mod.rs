//! The process: builds the parts, starts them in order, stops them in order.
//!
//! Every replica watches, and serves probes, metrics and webhooks; what only one of them may do is in [`leader`].

mod connection;
mod leader;
mod serve;
mod state;
mod vital;
mod watches;
mod webhooks;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Settings};
use crate::api::{install, meta};
use crate::config::{Config, Timings};
use crate::runtime::lease::{Elector, Grace, Leadership, Term, Times, View, each_term};
use crate::runtime::pulse::Pulses;
use crate::runtime::{client, shutdown};
use crate::telemetry::level::Level;
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;
use leader::Leader;
use serve::Views;
use state::Diagnosis;
use vital::Vital;
use work::Current;

/// Tasks of which none ends before the process does, unless it fails.
type Parts = JoinSet<anyhow::Result<()>>;

/// Runs the operator until SIGTERM or SIGINT.
///
/// # Errors
/// Fails when there is no cluster to connect to or an address cannot be listened on. GARM being away, fresh or old is no failure.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let started = Instant::now();
    let verbosity = config.operator.log_verbosity_level;
    let log = log::init(config.operator.log_format, verbosity);
    let level = Level::new(log.context("logging cannot be set up")?, verbosity);
    let stop = shutdown::token().context("signals cannot be handled")?;
    let registry = Arc::new(Metrics::new());
    let kube = client::connect(
        config.kubeconfig.as_deref(),
        config.timings.kube_call,
        &registry,
    )
    .await?;

    // Probes, metrics and what webhooks know outlive the work: a stopping process still answers, and rightly.
    let serving = CancellationToken::new();
    let hubs = watches::start(&kube, &config, &registry, &serving);
    let (pulses, current) = (Pulses::default(), Current::default());
    current.measure(&registry);
    if config.operator.state_metrics {
        watches::show_state(&registry, hubs.clone(), current.clone());
    }
    let mut parts = Parts::new();
    let admission = Arc::new(Admission::new(hubs.clone(), Settings::new(&config)));
    let router = Arc::clone(&admission).router(&registry);
    tokio::spawn({
        let serving = serving.clone();
        async move { admission.run(&serving).await }
    });
    let webhooks = webhooks::open(&config, router, &stop, &mut parts).await?;
    let (leadership, election) = candidate(&kube, &config, &registry, &stop, &mut parts);
    let views = Views {
        webhooks: webhooks.as_ref().map(|webhooks| webhooks.check(&stop)),
        vital: Vital {
            hubs: hubs.clone(),
            pulses: pulses.clone(),
            current: current.clone(),
            limit: config.timings.stuck,
        },
        diagnosis: Diagnosis {
            started,
            hubs: hubs.clone(),
            pulses: pulses.clone(),
            current: current.clone(),
            election: election.as_ref().map(|(_, view)| view.clone()),
            level,
        },
    };
    let servers = serve::probes_and_metrics(&config, &registry, views, &serving).await?;
    tokio::spawn(warn_of_missing_crds(kube.clone()));
    warn_of_idle_settings(&config);

    if let Some((elector, _)) = election {
        let pulse = pulses.begin("lease", Elector::REST);
        let stop = stop.clone();
        parts.spawn(async move {
            elector.run(stop, pulse).await;
            Ok(())
        });
    }
    if let Some(webhooks) = webhooks {
        let process = webhooks::Process {
            kube: &kube,
            config: &config,
            registry: &registry,
            pulses: &pulses,
            stop: &stop,
        };
        webhooks.keep_certificate(&process, &leadership, &mut parts);
    }
    let leader = Leader::new(kube, config.clone(), registry, hubs, pulses, current)?;
    parts.spawn(lead(
        leader,
        leadership,
        grace(&config.timings),
        stop.clone(),
    ));
    let ended = first_end(&mut parts, &stop).await;
    stop.cancel();
    finish(parts, &config.timings).await;
    serving.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), servers.join_all()).await;
    tracing::info!("stopped");
    ended
}

/// Waits for the parts of a process that stops. Each has a deadline of its own; none is waited for beyond the sum of these.
async fn finish(mut parts: Parts, timings: &Timings) {
    let webhook = timings.webhook;
    let patience = (timings.shutdown_drop * 3).max(webhook.serve_on + webhook.drain);
    let _ = tokio::time::timeout(patience, async {
        while parts.join_next().await.is_some() {}
    })
    .await;
    parts.shutdown().await;
}

/// Makes this process a candidate, if there is an election; shows who leads.
fn candidate(
    kube: &kube::Client,
    config: &Config,
    registry: &Arc<Metrics>,
    stop: &CancellationToken,
    parts: &mut Parts,
) -> (watch::Receiver<Leadership>, Option<(Elector, View)>) {
    if !config.operator.leader_election {
        let (always, leadership) = watch::channel(Leadership::Leading(Term::unlimited()));
        let stop = stop.clone();
        parts.spawn(async move {
            stop.cancelled().await;
            // Without it nobody would lead.
            drop(always);
            Ok(())
        });
        return (leadership, None);
    }
    let timings = &config.timings;
    let times = Times {
        duration: timings.lease.duration,
        renew: timings.lease.renew,
        retry: timings.lease.retry,
        release: timings.shutdown_drop,
    };
    let (elector, leadership, view) =
        Elector::new(kube, install::LEASE, times, Arc::clone(registry));
    (leadership, Some((elector, view)))
}

/// Does what only the leader does, whenever this process is it.
async fn lead(
    leader: Leader,
    leadership: watch::Receiver<Leadership>,
    grace: Grace,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let leader = Arc::new(leader);
    let work = |term, token| Arc::clone(&leader).work(term, token);
    each_term(leadership, &stop, grace, work).await
}

/// How long calls under way may go on. Creation finds its own traces again, so that one that is dropped does no harm.
fn grace(timings: &Timings) -> Grace {
    Grace {
        stop: timings.shutdown_drop,
        loss: timings.lease.duration.saturating_sub(timings.lease.renew),
    }
}

/// Waits for the stop. Whatever ends before it has failed, and half an operator is worse than one that is started anew.
async fn first_end(parts: &mut Parts, stop: &CancellationToken) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        Some(ended) = parts.join_next() => match ended {
            _ if stop.is_cancelled() => Ok(()),
            Ok(Ok(())) => Err(anyhow!("a part of the operator ended by itself")),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(anyhow!("a part of the operator failed: {error}")),
        },
    }
}

/// Says so when a setting comes to nothing.
fn warn_of_idle_settings(config: &Config) {
    let min_idle = config.operator.pool_defaults.min_idle_runners;
    if min_idle != 0 {
        tracing::warn!(
            min_idle,
            "operator.poolDefaults.minIdleRunners has no effect: the API server fills in the 0 of the CRD before webhooks are asked"
        );
    }
}

/// Says so when our kinds are not installed; the watches go on trying.
async fn warn_of_missing_crds(kube: kube::Client) {
    let plurals = install::plurals();
    let plurals = plurals.each_ref().map(AsRef::as_ref);
    match client::missing_crds(&kube, meta::API_VERSION, &plurals).await {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => tracing::error!("{}", client::missing_crds_hint(&missing)),
        Err(error) => {
            tracing::warn!(%error, "the API server could not be asked for our kinds; the watches go on trying");
        }
    }
}
