//! The metric families: names, help texts, labels.

use std::{
    fmt::{self, Write as _},
    hash::Hash,
    sync::{Arc, atomic::AtomicU64},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry},
};

/// Bounds in seconds for a reconcile: 5 ms to 60 s, as in controller-runtime, with fewer steps between.
const RECONCILE_SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0,
];

/// Makes a family of one metric without labels: unlike the metric alone it has no sample before its first value.
pub(super) type NoLabels = [(&'static str, &'static str); 0];

/// Bounds in seconds for an answer of a webhook: most take less than a millisecond, and the API server waits at most 30 s.
const WEBHOOK_SECONDS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0,
];

/// A gauge of seconds.
pub(super) type Seconds = Gauge<f64, AtomicU64>;

/// A controller.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ControllerLabel {
    pub(super) controller: &'static str,
}

/// A controller and how a pass ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) controller: &'static str,
    pub(super) result: &'static str,
}

/// A work queue, under both names that dashboards use.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct QueueLabel {
    pub(super) name: &'static str,
    pub(super) controller: &'static str,
}

/// A request to the API server.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabel {
    pub(super) code: Status,
    pub(super) method: &'static str,
    pub(super) host: Arc<str>,
}

/// The HTTP status of an answer; without one the word that client-go has for it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct Status(pub(super) Option<u16>);

impl EncodeLabelValue for Status {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        match self.0 {
            Some(status) => EncodeLabelValue::encode(&status, encoder),
            None => encoder.write_str("<error>"),
        }
    }
}

/// A webhook, by its path, and the HTTP status of an answer.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct AnswerLabel {
    pub(super) webhook: &'static str,
    pub(super) code: u16,
}

/// A webhook, by its path.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WebhookLabel {
    pub(super) webhook: &'static str,
}

/// A kind.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct KindLabel {
    pub(super) kind: String,
}

/// What replicas elect a leader by.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct LeaseLabel {
    pub(super) name: String,
}

/// About reconciles, per controller.
pub(super) struct ReconcileFamilies {
    pub(super) total: Family<ResultLabel, Counter>,
    pub(super) errors: Family<ControllerLabel, Counter>,
    pub(super) terminal_errors: Family<ControllerLabel, Counter>,
    pub(super) panics: Family<ControllerLabel, Counter>,
    pub(super) time: Family<ControllerLabel, Histogram>,
    pub(super) max_concurrent: Family<ControllerLabel, Gauge>,
    pub(super) active: Family<ControllerLabel, Gauge>,
}

/// About work queues.
pub(super) struct QueueFamilies {
    pub(super) depth: Family<QueueLabel, Gauge>,
    pub(super) adds: Family<QueueLabel, Counter>,
    pub(super) retries: Family<QueueLabel, Counter>,
    pub(super) queue_time: Family<QueueLabel, Histogram>,
    pub(super) work_time: Family<QueueLabel, Histogram>,
    pub(super) unfinished: Family<QueueLabel, Seconds>,
    pub(super) longest: Family<QueueLabel, Seconds>,
}

/// About webhooks, per path.
pub(super) struct WebhookFamilies {
    pub(super) panics: Counter,
    pub(super) requests: Family<AnswerLabel, Counter>,
    pub(super) latency: Family<WebhookLabel, Histogram>,
    pub(super) in_flight: Family<WebhookLabel, Gauge>,
}

/// About watches, per kind.
pub(super) struct HubFamilies {
    pub(super) objects: Family<KindLabel, Gauge>,
    pub(super) invalid: Family<KindLabel, Gauge>,
    pub(super) errors: Family<KindLabel, Counter>,
    pub(super) idle: Family<KindLabel, Seconds>,
}

/// About the certificate of the webhooks: the reads under controller-runtime's names.
pub(super) struct CertificateFamilies {
    pub(super) reads: Counter,
    pub(super) errors: Counter,
    /// Without a sample until there is a certificate.
    pub(super) expiry: Family<NoLabels, Seconds>,
    /// Without a sample where the CA is not ours.
    pub(super) ca_expiry: Family<NoLabels, Seconds>,
}

impl CertificateFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            reads: registered(
                registry,
                "certwatcher_read_certificate",
                "Total number of certificate reads",
                Counter::default(),
            ),
            errors: registered(
                registry,
                "certwatcher_read_certificate_errors",
                "Total number of certificate read errors",
                Counter::default(),
            ),
            expiry: registered(
                registry,
                "garm_operator_webhook_certificate_expiration_timestamp_seconds",
                "Expiry of the certificate that webhooks are served with, in Unix seconds",
                Family::default(),
            ),
            ca_expiry: registered(
                registry,
                "garm_operator_webhook_ca_expiration_timestamp_seconds",
                "Expiry of our own CA, in Unix seconds",
                Family::default(),
            ),
        }
    }
}

/// Registers `metric` and hands it back.
pub(super) fn registered<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Builds a family of histograms over `bounds`; a constructor function because a family makes its members on demand.
fn histograms<L: Clone + Hash + Eq>(new: fn() -> Histogram) -> Family<L, Histogram> {
    Family::new_with_constructor(new)
}

fn reconcile_histogram() -> Histogram {
    Histogram::new(RECONCILE_SECONDS)
}

fn webhook_histogram() -> Histogram {
    Histogram::new(WEBHOOK_SECONDS)
}

/// 10 µs to 100 s in powers of ten.
fn queue_histogram() -> Histogram {
    Histogram::new(exponential_buckets(1e-5, 10.0, 8))
}

impl ReconcileFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            total: registered(
                registry,
                "controller_runtime_reconcile",
                "Total number of reconciliations per controller",
                Family::default(),
            ),
            errors: registered(
                registry,
                "controller_runtime_reconcile_errors",
                "Total number of reconciliation errors per controller",
                Family::default(),
            ),
            terminal_errors: registered(
                registry,
                "controller_runtime_terminal_reconcile_errors",
                "Total number of terminal reconciliation errors per controller",
                Family::default(),
            ),
            panics: registered(
                registry,
                "controller_runtime_reconcile_panics",
                "Total number of reconciliation panics per controller",
                Family::default(),
            ),
            time: registered(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                histograms(reconcile_histogram),
            ),
            max_concurrent: registered(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
                Family::default(),
            ),
            active: registered(
                registry,
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
                Family::default(),
            ),
        }
    }
}

impl QueueFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            depth: registered(
                registry,
                "workqueue_depth",
                "Current depth of workqueue",
                Family::default(),
            ),
            adds: registered(
                registry,
                "workqueue_adds",
                "Total number of adds handled by workqueue",
                Family::default(),
            ),
            retries: registered(
                registry,
                "workqueue_retries",
                "Total number of retries handled by workqueue",
                Family::default(),
            ),
            queue_time: registered(
                registry,
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                histograms(queue_histogram),
            ),
            work_time: registered(
                registry,
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
                histograms(queue_histogram),
            ),
            unfinished: registered(
                registry,
                "workqueue_unfinished_work_seconds",
                "How many seconds of work is in progress and has not been observed by work_duration",
                Family::default(),
            ),
            longest: registered(
                registry,
                "workqueue_longest_running_processor_seconds",
                "How many seconds the longest running processor for workqueue has been running",
                Family::default(),
            ),
        }
    }
}

impl WebhookFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            requests: registered(
                registry,
                "controller_runtime_webhook_requests",
                "Total number of admission requests by HTTP status code.",
                Family::default(),
            ),
            latency: registered(
                registry,
                "controller_runtime_webhook_latency_seconds",
                "Histogram of the latency of processing admission requests",
                histograms(webhook_histogram),
            ),
            panics: registered(
                registry,
                "controller_runtime_webhook_panics",
                "Total number of webhook panics",
                Counter::default(),
            ),
            in_flight: registered(
                registry,
                "controller_runtime_webhook_requests_in_flight",
                "Current number of admission requests being served.",
                Family::default(),
            ),
        }
    }
}

impl HubFamilies {
    pub(super) fn register(own: &mut Registry) -> Self {
        Self {
            objects: registered(
                own,
                "garm_operator_cached_objects",
                "Objects held in memory per kind",
                Family::default(),
            ),
            invalid: registered(
                own,
                "garm_operator_invalid_objects",
                "Stored objects per kind that do not decode and are left alone",
                Family::default(),
            ),
            errors: registered(
                own,
                "garm_operator_watch_errors",
                "Failures of the watch of a kind",
                Family::default(),
            ),
            idle: registered(
                own,
                "garm_operator_watch_idle_seconds",
                "Seconds since the watch of a kind last made progress",
                Family::default(),
            ),
        }
    }
}
