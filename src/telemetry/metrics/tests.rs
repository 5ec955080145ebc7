use super::*;

/// Names of all families that have a sample, as a scrape shows them.
fn names(text: &str) -> Vec<&str> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut names: Vec<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    names.retain(|name| !name.starts_with("process_"));
    names.sort_unstable();
    names
}

#[test]
fn names_are_those_of_the_dashboards() {
    let metrics = Metrics::new();
    crate::telemetry::reference::touch(&metrics);
    let text = metrics.encode(Format::Text).unwrap();
    assert_eq!(
        names(&text),
        [
            "certwatcher_read_certificate_errors_total",
            "certwatcher_read_certificate_total",
            "controller_runtime_active_workers",
            "controller_runtime_max_concurrent_reconciles",
            "controller_runtime_reconcile_errors_total",
            "controller_runtime_reconcile_panics_total",
            "controller_runtime_reconcile_time_seconds",
            "controller_runtime_reconcile_total",
            "controller_runtime_terminal_reconcile_errors_total",
            "controller_runtime_webhook_latency_seconds",
            "controller_runtime_webhook_panics_total",
            "controller_runtime_webhook_requests_in_flight",
            "controller_runtime_webhook_requests_total",
            "garm_operator_cached_objects",
            "garm_operator_client_api_requests_errors_total",
            "garm_operator_client_api_requests_total",
            "garm_operator_client_jwt_expiration_timestamp_seconds",
            "garm_operator_garm_event_age_seconds",
            "garm_operator_garm_events_connected",
            "garm_operator_garm_events_total",
            "garm_operator_garm_ready",
            "garm_operator_garm_request_duration_seconds",
            "garm_operator_garm_requests_in_flight",
            "garm_operator_garm_requests_total",
            "garm_operator_garm_resyncs_total",
            "garm_operator_invalid_objects",
            "garm_operator_mirror_objects",
            "garm_operator_mirror_unreadable_objects",
            "garm_operator_watch_errors_total",
            "garm_operator_watch_idle_seconds",
            "garm_operator_webhook_ca_expiration_timestamp_seconds",
            "garm_operator_webhook_certificate_expiration_timestamp_seconds",
            "leader_election_master_status",
            "rest_client_requests_total",
            "workqueue_adds_total",
            "workqueue_depth",
            "workqueue_longest_running_processor_seconds",
            "workqueue_queue_duration_seconds",
            "workqueue_retries_total",
            "workqueue_unfinished_work_seconds",
            "workqueue_work_duration_seconds",
        ]
    );
    for line in [
        "controller_runtime_max_concurrent_reconciles{controller=\"pool\"} 10",
        "controller_runtime_reconcile_total{controller=\"pool\",result=\"requeue\"} 0",
        "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"host:443\"} 1",
        "garm_operator_client_jwt_expiration_timestamp_seconds{controller=\"garm_operator\"} 0.0",
        "garm_operator_garm_requests_total{controller=\"garm_operator\",method=\"GET\",route=\"/pools/{id}\",status=\"<error>\"} 1",
        "garm_operator_mirror_objects{controller=\"garm_operator\",kind=\"pools\"} 3",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "no {line} in\n{text}"
        );
    }
    let open = metrics.encode(Format::OpenMetrics).unwrap();
    assert!(open.contains("garm_operator_client_api_requests_total{controller=\"garm_operator\",method=\"pool.Get\"} 1"));
    assert!(!text.contains("_total_total") && !open.contains("_total_total"));
}

#[test]
fn a_call_that_never_failed_has_no_failures_to_show() {
    let metrics = Metrics::new();
    metrics.garm_called("Login", false);
    metrics.garm_token_expiry(1_900_000_000);
    let text = metrics.encode(Format::Text).unwrap();
    assert!(!names(&text).contains(&"garm_operator_client_api_requests_errors_total"));
    let expiry =
        "garm_operator_client_jwt_expiration_timestamp_seconds{controller=\"garm_operator\"} ";
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(expiry))
        .unwrap();
    assert_eq!(value.parse(), Ok(1.9e9));
}

#[test]
fn chooses_open_metrics_only_when_asked() {
    let choose = |accept| Format::from_accept(Some(accept));
    assert_eq!(
        choose("application/openmetrics-text; version=1.0.0"),
        Format::OpenMetrics
    );
    assert_eq!(
        choose("text/plain, application/openmetrics-text;q=0.3"),
        Format::OpenMetrics
    );
    assert_eq!(
        choose("application/openmetrics-text;q=0, */*"),
        Format::Text
    );
    assert_eq!(choose("*/*"), Format::Text);
    assert_eq!(Format::from_accept(None), Format::Text);
}

#[test]
fn hooks_run_until_they_are_done() {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };
    let metrics = Metrics::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    metrics.before_scrape(move || counted.fetch_add(1, Ordering::SeqCst) < 1);
    for _ in 0..4 {
        metrics.encode(Format::Text).unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn shows_this_process() {
    let text = Metrics::new().encode(Format::Text).unwrap();
    assert!(
        text.contains("process_resident_memory_bytes ")
            && text.contains("process_cpu_seconds_total ")
    );
}

#[test]
fn readings_of_a_connection_go_with_it() {
    let metrics = Metrics::new();
    let gauges = metrics.garm_gauges();
    let reading = GarmReading {
        is_ready: false,
        event_age: None,
        under_way: 2,
        mirror: vec![("pools", 3, 0)],
    };
    gauges.set(Some(&reading));
    let text = metrics.encode(Format::Text).unwrap();
    assert!(text.contains("garm_operator_garm_ready{controller=\"garm_operator\"} 0"));
    assert!(!text.contains("event_age"), "there was none");
    gauges.set(None);
    let text = metrics.encode(Format::Text).unwrap();
    for name in ["garm_ready", "in_flight{", "mirror_"] {
        assert!(!text.contains(name), "{name} in\n{text}");
    }
}
