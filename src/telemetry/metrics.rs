//! All metric families of the process, under the names that existing dashboards use.
//!
//! `garm_operator_client_*` are the Go operator's own; `controller_runtime_*`, `workqueue_*` and `rest_client_*` are
//! those every Go controller exposes. Labels are bounded: never the name of an object, a runner or an id.
//! Counters are registered without `_total`, which the encoder appends.

mod families;
mod format;
mod garm;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, prometheus_text, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use self::families::{
    AnswerLabel, CertificateFamilies, ControllerLabel, HubFamilies, KindLabel, LeaseLabel,
    QueueFamilies, QueueLabel, ReconcileFamilies, RequestLabel, ResultLabel, Seconds, Status,
    WebhookFamilies, WebhookLabel, registered,
};
pub use self::format::Format;
use self::garm::GarmFamilies;
pub use self::garm::{GarmGauges, GarmReading};
use super::process::ProcessCollector;

type Hook = Box<dyn Fn() -> bool + Send + Sync>;

type Writer = Box<dyn Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync>;

/// Metrics that are written anew at each scrape, by whoever knows them.
#[derive(Clone, Default)]
struct Writers(Arc<Mutex<Vec<Writer>>>);

impl fmt::Debug for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writers").finish_non_exhaustive()
    }
}

impl Collector for Writers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writers.iter().try_for_each(|write| write(&mut encoder))
    }
}

/// All metrics of one process; shared by reference, never global.
pub struct Metrics {
    registry: Registry,
    hooks: Mutex<Vec<Hook>>,
    writers: Writers,
    garm: GarmFamilies,
    reconcile: ReconcileFamilies,
    queue: QueueFamilies,
    hub: HubFamilies,
    certificate: CertificateFamilies,
    webhook: WebhookFamilies,
    requests: Family<RequestLabel, Counter>,
    leader: Family<LeaseLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Registers every family; a family without a value is not written.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let writers = Writers::default();
        registry.register_collector(Box::new(writers.clone()));
        let own = registry.sub_registry_with_label(("controller".into(), "garm_operator".into()));
        let garm = GarmFamilies::register(own);
        let hub = HubFamilies::register(own);
        Self {
            garm,
            hub,
            reconcile: ReconcileFamilies::register(&mut registry),
            queue: QueueFamilies::register(&mut registry),
            certificate: CertificateFamilies::register(&mut registry),
            webhook: WebhookFamilies::register(&mut registry),
            requests: registered(
                &mut registry,
                "rest_client_requests",
                "Number of HTTP requests to the API server, partitioned by status code, method, and host",
                Family::default(),
            ),
            leader: registered(
                &mut registry,
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                Family::default(),
            ),
            hooks: Mutex::default(),
            writers,
            registry,
        }
    }

    /// Runs `hook` before each scrape, for values that are read rather than counted, until it answers `false`.
    pub fn before_scrape(&self, hook: impl Fn() -> bool + Send + Sync + 'static) {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(hook));
    }

    /// Has `write` write metrics of its own at each scrape; nothing is kept of them in between.
    pub fn on_scrape(
        &self,
        write: impl Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
    ) {
        let mut writers = self
            .writers
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        writers.push(Box::new(write));
    }

    /// Writes all metrics in `format`.
    pub fn encode(&self, format: Format) -> Result<String, fmt::Error> {
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|hook| hook());
        let mut body = String::new();
        match format {
            Format::OpenMetrics => text::encode(&mut body, &self.registry)?,
            Format::Text => prometheus_text::encode(&mut body, &self.registry)?,
        }
        Ok(body)
    }

    /// Counts one look at the certificate files of the webhooks.
    pub fn certificate_read(&self, is_good: bool) {
        self.certificate.reads.inc();
        if !is_good {
            self.certificate.errors.inc();
        }
    }

    /// Sets the expiry of the certificate that webhooks are served with, in Unix seconds.
    pub fn certificate_expiry(&self, unix_seconds: i64) {
        // Exact up to 2^53, which is far beyond any date.
        #[allow(clippy::cast_precision_loss)]
        self.certificate
            .expiry
            .get_or_create(&[])
            .set(unix_seconds as f64);
    }

    /// Sets the expiry of our own CA, in Unix seconds.
    pub fn ca_expiry(&self, unix_seconds: i64) {
        // Exact up to 2^53, which is far beyond any date.
        #[allow(clippy::cast_precision_loss)]
        self.certificate
            .ca_expiry
            .get_or_create(&[])
            .set(unix_seconds as f64);
    }

    /// Counts one answered or failed request to the API server; `code` is `None` when there was no answer.
    pub(crate) fn kube_request(&self, code: Option<u16>, method: &'static str, host: &Arc<str>) {
        let label = RequestLabel {
            code: Status(code),
            method,
            host: Arc::clone(host),
        };
        self.requests.get_or_create(&label).inc();
    }

    /// Says whether this replica leads by the Lease of this name.
    pub(crate) fn leads(&self, lease: &str, leads: bool) {
        let label = LeaseLabel {
            name: lease.to_owned(),
        };
        self.leader.get_or_create(&label).set(i64::from(leads));
    }

    /// Opens the metrics of one controller, all at zero. `name` is the lower-case kind.
    pub(crate) fn controller(&self, name: &'static str, concurrency: usize) -> ControllerMetrics {
        let families = &self.reconcile;
        let label = ControllerLabel { controller: name };
        let result = |result: &'static str| {
            families.total.get_or_create_owned(&ResultLabel {
                controller: name,
                result,
            })
        };
        families
            .max_concurrent
            .get_or_create(&label)
            .set(i64::try_from(concurrency).unwrap_or(i64::MAX));
        // No outcome is terminal here, and no requeue is without a delay: present at zero, because dashboards divide by them.
        drop(families.terminal_errors.get_or_create(&label));
        result("requeue");
        ControllerMetrics {
            success: result("success"),
            requeue_after: result("requeue_after"),
            error: result("error"),
            errors: families.errors.get_or_create_owned(&label),
            panics: families.panics.get_or_create_owned(&label),
            time: families.time.get_or_create_owned(&label),
            active: families.active.get_or_create_owned(&label),
        }
    }

    /// Opens the metrics of one work queue, all at zero.
    pub(crate) fn queue(&self, name: &'static str) -> QueueMetrics {
        let label = QueueLabel {
            name,
            controller: name,
        };
        QueueMetrics {
            depth: self.queue.depth.get_or_create_owned(&label),
            adds: self.queue.adds.get_or_create_owned(&label),
            retries: self.queue.retries.get_or_create_owned(&label),
            queue_time: self.queue.queue_time.get_or_create_owned(&label),
            work_time: self.queue.work_time.get_or_create_owned(&label),
            unfinished: self.queue.unfinished.get_or_create_owned(&label),
            longest: self.queue.longest.get_or_create_owned(&label),
        }
    }

    /// Opens the metrics of one webhook, those of good and bad answers at zero. `path` names it.
    pub(crate) fn webhook(&self, path: &'static str) -> WebhookMetrics {
        let families = &self.webhook;
        let label = WebhookLabel { webhook: path };
        let metrics = WebhookMetrics {
            path,
            panics: families.panics.clone(),
            requests: families.requests.clone(),
            latency: families.latency.get_or_create_owned(&label),
            in_flight: families.in_flight.get_or_create_owned(&label),
        };
        // Dashboards divide by these.
        for code in [200, 500] {
            drop(metrics.requests.get_or_create(&metrics.label(code)));
        }
        metrics
    }

    /// Opens the metrics of one kind's watch, all at zero.
    pub(crate) fn hub(&self, kind: &str) -> HubMetrics {
        let label = KindLabel {
            kind: kind.to_owned(),
        };
        HubMetrics {
            objects: self.hub.objects.get_or_create_owned(&label),
            invalid: self.hub.invalid.get_or_create_owned(&label),
            errors: self.hub.errors.get_or_create_owned(&label),
            idle: self.hub.idle.get_or_create_owned(&label),
        }
    }
}

/// Metrics of one controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    pub(crate) success: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) error: Counter,
    pub(crate) errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) time: Histogram,
    pub(crate) active: Gauge,
}

/// Metrics of one work queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    pub(crate) queue_time: Histogram,
    pub(crate) work_time: Histogram,
    unfinished: Seconds,
    longest: Seconds,
}

impl QueueMetrics {
    /// Takes over a reading of the queue; `adds` and `retries` are those since the last one.
    pub(crate) fn report(
        &self,
        depth: usize,
        adds: u64,
        retries: u64,
        unfinished: Duration,
        longest: Duration,
    ) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        self.adds.inc_by(adds);
        self.retries.inc_by(retries);
        self.unfinished.set(unfinished.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}

/// Metrics of one webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookMetrics {
    path: &'static str,
    /// Of all webhooks together.
    pub(crate) panics: Counter,
    requests: Family<AnswerLabel, Counter>,
    latency: Histogram,
    in_flight: Gauge,
}

impl WebhookMetrics {
    fn label(&self, code: u16) -> AnswerLabel {
        AnswerLabel {
            webhook: self.path,
            code,
        }
    }

    /// Counts a request under way until the answer is dropped.
    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts an answer with this HTTP status after this time.
    pub(crate) fn answered(&self, code: u16, after: Duration) {
        self.requests.get_or_create(&self.label(code)).inc();
        self.latency.observe(after.as_secs_f64());
    }
}

/// A request under way; the end of this value is the end of the request, also of one that was given up.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Metrics of one kind's watch.
#[derive(Clone, Debug)]
pub(crate) struct HubMetrics {
    objects: Gauge,
    invalid: Gauge,
    pub(crate) errors: Counter,
    idle: Seconds,
}

impl HubMetrics {
    /// Takes over a reading of the watch and its store.
    pub(crate) fn report(&self, objects: usize, invalid: usize, idle: Duration) {
        self.objects.set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.invalid.set(i64::try_from(invalid).unwrap_or(i64::MAX));
        self.idle.set(idle.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
