//! What the documentation tells people to type, typed: on the ground's servers, with the operator running outside of the cluster under the rights, settings
//! and webhooks of the installed manifests.

mod shell;

use std::collections::VecDeque;

use anyhow::{Context as _, Result, bail, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, GarmOptions, Ground, Operator, Setup};
use serde_json::Value;

use self::shell::{Shell, blocks};
use crate::install::overlay::{ACCOUNT, NAMESPACE, Overlay};
use crate::world::{SOON, World, told};

const QUICKSTART: &str = include_str!("../../../docs/quickstart.md");
const README: &str = include_str!("../../../README.md");
const UPGRADE: &str = include_str!("../../../docs/upgrade.md");
const SAMPLES: &str = include_str!("../../../manifests/samples/all.yaml");

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "the_commands_of_the_documentation_do_what_they_say",
        all_commands,
    );
}

async fn all_commands(ground: &Ground) -> Result<()> {
    // The quickstart installs for the whole cluster, and takes it away again.
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = read(ground, &plane).await;
    plane.stop().await?;
    result
}

/// Somebody who does what is written, from the first page to the last.
async fn read(ground: &Ground, plane: &ControlPlane) -> Result<()> {
    let options = GarmOptions {
        setup: Setup::Uninitialised,
        ..GarmOptions::default()
    };
    let world = World::on(ground, plane, GarmVersion::V0_2_1, options).await?;
    let variables = vec![
        ("GARM_URL", world.garm.direct_url()),
        ("GARM_PASSWORD", world.garm.password().to_owned()),
        ("GITHUB_TOKEN", "ghp_planted-token".to_owned()),
        ("WEBHOOK_SECRET", "planted-webhook-secret".to_owned()),
    ];
    let mut reader = Reader {
        shell: Shell::new(ground, plane, variables)?,
        commands: commands(QUICKSTART).into(),
    };
    reader.until("rollout status", &world).await?;
    // There is no kubelet: the operator runs here, as the Deployment would have it.
    let (world, operator) = rolled_out(ground, plane, world).await?;
    let world = world.moved_to("runners");
    reader.until("describe pool small", &world).await?;
    world.wait_idle_runners(1).await?;
    stored_anew(&reader.shell, &world).await?;
    reader.until("scale pool small", &world).await?;
    world.wait_idle_runners(2).await?;
    reader.until("delete namespace runners", &world).await?;
    ensure_empty(&world).await?;

    let world = world.moved_to("playground");
    playground(&reader.shell, &world).await?;
    ensure_empty(&world).await?;
    world.finish(operator).await?;
    reader.until("delete -k", &world).await?;
    ensure!(reader.commands.is_empty(), "{:?}", reader.commands);
    Ok(())
}

/// Somebody who types one command of the quickstart after the other.
struct Reader {
    shell: Shell,
    commands: VecDeque<String>,
}

impl Reader {
    /// Goes on up to a command that holds these words, that one included.
    async fn until(&mut self, last: &str, world: &World<'_>) -> Result<()> {
        while let Some(command) = self.commands.pop_front() {
            // Nobody rolls out Pods here.
            if !command.contains("rollout status") {
                self.shell.run(&command).await?;
            }
            if command.starts_with("cp ") {
                edit(&self.shell, world)?;
            }
            if command.contains(last) {
                return Ok(());
            }
        }
        bail!("the quickstart has no {last:?}")
    }
}

/// The lines of all blocks that say what to type.
fn commands(page: &str) -> Vec<String> {
    let blocks = blocks(page, "console", None);
    let lines = blocks.iter().flat_map(|block| block.lines());
    lines.map(str::to_owned).collect()
}

/// Changes the lines of `fleet.yaml` that are marked, as far as they are not right already.
fn edit(shell: &Shell, world: &World<'_>) -> Result<()> {
    let path = shell.path("fleet.yaml");
    let text = std::fs::read_to_string(&path)?;
    let github = world.garm.github().url();
    let edited: Vec<String> = text
        .lines()
        .map(|line| match line.strip_suffix(" # change") {
            None => line.to_owned(),
            Some(line) => line
                .replace("https://github.example.com/api/v3", &github)
                .replace("https://github.example.com/api/uploads", &github)
                .replace("https://github.example.com", &github)
                .replace("http://garm.example.com:9997", &world.garm.direct_url()),
        })
        .collect();
    let edited = edited.join("\n");
    // In comments it may stay.
    let is_left = |line: &str| line.contains("example.com") && !line.trim().starts_with('#');
    ensure!(!edited.lines().any(is_left), "not marked: {edited}");
    std::fs::write(path, edited)?;
    Ok(())
}

/// Runs the operator as the installed Deployment says.
async fn rolled_out<'a>(
    ground: &'a Ground,
    plane: &'a ControlPlane,
    world: World<'a>,
) -> Result<(World<'a>, Operator)> {
    let secret = [
        "-n",
        NAMESPACE,
        "get",
        "secret",
        "garm-operator-garm",
        "-o",
        "json",
    ];
    let secret: Value = serde_json::from_str(&plane.kubectl_ok(&secret, "").await?)?;
    let keys = secret["data"].as_object().context("no data")?.keys();
    ensure!(keys.eq(["password", "server", "username"]), "{secret}");

    let overlay = Overlay::render(ground, "self-managed")?;
    let port = crate::hooks::free_port()?;
    overlay.install(plane, port).await?;
    let world = world.acting_as(NAMESPACE, ACCOUNT).await?;
    let operator = world
        .start(&overlay.command(world.any_command(), port))
        .await?;
    let valid = r#"{"apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "GarmServerConfig", "metadata": {"name": "probe"}, "spec": {}}"#;
    let dry = ["-n", "default", "create", "--dry-run=server", "-f", "-"];
    poll_until(SOON * 2, "the API server trusts the webhooks", async || {
        plane.kubectl_ok(&dry, valid).await.map(Seen::Yes)
    })
    .await?;
    Ok((world, operator))
}

/// Stores all objects anew, as the page on upgrades tells, and nobody notices.
async fn stored_anew(shell: &Shell, world: &World<'_>) -> Result<()> {
    let scripts = blocks(UPGRADE, "sh", Some("Stored versions"));
    ensure!(scripts.len() == 2, "{scripts:?}");
    let (before, mark) = (world.list("runners").await?, world.mark());
    let named = shell.run(&scripts[0]).await?;
    ensure!(named.lines().count() == 10, "{named}");
    let replaced = shell.run(&scripts[1]).await?;
    for done in [
        "pool.garm-operator.mercedes-benz.com/small replaced",
        "customresourcedefinition",
    ] {
        ensure!(replaced.contains(done), "{replaced}");
    }
    ensure!(!replaced.contains("unchanged"), "{replaced}");
    let uids = |runners: &[Value]| -> Vec<Value> {
        let uids = runners.iter().map(|one| one["metadata"]["uid"].clone());
        uids.collect()
    };
    ensure!(
        uids(&world.list("runners").await?) == uids(&before),
        "another runner"
    );
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");
    Ok(())
}

/// What the README tells to try, on the samples of the playground.
async fn playground(shell: &Shell, world: &World<'_>) -> Result<()> {
    let plane = world.plane;
    let name = world.namespace.as_str();
    plane.kubectl_ok(&["create", "namespace", name], "").await?;
    let samples = SAMPLES
        .replace("https://github.example.com", &world.garm.github().url())
        .replace("http://garm.example.com:9997", &world.garm.direct_url());
    world.kubectl(&["apply", "-f", "-"], &samples).await?;
    for pool in ["fast", "cheap"] {
        world.wait_ready("pool", pool).await?;
    }
    let commands = commands(README);
    let (last, first) = commands.split_last().context("no commands")?;
    for command in first {
        shell.run(command).await?;
    }
    let label = "garm-operator.mercedes-benz.com/pool-name=mine";
    poll_until(SOON * 2, "a runner of the own pool", async || {
        let runners = ["get", "runners", "-l", label, "-o", "name"];
        let runners = world.kubectl(&runners, "").await?;
        Ok(Seen::when(runners, |runners| !runners.is_empty()).map(drop))
    })
    .await?;
    shell.run(last).await?;
    ensure!(
        world.get("pool", "mine").await?.is_none(),
        "it is still there"
    );
    world
        .kubectl(&["delete", "--timeout=90s", "-f", "-"], &samples)
        .await?;
    let gone = ["delete", "namespace", name, "--timeout=90s"];
    plane.kubectl_ok(&gone, "").await.map(drop)
}

/// Fails when GARM holds anything that objects had made.
async fn ensure_empty(world: &World<'_>) -> Result<()> {
    for path in [
        "/instances",
        "/pools",
        "/repositories",
        "/github/credentials",
    ] {
        let left = world.garm.api().list(path).await?;
        ensure!(left.is_empty(), "GARM still has {path}: {left:?}");
    }
    Ok(())
}
