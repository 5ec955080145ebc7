//! Faults on real servers: the operator is killed before and after every single request it sends, and nothing may be lost or doubled.
//!
//! `cargo run --release --example faults` prints what was done and what was violated; it fails when anything was.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is there to show something"
)]

mod checks;
mod cycle;
mod documents;
mod points;
mod stage;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use garm_operator::generate::crds;
use garm_operator_ground::{Ground, build_operator, servers::GarmVersion};

use points::{Points, Target};
use stage::Stage;

/// Within which each step has to come right, the kill included: more than what a back-off waits after a single failure.
const BOUND: Duration = Duration::from_secs(60);

/// Kills the operator before and after every request of one life of each kind, starts it again, and checks that all comes right.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Options {
    /// The operator to kill, instead of that of this source, which is built first.
    #[arg(long)]
    operator: Option<PathBuf>,
    /// GARM's version: v0.1.5 or v0.2.1.
    #[arg(long, default_value = "v0.2.1")]
    garm: GarmVersion,
    /// Only requests to this server.
    #[arg(long, value_enum)]
    only: Option<Target>,
    /// The first request to be killed at; 0 is the very first.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// The first request not to be killed at any more; without it, all that a life has.
    #[arg(long)]
    to: Option<usize>,
    /// Only each n-th request from the first on.
    #[arg(long, default_value = "1", value_name = "N")]
    step: NonZeroUsize,
    /// How many GARMs, each with an operator of its own, are worked on at a time.
    #[arg(long, default_value = "2", value_name = "N")]
    lanes: NonZeroUsize,
}

fn main() -> ExitCode {
    garm_operator_ground::entry();
    garm_operator_ground::run(play(Options::parse()))
}

/// Does what was asked for, and tells what came of it, also when it is cut short.
async fn play(options: Options) -> Result<()> {
    let Options { from, to, .. } = options;
    ensure!(
        to.is_none_or(|to| from < to),
        "there is no request from --from {from} to --to {}: --to has to be greater",
        to.unwrap_or_default()
    );
    let operator = match &options.operator {
        Some(operator) => operator.clone(),
        None => build_operator(Path::new(env!("CARGO_MANIFEST_DIR")))?,
    };
    ensure!(
        operator.is_file(),
        "--operator: there is no program {}",
        operator.display()
    );
    let points = Points::new(options.only, from, to, options.step);
    let played = Ground::play(options.garm, async |ground| {
        sweep(ground, &options, &operator, &points).await
    })
    .await?;
    println!("{}", points.report());
    if played.is_none() {
        println!("cut short: not all requests were killed at");
    }
    match points.violations() {
        0 => Ok(()),
        count => bail!("{count} violations"),
    }
}

/// Works through all points in some lanes.
async fn sweep(ground: &Ground, options: &Options, operator: &Path, points: &Points) -> Result<()> {
    let plane = ground.control_plane().await?;
    plane.install_crds(crds::definitions(), None).await?;
    let lane = async |_| {
        let mut stage = Stage::new(ground, plane, options.garm, operator).await?;
        while let Some(point) = points.next() {
            let result = cycle::run(&stage, point).await;
            let violated = result.is_err();
            points.done(point, result);
            // What a violation left must not be taken for the next one's.
            if violated {
                stage = Stage::new(ground, plane, options.garm, operator).await?;
            }
        }
        anyhow::Ok(())
    };
    let lanes = (0..options.lanes.get()).map(lane);
    futures::future::try_join_all(lanes)
        .await
        .context("set the servers up")?;
    Ok(())
}
