//! The command line.

use clap::{Args, Parser};
use garm_operator_ground::servers::GarmVersion;

/// Measures the operator on real servers, beside a replay of its own writes.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub struct Options {
    /// What to measure; `all` for everything, nothing for a list.
    pub scenarios: Vec<String>,
    /// One JSON object a line for each figure, instead of tables.
    #[arg(long)]
    pub json: bool,
    /// How often each scenario runs; figures are medians.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// How much of everything.
    #[command(flatten)]
    pub sizes: Sizes,
}

/// How much of everything; what is not given is as each scenario's goals want it.
#[derive(Args, Clone, Debug)]
pub struct Sizes {
    /// GARM's version: v0.1.5 or v0.2.1.
    #[arg(long, default_value = "v0.2.1")]
    pub garm: GarmVersion,
    /// Also tell on standard error what was asked and written in each second.
    #[arg(long)]
    pub timeline: bool,
    /// How many Pools.
    #[arg(long)]
    pub pools: Option<usize>,
    /// Over how many repositories.
    #[arg(long)]
    pub repositories: Option<usize>,
    /// How many runners.
    #[arg(long)]
    pub runners: Option<usize>,
    /// How many Secrets of others.
    #[arg(long)]
    pub secrets: Option<usize>,
    /// How many changes one after the other.
    #[arg(long)]
    pub changes: Option<usize>,
    /// How long the long scenarios look, in minutes.
    #[arg(long)]
    pub minutes: Option<f64>,
}
