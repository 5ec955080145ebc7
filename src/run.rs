//! The process: builds the parts, starts them in order, stops them in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::event::reporter;
use crate::api::meta;
use crate::api::v1beta1::{Enterprise, Organization, Repository};
use crate::config::Config;
use crate::controllers::credential::Credentials;
use crate::controllers::driver::{self, Controller};
use crate::controllers::endpoint::Endpoints;
use crate::controllers::pool::Pools;
use crate::controllers::reaper::Reaper;
use crate::controllers::runner::{Names, Runners};
use crate::controllers::scope::Scopes;
use crate::controllers::server_config::ServerConfigs;
use crate::controllers::sweeper;
use crate::controllers::wiring::{self, Queues, Wiring};
use crate::controllers::{Context, Hubs};
use crate::domain::pushed::Hasher;
use crate::garm::{Garm, Observer, PasswordSource, Settings};
use crate::runtime::hub::{Hub, Options};
use crate::runtime::queue::{BackOff, Queue};
use crate::runtime::recorder::Events;
use crate::runtime::secrets::SecretReader;
use crate::runtime::status::StatusWriter;
use crate::runtime::{client, shutdown, worker};
use crate::server::health::Probes;
use crate::server::{self, metrics};
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;

/// Plural names of the kinds that have to be installed.
const PLURALS: [&str; 9] = [
    "enterprises",
    "garmserverconfigs",
    "githubcredentials",
    "githubendpoints",
    "images",
    "organizations",
    "pools",
    "repositories",
    "runners",
];

/// Runs the operator until SIGTERM or SIGINT.
///
/// # Errors
/// Fails when there is no cluster to connect to or an address cannot be listened on. GARM being away, fresh or old is no failure.
pub async fn run(config: Config) -> anyhow::Result<()> {
    log::init(
        config.operator.log_format,
        config.operator.log_verbosity_level,
    )
    .context("logging cannot be set up")?;
    let stop = shutdown::token().context("signals cannot be handled")?;
    let registry = Arc::new(Metrics::new());
    let kube = client::connect(
        config.kubeconfig.as_deref(),
        config.timings.kube_call,
        &registry,
    )
    .await?;

    // Probes and metrics outlive the work, so that a stopping process still answers.
    let serving = CancellationToken::new();
    let hubs = watch(&kube, &config, &registry, &stop);
    let servers = serve(&config, &registry, &hubs, &serving).await?;
    tokio::spawn(warn_of_missing_crds(kube.clone()));
    if config.operator.leader_election {
        tracing::warn!("operator.leaderElection has no effect in this version: run one replica");
    }

    let garm = Garm::new(
        garm_settings(&config),
        Arc::new(Recorded(Arc::clone(&registry))),
    );
    let password = config
        .garm
        .current_password()
        .context("the GARM password cannot be read")?;
    let context = Arc::new(Context {
        secrets: SecretReader::new(kube.clone()),
        status: StatusWriter::new(),
        events: recorders(&kube),
        hasher: Hasher::new(&password),
        timings: config.timings.clone(),
        runner_reconciliation: config.operator.runner_reconciliation,
        min_idle_runners_age: config.operator.min_idle_runners_age,
        failed_runner_ttl: config.operator.failed_runner_ttl,
        kube,
        garm: garm.clone(),
        hubs,
    });
    let mut work = JoinSet::new();
    work.spawn({
        let stop = stop.clone();
        async move { garm.run(stop).await }
    });
    work.spawn(control(context, config.clone(), registry, stop.clone()));

    stop.cancelled().await;
    // What is in flight gets a moment and is then dropped: creation finds its own traces again.
    let _ = tokio::time::timeout(config.timings.shutdown_drop, async {
        while work.join_next().await.is_some() {}
    })
    .await;
    work.shutdown().await;
    serving.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), servers.join_all()).await;
    tracing::info!("stopped");
    Ok(())
}

/// Opens the probe and metrics ports and serves them.
async fn serve(
    config: &Config,
    registry: &Arc<Metrics>,
    hubs: &Hubs,
    token: &CancellationToken,
) -> anyhow::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    let (hubs, stuck) = (hubs.clone(), config.timings.watch_stuck);
    let probes = Probes::new()
        .live("watches", move || hubs.check_progress(stuck))
        .ready("process", || Ok(()));
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

/// Starts one watch per kind.
fn watch(
    kube: &kube::Client,
    config: &Config,
    registry: &Arc<Metrics>,
    token: &CancellationToken,
) -> Hubs {
    let namespaces = &config.operator.watch_namespaces;
    let options = |page_size, capacity| Options {
        page_size,
        capacity,
        watch_timeout: config.timings.watch,
        metrics: Some(Arc::clone(registry)),
    };
    let few = options(500, 2_048);
    Hubs {
        endpoints: Hub::start_with(kube, namespaces, &few, wiring::index_endpoint, token),
        credentials: Hub::start_with(kube, namespaces, &few, wiring::index_credential, token),
        repositories: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        organizations: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        enterprises: Hub::start_with(kube, namespaces, &few, wiring::index_scope, token),
        images: Hub::start_with(kube, namespaces, &few, |_| Vec::new(), token),
        pools: Hub::start_with(
            kube,
            namespaces,
            &options(500, 8_192),
            wiring::index_pool,
            token,
        ),
        runners: Hub::start_with(
            kube,
            namespaces,
            &options(50, 16_384),
            wiring::index_runner,
            token,
        ),
        server_configs: Hub::start_with(kube, namespaces, &few, |_| Vec::new(), token),
        secrets: Hub::start_with(kube, namespaces, &options(10, 8_192), |_| Vec::new(), token),
    }
}

/// Runs all controllers once every watch has delivered its first list.
async fn control(
    context: Arc<Context>,
    config: Config,
    registry: Arc<Metrics>,
    token: CancellationToken,
) {
    if token
        .run_until_cancelled(context.hubs.loaded())
        .await
        .is_none()
    {
        return;
    }
    tracing::info!("watches are loaded");
    let queues = Queues::new(BackOff {
        base: context.timings.backoff_base,
        cap: context.timings.backoff_cap,
    });
    let names = Arc::new(Names::default());
    let reaper = Arc::new(Reaper::new(
        context.garm.clone(),
        context.timings.instance_delete_again,
        context.timings.instance_delete_lost,
        context.timings.instance_delete_patience,
    ));
    let operator = &config.operator;
    let mut loops = JoinSet::new();
    let mut start = Start {
        loops: &mut loops,
        registry: &registry,
        token: &token,
    };
    start.controller(
        &queues.server_configs,
        1,
        ServerConfigs(Arc::clone(&context)),
    );
    start.controller(&queues.endpoints, 1, Endpoints(Arc::clone(&context)));
    start.controller(&queues.credentials, 1, Credentials(Arc::clone(&context)));
    start.controller(
        &queues.repositories,
        operator.repository_concurrency,
        Scopes::<Repository>::new(Arc::clone(&context)),
    );
    start.controller(
        &queues.organizations,
        operator.organization_concurrency,
        Scopes::<Organization>::new(Arc::clone(&context)),
    );
    start.controller(
        &queues.enterprises,
        operator.enterprise_concurrency,
        Scopes::<Enterprise>::new(Arc::clone(&context)),
    );
    start.controller(
        &queues.pools,
        operator.pool_concurrency,
        Pools::new(Arc::clone(&context), Arc::clone(&reaper)),
    );
    let runners = Arc::new(Runners::new(
        Arc::clone(&context),
        reaper,
        Arc::clone(&names),
    ));
    loops.spawn(worker::run(
        Arc::clone(&queues.runners),
        operator.runner_concurrency,
        Runners::NAME,
        Arc::clone(&registry),
        token.clone(),
        move |key| {
            let runners = Arc::clone(&runners);
            async move { runners.reconcile(&key).await }
        },
    ));
    loops.spawn(sweeper::run(Arc::clone(&context), token.clone()));
    let wiring = Wiring::new(context, queues, names);
    let stop = token.clone();
    loops.spawn(async move { wiring.run(stop).await });
    while loops.join_next().await.is_some() {}
}

/// Starts controllers into one set of tasks.
struct Start<'a> {
    loops: &'a mut JoinSet<()>,
    registry: &'a Arc<Metrics>,
    token: &'a CancellationToken,
}

impl Start<'_> {
    fn controller<C: Controller>(&mut self, queue: &Arc<Queue>, concurrency: usize, controller: C) {
        let controller = Arc::new(controller);
        self.loops.spawn(worker::run(
            Arc::clone(queue),
            concurrency,
            C::NAME,
            Arc::clone(self.registry),
            self.token.clone(),
            move |key| {
                let controller = Arc::clone(&controller);
                async move { driver::reconcile(&*controller, &key).await }
            },
        ));
    }
}

fn garm_settings(config: &Config) -> Settings {
    let garm = &config.garm;
    Settings {
        base_url: garm.server.clone(),
        username: garm.username.clone(),
        password: match &garm.password_file {
            Some(file) => PasswordSource::File(file.clone()),
            None => PasswordSource::Value(garm.password.clone()),
        },
        init: garm.init,
        email: garm.email.clone(),
        ca_file: garm.ca_file.clone(),
        timings: config.timings.garm,
        poll_instances: config.operator.runner_reconciliation,
    }
}

/// One recorder per reporting component: they are what dashboards and `kubectl describe` group events by. A right that is missing is missing
/// for all of them, and said once.
fn recorders(kube: &kube::Client) -> HashMap<&'static str, Events> {
    let first = Events::new(kube.clone(), reporter::ENTERPRISE);
    [
        reporter::ENTERPRISE,
        reporter::ORGANIZATION,
        reporter::REPOSITORY,
        reporter::POOL,
        reporter::RUNNER,
        reporter::GARM_SERVER_CONFIG,
        reporter::GITHUB_ENDPOINT,
        reporter::GITHUB_CREDENTIAL,
    ]
    .into_iter()
    .map(|component| (component, first.component(component)))
    .collect()
}

/// Says so when our kinds are not installed; the watches go on trying.
async fn warn_of_missing_crds(kube: kube::Client) {
    match client::missing_crds(&kube, meta::API_VERSION, &PLURALS).await {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => tracing::error!("{}", client::missing_crds_hint(&missing)),
        Err(error) => {
            tracing::warn!(%error, "the API server could not be asked for our kinds; the watches go on trying");
        }
    }
}

/// Counts calls to GARM in the metrics.
struct Recorded(Arc<Metrics>);

impl Observer for Recorded {
    fn request(
        &self,
        label: &'static str,
        _route: &'static str,
        status: Option<u16>,
        _duration: Duration,
    ) {
        self.0.garm_request(label);
        if status.is_none_or(|status| status >= 400) {
            self.0.garm_request_failed(label);
        }
    }

    fn unauthenticated(&self) {
        self.0.garm_request_failed("client.Unauthenticated");
    }

    fn token_expires(&self, at: Timestamp) {
        self.0.garm_token_expiry(at.as_second());
    }

    fn socket(&self, is_up: bool) {
        self.0.garm_events_connected(is_up);
    }
}
