//! The command line.

use std::path::PathBuf;

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
    /// What is measured, and how much of everything.
    #[command(flatten)]
    pub settings: Settings,
}

/// What is measured, and how much of everything; sizes that are not given are as each scenario's goals want them.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The operator to measure, instead of that of this source, which is built first.
    #[arg(long)]
    pub operator: Option<PathBuf>,
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
