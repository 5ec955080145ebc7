//! The names that dashboards know.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use garm_operator::telemetry::reference;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};

use super::scrape::Scrape;
use crate::certificates::mount::Mount;
use crate::documents::entity;
use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "metrics_have_the_names_types_and_labels_of_the_go_operator",
        names,
    );
}

/// What the Go operator exposes: its own three, and those of controller-runtime 0.21. Name, type, labels.
const GO: &[(&str, &str, &str)] = &[
    ("certwatcher_read_certificate_errors_total", "counter", ""),
    ("certwatcher_read_certificate_total", "counter", ""),
    ("controller_runtime_active_workers", "gauge", "controller"),
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "controller",
    ),
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        "controller",
    ),
    (
        "controller_runtime_reconcile_total",
        "counter",
        "controller result",
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_webhook_latency_seconds",
        "histogram",
        "webhook",
    ),
    ("controller_runtime_webhook_panics_total", "counter", ""),
    (
        "controller_runtime_webhook_requests_in_flight",
        "gauge",
        "webhook",
    ),
    (
        "controller_runtime_webhook_requests_total",
        "counter",
        "code webhook",
    ),
    (
        "garm_operator_client_api_requests_errors_total",
        "counter",
        "controller method",
    ),
    (
        "garm_operator_client_api_requests_total",
        "counter",
        "controller method",
    ),
    (
        "garm_operator_client_jwt_expiration_timestamp_seconds",
        "gauge",
        "controller",
    ),
    ("leader_election_master_status", "gauge", "name"),
    ("process_cpu_seconds_total", "counter", ""),
    ("process_max_fds", "gauge", ""),
    ("process_network_receive_bytes_total", "counter", ""),
    ("process_network_transmit_bytes_total", "counter", ""),
    ("process_open_fds", "gauge", ""),
    ("process_resident_memory_bytes", "gauge", ""),
    ("process_start_time_seconds", "gauge", ""),
    ("process_virtual_memory_bytes", "gauge", ""),
    ("process_virtual_memory_max_bytes", "gauge", ""),
    ("rest_client_requests_total", "counter", "code host method"),
    ("workqueue_adds_total", "counter", "controller name"),
    // A `priority` is empty there, which is the same as none.
    ("workqueue_depth", "gauge", "controller name"),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "controller name",
    ),
    (
        "workqueue_queue_duration_seconds",
        "histogram",
        "controller name",
    ),
    ("workqueue_retries_total", "counter", "controller name"),
    (
        "workqueue_unfinished_work_seconds",
        "gauge",
        "controller name",
    ),
    (
        "workqueue_work_duration_seconds",
        "histogram",
        "controller name",
    ),
];

/// What we add.
const OURS: &[(&str, &str, &str)] = &[
    ("garm_operator_cached_objects", "gauge", "controller kind"),
    (
        "garm_operator_garm_event_age_seconds",
        "gauge",
        "controller",
    ),
    ("garm_operator_garm_events_connected", "gauge", "controller"),
    ("garm_operator_garm_events_total", "counter", "controller"),
    ("garm_operator_garm_ready", "gauge", "controller"),
    (
        "garm_operator_garm_request_duration_seconds",
        "histogram",
        "controller method route",
    ),
    (
        "garm_operator_garm_requests_in_flight",
        "gauge",
        "controller",
    ),
    (
        "garm_operator_garm_requests_total",
        "counter",
        "controller method route status",
    ),
    (
        "garm_operator_garm_resyncs_total",
        "counter",
        "controller result",
    ),
    ("garm_operator_invalid_objects", "gauge", "controller kind"),
    ("garm_operator_mirror_objects", "gauge", "controller kind"),
    (
        "garm_operator_mirror_unreadable_objects",
        "gauge",
        "controller kind",
    ),
    (
        "garm_operator_watch_errors_total",
        "counter",
        "controller kind",
    ),
    (
        "garm_operator_watch_idle_seconds",
        "gauge",
        "controller kind",
    ),
    (
        "garm_operator_webhook_certificate_expiration_timestamp_seconds",
        "gauge",
        "",
    ),
];

/// The names of all that is exposed without the state of objects.
pub fn known() -> impl Iterator<Item = &'static str> {
    GO.iter().chain(OURS).map(|(name, ..)| *name)
}

/// The lower-case kinds.
const CONTROLLERS: [&str; 8] = [
    "enterprise",
    "garmserverconfig",
    "githubcredential",
    "githubendpoint",
    "organization",
    "pool",
    "repository",
    "runner",
];

/// Names of calls that the Go operator counts by, as far as our calls have a like there.
const GO_METHODS: &[&str] = &[
    "Init",
    "Login",
    "client.Unauthenticated",
    "controller.Info",
    "controller.Update",
    "credentials.Create",
    "credentials.Delete",
    "credentials.Get",
    "credentials.List",
    "credentials.Update",
    "endpoints.Create",
    "endpoints.Delete",
    "endpoints.Get",
    "endpoints.List",
    "endpoints.Update",
    "enterprises.Create",
    "enterprises.Delete",
    "enterprises.Get",
    "enterprises.List",
    "enterprises.Update",
    "instances.Delete",
    "instances.Get",
    "instances.List",
    "instances.ListPool",
    "organization.Create",
    "organization.Delete",
    "organization.Get",
    "organization.List",
    "organization.Update",
    "pool.CreateEnterprise",
    "pool.CreateOrg",
    "pool.CreateRepo",
    "pool.Delete",
    "pool.Get",
    "pool.List",
    "pool.UpdatePool",
    "repository.Create",
    "repository.Delete",
    "repository.Get",
    "repository.List",
    "repository.Update",
];

/// Names of calls that the Go operator does not make.
const OUR_METHODS: [&str; 4] = [
    "provider.List",
    "webhook.Get",
    "webhook.Install",
    "webhook.Uninstall",
];

/// Fails when the reference in the documentation lacks a metric, or has one that nobody exposes.
fn ensure_described() -> Result<()> {
    let described = reference::own().context("no reference")?;
    let described: BTreeSet<&str> = described.iter().map(|one| one.name.as_str()).collect();
    let mut exposed: BTreeSet<&str> = known().collect();
    exposed.retain(|name| !name.starts_with("process_"));
    // Where the CA is the operator's own.
    exposed.insert("garm_operator_webhook_ca_expiration_timestamp_seconds");
    ensure!(
        described == exposed,
        "{:?}",
        described.symmetric_difference(&exposed)
    );
    Ok(())
}

async fn names(ground: &Ground, version: GarmVersion) -> Result<()> {
    ensure_described()?;
    let world = World::new(ground, version).await?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    mount.show(&Certificates::new()?)?;
    let command = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true");
    let operator = world.start(&mount.serve(command)).await?;
    let mut documents = world.manifests();
    documents.extend([
        entity("Organization", "acme", "pat"),
        entity("Enterprise", "big", "pat"),
    ]);
    world.apply(&documents).await?;
    world.wait_all_ready().await?;
    world.wait_ready("organization", "acme").await?;
    world.wait_ready("enterprise", "big").await?;
    world.wait_idle_runners(2).await?;
    // One call that fails.
    world.garm.drop_tokens().await?;
    let change = serde_json::json!({"spec": {"maxRunners": 9}});
    world.change("pool", "small", change).await?;

    let scrape = Scrape::of(&operator).await?;
    let known: BTreeSet<&str> = known().collect();
    ensure!(
        scrape.families() == known,
        "more: {:?}, fewer: {:?}",
        scrape.families().difference(&known),
        known.difference(&scrape.families())
    );
    for (name, kind, labels) in GO.iter().chain(OURS) {
        ensure!(
            scrape.types[*name] == *kind,
            "{name} is a {}",
            scrape.types[*name]
        );
        for sample in scrape.samples.iter().filter(|one| one.family == *name) {
            let has = sample.labels.keys().filter(|label| *label != "le");
            let has = has.map(String::as_str).collect::<Vec<_>>().join(" ");
            ensure!(has == *labels, "{name} has the labels {has}");
        }
    }
    ensure_values(&scrape)?;
    world.finish(operator).await
}

/// Fails when a label has a value that no dashboard knows, or lacks one.
fn ensure_values(scrape: &Scrape) -> Result<()> {
    let controllers = BTreeSet::from(CONTROLLERS);
    for name in [
        "controller_runtime_reconcile_total",
        "controller_runtime_max_concurrent_reconciles",
        "workqueue_depth",
    ] {
        let found = scrape.values_of(name, "controller");
        ensure!(found == controllers, "{name}: {found:?}");
    }
    let results = scrape.values_of("controller_runtime_reconcile_total", "result");
    let all = BTreeSet::from(["error", "requeue", "requeue_after", "success"]);
    ensure!(results == all, "{results:?}");

    let calls = scrape.values_of("garm_operator_client_api_requests_total", "method");
    let known: BTreeSet<&str> = GO_METHODS.iter().chain(&OUR_METHODS).copied().collect();
    let unknown: Vec<_> = calls.difference(&known).collect();
    ensure!(unknown.is_empty(), "{unknown:?}");
    for made in [
        "Login",
        "controller.Info",
        "credentials.Create",
        "credentials.List",
        "endpoints.Create",
        "enterprises.Create",
        "instances.List",
        "organization.Create",
        "pool.CreateRepo",
        "pool.UpdatePool",
        "repository.Create",
    ] {
        ensure!(calls.contains(made), "{made} was not counted in {calls:?}");
    }
    let name = "garm_operator_client_api_requests_errors_total";
    let refused = scrape.value(name, &[("method", "client.Unauthenticated")]);
    ensure!(refused.context("no refused token")? >= 1.0, "{refused:?}");
    for name in GO.iter().chain(OURS).map(|(name, ..)| *name) {
        if name.starts_with("garm_operator_") && !name.contains("certificate") {
            let constant = scrape.values_of(name, "controller");
            let is_histogram = scrape.types[name] == "histogram";
            ensure!(
                is_histogram || constant == BTreeSet::from(["garm_operator"]),
                "{name}: {constant:?}"
            );
        }
    }
    Ok(())
}
