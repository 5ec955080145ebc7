//! Faults on real servers: the operator is killed before and after every single request it sends, and nothing may be lost or doubled.
//!
//! `cargo run --release --example faults` prints what was done and what was violated; it fails when anything was.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is there to show something"
)]

mod cycle;
mod points;
mod stage;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use garm_operator::generate::crds;
use garm_operator_ground::{
    Ground, build_operator,
    servers::{GarmVersion, Server},
};
use tokio::runtime::Runtime;

use points::{Place, Points};
use stage::Stage;

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
    only: Option<Place>,
    /// The first request to be killed at; 0 is the very first.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// The first request not to be killed at any more.
    #[arg(long)]
    to: Option<usize>,
    /// Of the requests between, each how manieth.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    step: u32,
    /// How many GARMs, each with an operator of its own, are worked on at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    lanes: u32,
}

fn main() -> ExitCode {
    garm_operator_ground::entry();
    let result = Runtime::new()
        .context("start a runtime")
        .and_then(|runtime| runtime.block_on(play(Options::parse())));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked for, and ends the servers whatever happens.
async fn play(mut options: Options) -> Result<()> {
    let operator = match options.operator.take() {
        Some(operator) => operator,
        None => build_operator(Path::new(env!("CARGO_MANIFEST_DIR")))?,
    };
    let kubernetes = [
        Server::Etcd,
        Server::KubeApiserver,
        Server::KubeControllerManager,
        Server::Kubectl,
    ];
    let garm = Server::Garm(options.garm);
    let ground = Ground::start_only(&[&kubernetes[..], &[garm]].concat()).await?;
    let interrupted = tokio::signal::ctrl_c();
    let result = tokio::select! {
        result = sweep(&ground, &options, &operator) => result,
        _ = interrupted => Ok(()),
    };
    ground.shutdown().await?;
    result
}

/// Works through all points in some lanes, and tells the counts.
async fn sweep(ground: &Ground, options: &Options, operator: &Path) -> Result<()> {
    let plane = ground.control_plane().await?;
    plane.install_crds(crds::definitions(), None).await?;
    let points = Points::new(
        options.only,
        options.from,
        options.to,
        usize::try_from(options.step)?,
    );
    let lanes = (0..options.lanes).map(async |_| {
        let mut stage = Stage::new(ground, plane, options.garm, operator).await?;
        while let Some(point) = points.next() {
            let result = cycle::run(&stage, point).await;
            // What a violation left must not be taken for the next one's.
            if result.is_err() {
                stage = Stage::new(ground, plane, options.garm, operator).await?;
            }
            points.done(point, result);
        }
        anyhow::Ok(())
    });
    futures::future::try_join_all(lanes).await?;
    println!("{}", points.report());
    match points.violations() {
        0 => Ok(()),
        count => bail!("{count} violations"),
    }
}
