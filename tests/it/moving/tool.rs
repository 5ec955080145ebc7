//! The program, run once as a tool.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use crate::world::World;

/// How a run of a tool ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it told besides.
    pub stderr: String,
}

/// Runs a subcommand that talks to the world's GARM, by the proxy before it.
pub async fn run(world: &World<'_>, arguments: &[&str]) -> Result<Ended> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_garm-operator"));
    command
        .env_clear()
        .env("GARM_PASSWORD", world.garm.password())
        .env("KUBECONFIG", world.plane.kubeconfig_path())
        .args(arguments)
        .args(["--garm-server", &world.garm.url()])
        .args(["--garm-username", world.garm.username()])
        .kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(90), command.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = ended.context("the tool does not end")??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let ended = Ended {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    };
    for secret in [
        "ghp_planted-token",
        "planted-webhook-secret",
        world.garm.password(),
    ] {
        let is_shown = ended.stdout.contains(secret) || ended.stderr.contains(secret);
        ensure!(!is_shown, "a secret is shown");
    }
    Ok(ended)
}

/// Runs `diff` on the world's namespace.
pub async fn diff(world: &World<'_>) -> Result<Ended> {
    run(
        world,
        &["diff", "--operator-watch-namespace", &world.namespace],
    )
    .await
}

/// Writes what GARM holds into a folder, with the secrets filled in.
pub async fn export(world: &World<'_>, folder: &Path) -> Result<Ended> {
    let path = folder.to_str().context("a path")?;
    let ended = run(
        world,
        &["export", "--namespace", &world.namespace, "--out", path],
    )
    .await?;
    for entry in std::fs::read_dir(folder.join("secrets"))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        let filled = text
            .replace("token: \"\"", "token: ghp_planted-token")
            .replace(
                "webhookSecret: \"\"",
                "webhookSecret: planted-webhook-secret",
            );
        ensure!(filled != text, "nothing to fill in: {text}");
        std::fs::write(&path, filled)?;
    }
    Ok(ended)
}

/// Applies an export with kubectl, as its own files tell.
pub async fn apply(world: &World<'_>, folder: &Path) -> Result<()> {
    let path = folder.to_str().context("a path")?;
    world
        .kubectl(&["apply", "-f", &format!("{path}/secrets")], "")
        .await?;
    world.kubectl(&["apply", "-k", path], "").await?;
    Ok(())
}
