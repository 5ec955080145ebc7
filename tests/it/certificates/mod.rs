//! Certificates of the webhooks: from files and from ourselves, and how they change while everybody calls.

mod client;
mod configurations;
mod load;
pub mod mount;
mod own;
mod rights;

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Authority, Certificates, Ground, Operator};
use tokio::sync::watch;

use self::client::{Ended, Kept, Protocol, dial, shown};
use self::configurations::{apply, configurations, store, with_bundle};
use self::load::Load;
use self::mount::Mount;
use crate::world::{SOON, World};

/// Looks at files twice a second.
const SCALE: &str = "--timings-scale=0.05";

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    own::register(suite);
    rights::register(suite);
    suite.test(
        "no_call_fails_while_certificate_files_change_every_two_seconds_and_their_ca_three_times",
        minute_of_files,
    );
    suite.test(
        "without_a_certificate_the_process_waits_and_then_serves",
        late_certificate,
    );
    suite.test(
        "a_swapped_certificate_is_served_and_a_broken_one_is_not",
        swapped,
    );
    suite.test(
        "api_server_garm_and_webhooks_all_speak_tls_in_one_process",
        three_sides,
    );
    suite.test(
        "webhooks_are_served_for_a_moment_after_the_stop",
        served_after_stop,
    );
}

/// What a probe answers.
async fn probe(operator: &Operator, path: &str) -> Result<(u16, String)> {
    let answer = reqwest::get(operator.health_url(path)).await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// The value of a metric without labels.
async fn metric(operator: &Operator, name: &str) -> Result<f64> {
    let text = operator.metrics().await?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.unwrap_or("0").parse()?)
}

async fn late_certificate(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    let certificates = Certificates::new()?;
    let mut operator = mount.serve(world.command().argument(SCALE)).start()?;
    poll_until(SOON, "it is not ready, with a reason", async || {
        let seen = probe(&operator, "/readyz").await?;
        Ok(Seen::when(seen, |(code, text)| {
            *code == 503 && text.contains("[-]webhooks failed") && text.contains("tls.crt")
        }))
    })
    .await?;
    ensure!(probe(&operator, "/healthz").await?.0 == 200, "it is alive");
    // Whoever calls is told at once, and need not wait for a deadline.
    let refused = shown(operator.webhook_address(), &certificates.ca_pem).await;
    ensure!(refused.is_err(), "a certificate from nowhere");
    // It works all the same.
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    operator.check_running()?;

    mount.show(&certificates)?;
    operator.wait_ready(SOON).await?;
    shown(operator.webhook_address(), &certificates.ca_pem).await?;
    world.finish(operator).await
}

async fn swapped(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    let authority = Authority::new()?;
    mount.show(&authority.issue()?)?;
    let operator = world
        .start(&mount.serve(world.command().argument(SCALE)))
        .await?;
    let address = operator.webhook_address();
    let prefix = world.namespace.clone();
    for configuration in configurations(&prefix, address, Some(&world.namespace))? {
        apply(world.plane, &with_bundle(configuration, authority.pem())).await?;
    }
    let (_bundle, trusted) = watch::channel(authority.pem().to_owned());
    let mut load = Load::start(address, &trusted, &world.plane.client(), &world.namespace);
    load.hold(Duration::from_secs(3)).await?;

    // By a CA in between, whose certificate comes along.
    let before = shown(address, authority.pem()).await?;
    let next = authority.intermediate()?.issue()?;
    mount.show(&next)?;
    let after = poll_until(SOON, "the next certificate", async || {
        let seen = shown(address, authority.pem()).await?;
        Ok(Seen::when(seen, |seen| *seen != before))
    })
    .await?;
    load.hold(Duration::from_secs(4)).await?;

    let faults = "certwatcher_read_certificate_errors_total";
    ensure!(metric(&operator, faults).await? == 0.0, "a fault so early");
    mount.swap(&next.certificate_pem, "-----BEGIN PRIVATE KEY-----\nbroken")?;
    poll_until(SOON, "the fault is counted, more than once", async || {
        let count = metric(&operator, faults).await?;
        Ok(Seen::when(count, |count| *count >= 3.0))
    })
    .await?;
    ensure!(shown(address, authority.pem()).await? == after);
    let log = operator.stderr();
    let lines = log.matches("the last good certificate stays").count();
    ensure!(lines == 1, "{lines} lines about it");
    let expiry = "garm_operator_webhook_certificate_expiration_timestamp_seconds";
    ensure!(metric(&operator, expiry).await? > 1e9, "no expiry");
    load.hold(Duration::from_secs(2)).await?;
    load.finish().await?;
    clean(&world, &prefix).await?;
    world.finish(operator).await
}

/// Removes the configurations, which would outlive the operator.
async fn clean(world: &World<'_>, prefix: &str) -> Result<()> {
    for configuration in configurations(prefix, ([127, 0, 0, 1], 1).into(), None)? {
        let input = configuration.to_string();
        world
            .plane
            .kubectl_ok(&["delete", "-f", "-"], &input)
            .await?;
    }
    Ok(())
}

async fn minute_of_files(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    let mut authority = Authority::new()?;
    mount.show(&authority.issue()?)?;
    let operator = world
        .start(&mount.serve(world.command().argument(SCALE)))
        .await?;
    let address = operator.webhook_address();
    let prefix = world.namespace.clone();
    for configuration in configurations(&prefix, address, Some(&world.namespace))? {
        apply(world.plane, &with_bundle(configuration, authority.pem())).await?;
    }
    let (bundle, trusted) = watch::channel(authority.pem().to_owned());
    let mut load = Load::start(address, &trusted, &world.plane.client(), &world.namespace);
    for _ in 0..3 {
        let next = Authority::new()?;
        // First both are known, then the next one signs.
        let both = format!("{}{}", authority.pem(), next.pem());
        store(world.plane, &prefix, &both).await?;
        bundle.send_replace(both);
        for _ in 0..5 {
            mount.show(&authority.issue()?)?;
            load.hold(Duration::from_secs(2)).await?;
        }
        authority = next;
        for _ in 0..5 {
            mount.show(&authority.issue()?)?;
            load.hold(Duration::from_secs(2)).await?;
        }
    }
    load.finish().await?;
    let log = operator.stderr();
    let swaps = log
        .matches("webhook certificate was read from files")
        .count();
    ensure!(swaps >= 20, "only {swaps} certificates were read");
    clean(&world, &prefix).await?;
    world.finish(operator).await
}

async fn three_sides(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let certificates = Certificates::new()?;
    let garm = world.garm.tls_proxy(&certificates).await?;
    let ca = ground
        .directory()
        .join(format!("{}-ca.pem", world.namespace));
    std::fs::write(&ca, &certificates.ca_pem)?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    mount.show(&certificates)?;
    let command = ground
        .operator(env!("CARGO_BIN_EXE_garm-operator"))
        .garm(&world.garm)
        .garm_proxy(&garm)
        .namespace(&world.namespace)
        .argument("--garm-ca-file")
        .argument(&ca)
        .argument("--kubeconfig")
        .argument(world.plane.kubeconfig_path());
    let operator = world.start(&mount.serve(command)).await?;
    let kubeconfig = std::fs::read_to_string(world.plane.kubeconfig_path())?;
    ensure!(kubeconfig.contains("https://127.0.0.1"), "{kubeconfig}");
    world.apply(&world.manifests()).await?;
    world.wait_all_ready().await?;
    ensure!(!garm.requests().is_empty(), "GARM was asked by another way");
    shown(operator.webhook_address(), &certificates.ca_pem).await?;
    world.finish(operator).await
}

async fn served_after_stop(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let mut mount = Mount::new(ground.directory(), &world.namespace)?;
    let certificates = Certificates::new()?;
    mount.show(&certificates)?;
    let mut operator = world.start(&mount.serve(world.command())).await?;
    let address = operator.webhook_address();
    let open = async || {
        let stream = dial(address, "127.0.0.1", &certificates.ca_pem, Protocol::Http2);
        Kept::over(stream.await?, Protocol::Http2).await
    };
    let mut kept = open().await?;
    ensure!(kept.call().await? == Ended::Answered);
    operator.signal_stop();
    let asked = std::time::Instant::now();
    poll_until(SOON, "it says that it stops", async || {
        let seen = probe(&operator, "/readyz").await?;
        Ok(Seen::when(seen, |(code, text)| {
            *code == 503 && text.contains("stopping")
        }))
    })
    .await?;
    // Both who were there and who come now are answered.
    let mut late = open().await?;
    ensure!(late.call().await? == Ended::Answered);
    ensure!(kept.call().await? == Ended::Answered);
    operator.wait(Duration::from_secs(15)).await?;
    let took = asked.elapsed();
    ensure!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(10),
        "it took {took:?}"
    );
    world.finish(operator).await
}
