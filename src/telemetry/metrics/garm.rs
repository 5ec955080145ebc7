//! Metrics of the connection to GARM: the Go operator's own names, and what it did not tell.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::Metrics;
use super::families::{NoLabels, Seconds, Status, registered};

/// Bounds in seconds for a call: most take GARM a few milliseconds, those that wait for GitHub seconds; none may take longer than 60 s.
const CALL_SECONDS: [f64; 12] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// A call to GARM, by the name the Go operator gives it.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

/// A route of GARM's API.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabel {
    method: &'static str,
    route: &'static str,
}

/// A route of GARM's API and the status of an answer.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabel {
    method: &'static str,
    route: &'static str,
    status: Status,
}

/// How something ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Objects of GARM.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// About GARM.
pub(super) struct GarmFamilies {
    token_expiry: Seconds,
    requests: Family<MethodLabel, Counter>,
    errors: Family<MethodLabel, Counter>,
    answers: Family<AnswerLabel, Counter>,
    durations: Family<RouteLabel, Histogram>,
    events_connected: Gauge,
    events: Counter,
    resyncs: Family<ResultLabel, Counter>,
    readings: GarmGauges,
}

/// What is read of the connection at each scrape.
#[derive(Clone, Debug)]
pub struct GarmReading {
    /// Whether GARM can be worked with.
    pub is_ready: bool,
    /// How long ago the last event came, if one ever did.
    pub event_age: Option<Duration>,
    /// How many requests wait for GARM's answer.
    pub under_way: usize,
    /// The collections of the mirror: name, objects, and those of the last list that could not be read.
    pub mirror: Vec<(&'static str, usize, usize)>,
}

/// Gauges that are read at each scrape.
#[derive(Clone, Debug)]
pub struct GarmGauges {
    ready: Family<NoLabels, Gauge>,
    event_age: Family<NoLabels, Seconds>,
    under_way: Family<NoLabels, Gauge>,
    objects: Family<KindLabel, Gauge>,
    unreadable: Family<KindLabel, Gauge>,
}

impl GarmGauges {
    /// Takes over a reading; `None` where there is no connection, as on a standby.
    pub fn set(&self, reading: Option<&GarmReading>) {
        let Some(reading) = reading else {
            self.ready.clear();
            self.event_age.clear();
            self.under_way.clear();
            self.objects.clear();
            self.unreadable.clear();
            return;
        };
        self.ready
            .get_or_create(&[])
            .set(i64::from(reading.is_ready));
        self.under_way
            .get_or_create(&[])
            .set(number(reading.under_way));
        match reading.event_age {
            Some(age) => {
                self.event_age.get_or_create(&[]).set(age.as_secs_f64());
            }
            None => self.event_age.clear(),
        }
        for &(kind, objects, unreadable) in &reading.mirror {
            let label = KindLabel { kind };
            self.objects.get_or_create(&label).set(number(objects));
            self.unreadable
                .get_or_create(&label)
                .set(number(unreadable));
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn call_histogram() -> Histogram {
    Histogram::new(CALL_SECONDS)
}

impl GarmFamilies {
    pub(super) fn register(own: &mut Registry) -> Self {
        Self {
            token_expiry: registered(
                own,
                "garm_operator_client_jwt_expiration_timestamp_seconds",
                "Expiry of the current GARM token in Unix seconds",
                Seconds::default(),
            ),
            requests: registered(
                own,
                "garm_operator_client_api_requests",
                "Calls made to GARM",
                Family::default(),
            ),
            errors: registered(
                own,
                "garm_operator_client_api_requests_errors",
                "Calls to GARM that failed",
                Family::default(),
            ),
            answers: registered(
                own,
                "garm_operator_garm_requests",
                "HTTP requests to GARM by method, route and status of the answer",
                Family::default(),
            ),
            durations: registered(
                own,
                "garm_operator_garm_request_duration_seconds",
                "How long GARM took to answer, by method and route",
                Family::new_with_constructor(call_histogram),
            ),
            events_connected: registered(
                own,
                "garm_operator_garm_events_connected",
                "1 while the events socket of GARM is connected, else 0",
                Gauge::default(),
            ),
            events: registered(
                own,
                "garm_operator_garm_events",
                "Events that GARM sent",
                Counter::default(),
            ),
            resyncs: registered(
                own,
                "garm_operator_garm_resyncs",
                "Rounds of lists of everything that GARM has",
                Family::default(),
            ),
            readings: GarmGauges::register(own),
        }
    }
}

impl GarmGauges {
    fn register(own: &mut Registry) -> Self {
        Self {
            ready: registered(
                own,
                "garm_operator_garm_ready",
                "1 while GARM can be worked with, else 0; absent on a replica that does not lead",
                Family::default(),
            ),
            event_age: registered(
                own,
                "garm_operator_garm_event_age_seconds",
                "Seconds since GARM sent its last event",
                Family::default(),
            ),
            under_way: registered(
                own,
                "garm_operator_garm_requests_in_flight",
                "Requests that wait for GARM's answer",
                Family::default(),
            ),
            objects: registered(
                own,
                "garm_operator_mirror_objects",
                "Objects in the copy of GARM per kind",
                Family::default(),
            ),
            unreadable: registered(
                own,
                "garm_operator_mirror_unreadable_objects",
                "Objects of GARM's last list per kind that could not be read",
                Family::default(),
            ),
        }
    }
}

impl Metrics {
    /// Counts one call to GARM under its Go name, for example `pool.UpdatePool`, and the failed ones once more.
    pub fn garm_called(&self, name: &'static str, failed: bool) {
        let label = MethodLabel { method: name };
        self.garm.requests.get_or_create(&label).inc();
        if failed {
            self.garm.errors.get_or_create(&label).inc();
        }
    }

    /// Counts a failure that is no call of its own, such as a refused token.
    pub fn garm_failed(&self, name: &'static str) {
        let label = MethodLabel { method: name };
        self.garm.errors.get_or_create(&label).inc();
    }

    /// Counts one HTTP request to GARM; `status` is `None` when no answer came.
    pub fn garm_answered(
        &self,
        method: &'static str,
        route: &'static str,
        status: Option<u16>,
        after: Duration,
    ) {
        let label = RouteLabel { method, route };
        self.garm
            .durations
            .get_or_create(&label)
            .observe(after.as_secs_f64());
        let label = AnswerLabel {
            method,
            route,
            status: Status(status),
        };
        self.garm.answers.get_or_create(&label).inc();
    }

    /// Sets the expiry of the current GARM token, in Unix seconds.
    pub fn garm_token_expiry(&self, unix_seconds: i64) {
        // Exact up to 2^53, which is far beyond any date.
        #[allow(clippy::cast_precision_loss)]
        self.garm.token_expiry.set(unix_seconds as f64);
    }

    /// Says whether GARM's events socket is connected and confirmed.
    pub fn garm_events_connected(&self, connected: bool) {
        self.garm.events_connected.set(i64::from(connected));
    }

    /// Counts one event of GARM.
    pub fn garm_event(&self) {
        self.garm.events.inc();
    }

    /// Counts one round of lists of everything.
    pub fn garm_resync(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        let label = ResultLabel { result };
        self.garm.resyncs.get_or_create(&label).inc();
    }

    /// Gives the gauges that are read at each scrape.
    pub fn garm_gauges(&self) -> GarmGauges {
        self.garm.readings.clone()
    }
}
