//! Starting and ending an operator; a stand-in for the real one, which lives in another package.

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use garm_operator_ground::{Ground, harness::Suite, servers::GarmVersion};

/// Makes a copy of this executable the stand-in.
const STAND_IN: &str = "GROUND_TEST_OPERATOR";

pub fn add(suite: &mut Suite) {
    suite.test("an_operator_starts_and_ends", an_operator_starts_and_ends);
}

/// Acts as an operator, if this is one: says what it was started with, and is ready.
#[expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a program of some lines"
)]
pub fn play_role() {
    if std::env::var_os(STAND_IN).is_none() {
        return;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    eprintln!("started with {}", arguments.join(" "));
    eprintln!("password known: {}", std::env::var("GARM_PASSWORD").is_ok());
    eprintln!(
        "surroundings known: {}",
        std::env::var("CARGO_MANIFEST_DIR").is_ok()
    );
    let flag = "--operator-health-probe-bind-address=";
    let address = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix(flag))
        .unwrap();
    for stream in TcpListener::bind(address).unwrap().incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 1024]).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
    }
}

async fn an_operator_starts_and_ends(ground: &Ground) -> Result<()> {
    let garm = ground.garm(GarmVersion::V0_1_5).await?;
    let kubernetes = ground.control_plane().await?.proxy().await?;
    let program = std::env::current_exe().context("find this executable")?;
    let command = ground
        .operator(program)
        .variable(STAND_IN, "1")
        .kubernetes(&kubernetes)
        .garm(&garm)
        .namespace("team");

    let mut operator = command.start()?;
    operator.wait_ready(Duration::from_secs(10)).await?;
    let said = operator.stderr();
    ensure!(
        said.contains(&format!("--garm-server {}", garm.url())) && said.contains("--kubeconfig"),
        "{said}"
    );
    ensure!(said.contains("--operator-watch-namespace team"), "{said}");
    ensure!(
        said.contains("password known: true") && said.contains("surroundings known: false"),
        "{said}"
    );
    let status = operator.terminate(Duration::from_secs(5)).await?;
    ensure!(status.signal() == Some(15), "{status}");
    let ended = operator.wait_ready(Duration::from_secs(10)).await;
    ensure!(ended.is_err_and(|error| error.to_string().contains("ended by itself")));

    let mut again = command.start()?;
    again.wait_ready(Duration::from_secs(10)).await?;
    let status = again.kill().await?;
    ensure!(status.signal() == Some(9), "{status}");
    Ok(())
}
