//! The process itself: it ends only for reasons that it names, and not because a server is away.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator, OperatorCommand};

use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_kubeconfig_that_is_not_there_is_named", no_kubeconfig);
    suite.test("no_cluster_at_all_is_told", no_cluster);
    suite.test("a_port_in_use_is_named", port_in_use);
    suite.test("an_api_server_that_is_away_is_waited_for", no_api_server);
}

/// Settings without which nothing starts.
fn required(ground: &Ground) -> OperatorCommand {
    ground
        .operator(env!("CARGO_BIN_EXE_garm-operator"))
        .argument("--garm-server=http://127.0.0.1:9")
        .argument("--garm-username=admin")
        .variable("GARM_PASSWORD", "planted-password")
}

/// Starts the command and waits for its end, which must be a failure that says this.
async fn ensure_fails_with(command: &OperatorCommand, words: &[&str]) -> Result<()> {
    let mut operator = command.start()?;
    let status = operator.wait(Duration::from_secs(15)).await?;
    let said = operator.stderr();
    ensure!(!status.success(), "it ended well: {said}");
    ensure!(words.iter().all(|word| said.contains(word)), "{said}");
    ensure!(!said.contains("planted-password"), "it shows the password");
    Ok(())
}

async fn no_kubeconfig(ground: &Ground) -> Result<()> {
    let command = required(ground).argument("--kubeconfig=/no/such/kubeconfig");
    ensure_fails_with(&command, &["/no/such/kubeconfig", "--kubeconfig"]).await
}

async fn no_cluster(ground: &Ground) -> Result<()> {
    // No file in the home either.
    let command = required(ground).variable("HOME", "/no/such/home");
    ensure_fails_with(&command, &["no cluster", "--kubeconfig", "KUBECONFIG"]).await
}

async fn port_in_use(ground: &Ground) -> Result<()> {
    let plane = ground.control_plane().await?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").context("take a port")?;
    let address = taken.local_addr()?.to_string();
    // The file has the last word on the address.
    let file = ground.directory().join("port-in-use.yaml");
    std::fs::write(
        &file,
        format!("operator:\n  metricsBindAddress: {address}\n"),
    )?;
    let proxy = plane.proxy().await?;
    let command = required(ground)
        .kubernetes(&proxy)
        .argument("--config")
        .argument(&file);
    ensure_fails_with(&command, &[&address, "in use"]).await
}

async fn no_api_server(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    world.kube.refuse(true);
    let mut operator: Operator = world.start(&world.command()).await?;
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "it says what it misses", async || {
        let said = operator.stderr();
        Ok(Seen::when(said, |said| said.contains("API server")))
    })
    .await?;
    operator.check_running()?;
    world.kube.refuse(false);
    world.wait_all_ready().await?;
    world.finish(operator).await
}
