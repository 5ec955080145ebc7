//! What only the leader does: the connection to GARM, the controllers, the sweeper.
//!
//! All of it is built anew for each term; nothing outlives one but the watches.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::connection::{Heard, Loops};
use super::work::{Current, Line};
use super::{Parts, first_end};
use crate::api::event::reporter;
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
use crate::controllers::wiring::{Queues, Wiring};
use crate::controllers::{Context, Hubs};
use crate::domain::pushed::Hasher;
use crate::garm::{Garm, Permit};
use crate::runtime::ObjectKey;
use crate::runtime::client;
use crate::runtime::lease::Term;
use crate::runtime::pulse::{Pulse, Pulses};
use crate::runtime::queue::{BackOff, Queue};
use crate::runtime::recorder::Events;
use crate::runtime::secrets::SecretReader;
use crate::runtime::status::StatusWriter;
use crate::runtime::worker::{self, Next};
use crate::telemetry::metrics::Metrics;

/// The leader to be.
pub(super) struct Leader {
    kube: kube::Client,
    config: Config,
    registry: Arc<Metrics>,
    hubs: Hubs,
    pulses: Pulses,
    current: Current,
    hasher: Hasher,
}

impl Leader {
    /// Makes a leader that does nothing yet.
    ///
    /// # Errors
    /// Fails when the GARM password cannot be read.
    pub(super) fn new(
        kube: kube::Client,
        config: Config,
        registry: Arc<Metrics>,
        hubs: Hubs,
        pulses: Pulses,
        current: Current,
    ) -> anyhow::Result<Self> {
        let password = config
            .garm
            .current_password()
            .context("the GARM password cannot be read")?;
        Ok(Self {
            hasher: Hasher::new(&password),
            kube,
            config,
            registry,
            hubs,
            pulses,
            current,
        })
    }

    /// Works for one term, until `token` is cancelled and what is under way has ended.
    ///
    /// # Errors
    /// Fails when a part does.
    pub(super) async fn work(
        self: Arc<Self>,
        term: Term,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut parts = Parts::new();
        let loops = Arc::new(Loops::begin(&self.pulses, &self.config.timings.garm));
        let context = self.context(&term, &loops);
        let shown = self.current.show(&context.garm);
        parts.spawn({
            let (garm, token) = (context.garm.clone(), token.clone());
            async move {
                garm.run(token).await;
                Ok(())
            }
        });
        // A decision on half of the objects could mistake an owner for an orphan.
        let loaded = token.run_until_cancelled(self.hubs.loaded()).await;
        if loaded.is_some() {
            tracing::info!("watches are loaded");
            shown.add(self.control(Arc::clone(&context), &token, &mut parts));
        }
        first_end(&mut parts, &token).await?;
        while parts.join_next().await.is_some() {}
        context.flush_events().await;
        Ok(())
    }

    /// Builds what controllers work with. Every request by it that changes something, and every request to GARM, asks the term first.
    fn context(&self, term: &Term, loops: &Arc<Loops>) -> Arc<Context> {
        let operator = &self.config.operator;
        let kube = client::permitted(&self.kube, {
            let term = term.clone();
            move || term.may_begin()
        });
        let permit = Permit::new({
            let term = term.clone();
            move || term.may_begin()
        });
        let garm = Garm::new(
            self.config.garm_settings(permit),
            Arc::new(Heard::new(&self.registry, loops)),
        );
        Arc::new(Context {
            secrets: SecretReader::new(kube.clone()),
            status: StatusWriter::new(),
            events: recorders(&kube),
            hasher: self.hasher.clone(),
            timings: self.config.timings.clone(),
            runner_reconciliation: operator.runner_reconciliation,
            min_idle_runners_age: operator.min_idle_runners_age,
            failed_runner_ttl: operator.failed_runner_ttl,
            kube,
            garm,
            hubs: self.hubs.clone(),
        })
    }

    /// Starts all controllers, and lists them.
    fn control(
        &self,
        context: Arc<Context>,
        token: &CancellationToken,
        parts: &mut Parts,
    ) -> Vec<Line> {
        let operator = &self.config.operator;
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
        let mut start = Start {
            parts,
            registry: &self.registry,
            token,
            lines: Vec::new(),
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
        start.worker(
            &queues.runners,
            operator.runner_concurrency,
            Runners::NAME,
            move |key| {
                let runners = Arc::clone(&runners);
                async move { runners.reconcile(&key).await }
            },
        );
        let pulse = self.sweeper_pulse();
        start.part(sweeper::run(Arc::clone(&context), token.clone(), pulse));
        let wiring = Wiring::new(context, queues, names);
        let stop = token.clone();
        start.part(async move { wiring.run(stop).await });
        start.lines
    }

    fn sweeper_pulse(&self) -> Pulse {
        let rest = self.config.timings.marker_orphan_age;
        self.pulses.begin_with_garm("sweeper", rest)
    }
}

/// Starts what works for one term.
struct Start<'a> {
    parts: &'a mut Parts,
    registry: &'a Arc<Metrics>,
    token: &'a CancellationToken,
    lines: Vec<Line>,
}

impl Start<'_> {
    fn part(&mut self, part: impl Future<Output = ()> + Send + 'static) {
        self.parts.spawn(async move {
            part.await;
            Ok(())
        });
    }

    fn controller<C: Controller>(&mut self, queue: &Arc<Queue>, concurrency: usize, controller: C) {
        let controller = Arc::new(controller);
        self.worker(queue, concurrency, C::NAME, move |key| {
            let controller = Arc::clone(&controller);
            async move { driver::reconcile(&*controller, &key).await }
        });
    }

    fn worker<F, R>(
        &mut self,
        queue: &Arc<Queue>,
        concurrency: usize,
        name: &'static str,
        reconcile: F,
    ) where
        F: Fn(ObjectKey) -> R + Send + Sync + 'static,
        R: Future<Output = Next> + Send + 'static,
    {
        self.lines.push(Line {
            name,
            concurrency,
            queue: Arc::clone(queue),
        });
        self.part(worker::run(
            Arc::clone(queue),
            concurrency,
            name,
            Arc::clone(self.registry),
            self.token.clone(),
            reconcile,
        ));
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
