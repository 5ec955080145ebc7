//! The operator's own benchmark: scenarios on real servers, with figures beside a reference that is measured in the same run.
//!
//! `cargo run --release --example bench -- SCENARIO…` prints a table for each; `--json` one object a line for each figure.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is there to show something"
)]

mod admit;
mod convert;
mod create;
mod edits;
mod figures;
mod fleet;
mod large;
mod load;
mod objects;
mod options;
mod process;
mod quiet;
mod reference;
mod replay;
mod reviews;
mod runners;
mod serving;
mod stage;
mod start;
mod synthetic;
mod wipe;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser as _;
use futures::{FutureExt as _, future::LocalBoxFuture};
use garm_operator::cli::{self, Task};
use garm_operator_ground::{
    Ground,
    servers::{GarmVersion, Server},
};
use tokio::runtime::Runtime;

use figures::{Figure, Sheet};
use options::{Options, Sizes};

/// Makes another process of this executable the operator, so that it is of the same build.
const OPERATOR: &str = "GARM_OPERATOR_BENCH";

/// Something to measure.
struct Scenario {
    name: &'static str,
    /// What it shows, in one line.
    what: &'static str,
    /// Measures once, on servers of its own.
    run: for<'a> fn(&'a Ground, &'a Sizes) -> LocalBoxFuture<'a, Result<Vec<Figure>>>,
}

/// All scenarios, in the order in which they run.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "start",
        what: "exec to /readyz; memory of an operator without objects",
        run: |ground, sizes| start::run(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "create",
        what: "many Pools created at once, until all are Ready",
        run: |ground, sizes| create::create(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "restart",
        what: "the same Pools, an operator that starts, nothing changed",
        run: |ground, sizes| create::restart(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "change",
        what: "maxRunners of a Pool patched, until GARM shows it",
        run: |ground, sizes| edits::change(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "drift",
        what: "a pool edited in GARM by somebody else, until it is put back",
        run: |ground, sizes| edits::drift(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "mirror",
        what: "an operator that sees many idle runners for the first time, until all have their objects",
        run: |ground, sizes| runners::mirror(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "runners",
        what: "an instance of GARM appears, changes, goes, until its object shows it",
        run: |ground, sizes| runners::runners(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "admit",
        what: "reviews of new Pools, and of an Image that all use",
        run: |ground, sizes| admit::run(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "wipe",
        what: "GARM's database replaced, until everything is there again",
        run: |ground, sizes| wipe::run(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "stuck",
        what: "a Pool that goes while GitHub refuses to remove its runner",
        run: |ground, sizes| quiet::stuck(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "rest",
        what: "many idle runners, nothing to do",
        run: |ground, sizes| quiet::rest(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "poll",
        what: "the same without the events socket",
        run: |ground, sizes| quiet::poll(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "convert",
        what: "lists of Pools in the version that is not stored",
        run: |ground, sizes| convert::run(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "memory",
        what: "many of everything, and large Secrets of others",
        run: |ground, sizes| large::memory(ground, sizes).boxed_local(),
    },
    Scenario {
        name: "churn",
        what: "runners that come and go, steadily",
        run: |ground, sizes| large::churn(ground, sizes).boxed_local(),
    },
];

fn main() -> ExitCode {
    garm_operator_ground::entry();
    let result = if std::env::var_os(OPERATOR).is_some() {
        match cli::parse(std::env::args_os(), std::env::vars_os()) {
            Task::Exit(code) => return code,
            Task::Run(config) => on_runtime(garm_operator::run::run(*config)),
        }
    } else {
        on_runtime(measure(Options::parse()))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn on_runtime(work: impl Future<Output = Result<()>>) -> Result<()> {
    Runtime::new().context("start a runtime")?.block_on(work)
}

/// Runs what was asked for, and ends the servers whatever happens.
async fn measure(options: Options) -> Result<()> {
    if options.scenarios.is_empty() {
        println!("scenarios (`all` runs every one):");
        for scenario in SCENARIOS {
            println!("  {:<10}{}", scenario.name, scenario.what);
        }
        return Ok(());
    }
    let chosen = choose(&options.scenarios)?;
    let kubernetes = [
        Server::Etcd,
        Server::KubeApiserver,
        Server::KubeControllerManager,
        Server::Kubectl,
    ];
    let garm = Server::Garm(options.sizes.garm);
    let ground = Ground::start_only(&[&kubernetes[..], &[garm]].concat()).await?;
    let interrupted = tokio::signal::ctrl_c();
    let result = tokio::select! {
        result = run_all(&ground, &options, &chosen) => result,
        _ = interrupted => Ok(()),
    };
    ground.shutdown().await?;
    result
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.iter().any(|name| name == "all") {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| {
        SCENARIOS
            .iter()
            .find(|scenario| scenario.name == name)
            .with_context(|| format!("there is no scenario {name:?}; without one, all are listed"))
    };
    names.iter().map(find).collect()
}

async fn run_all(ground: &Ground, options: &Options, chosen: &[&Scenario]) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("this is no release build: its figures are of no use");
    }
    for scenario in chosen {
        let mut sheet = Sheet::new(scenario.name);
        for run in 1..=options.runs {
            eprintln!("{}: run {run} of {}", scenario.name, options.runs);
            let figures = (scenario.run)(ground, &options.sizes)
                .await
                .with_context(|| scenario.name)?;
            sheet.add(figures);
        }
        if options.json {
            sheet.lines().iter().for_each(|line| println!("{line}"));
        } else {
            println!("\n{}: {}\n{}", scenario.name, scenario.what, sheet.table());
        }
    }
    Ok(())
}

/// What goals depend on: 0.1 tells less, so that more has to be asked.
fn is_old(version: GarmVersion) -> bool {
    version.is_0_1()
}
