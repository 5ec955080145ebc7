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
mod growth;
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

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser as _;
use futures::{FutureExt as _, future::LocalBoxFuture};
use garm_operator_ground::{Ground, build_operator, servers::GarmVersion};

use figures::{Figure, Sheet};
use options::{Options, Settings};

/// Something to measure.
struct Scenario {
    name: &'static str,
    /// What it shows, in one line.
    what: &'static str,
    /// Measures once, on servers of its own.
    run: for<'a> fn(&'a Ground, &'a Settings) -> LocalBoxFuture<'a, Result<Vec<Figure>>>,
}

/// All scenarios, in the order in which they run.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "start",
        what: "exec to /readyz; memory of an operator without objects",
        run: |ground, settings| start::run(ground, settings).boxed_local(),
    },
    Scenario {
        name: "create",
        what: "many Pools created at once, until all are Ready",
        run: |ground, settings| create::create(ground, settings).boxed_local(),
    },
    Scenario {
        name: "restart",
        what: "the same Pools, an operator that starts, nothing changed",
        run: |ground, settings| create::restart(ground, settings).boxed_local(),
    },
    Scenario {
        name: "change",
        what: "maxRunners of a Pool patched, until GARM shows it",
        run: |ground, settings| edits::change(ground, settings).boxed_local(),
    },
    Scenario {
        name: "drift",
        what: "a pool edited in GARM by somebody else, until it is put back",
        run: |ground, settings| edits::drift(ground, settings).boxed_local(),
    },
    Scenario {
        name: "mirror",
        what: "an operator that sees many idle runners for the first time, until all have their objects",
        run: |ground, settings| runners::mirror(ground, settings).boxed_local(),
    },
    Scenario {
        name: "runners",
        what: "an instance of GARM appears, changes, goes, until its object shows it",
        run: |ground, settings| runners::runners(ground, settings).boxed_local(),
    },
    Scenario {
        name: "admit",
        what: "reviews of new Pools, and of an Image that all use",
        run: |ground, settings| admit::run(ground, settings).boxed_local(),
    },
    Scenario {
        name: "wipe",
        what: "GARM's database replaced, until everything is there again",
        run: |ground, settings| wipe::run(ground, settings).boxed_local(),
    },
    Scenario {
        name: "stuck",
        what: "a Pool that goes while GitHub refuses to remove its runner",
        run: |ground, settings| quiet::stuck(ground, settings).boxed_local(),
    },
    Scenario {
        name: "rest",
        what: "many idle runners, nothing to do",
        run: |ground, settings| quiet::rest(ground, settings).boxed_local(),
    },
    Scenario {
        name: "poll",
        what: "the same without the events socket",
        run: |ground, settings| quiet::poll(ground, settings).boxed_local(),
    },
    Scenario {
        name: "convert",
        what: "lists of Pools in the version that is not stored",
        run: |ground, settings| convert::run(ground, settings).boxed_local(),
    },
    Scenario {
        name: "memory",
        what: "many of everything, and large Secrets of others",
        run: |ground, settings| large::memory(ground, settings).boxed_local(),
    },
    Scenario {
        name: "churn",
        what: "runners that come and go, steadily",
        run: |ground, settings| large::churn(ground, settings).boxed_local(),
    },
    Scenario {
        name: "growth",
        what: "what one Pool or Runner more costs at ten times the size",
        run: |ground, settings| growth::run(ground, settings).boxed_local(),
    },
];

fn main() -> ExitCode {
    garm_operator_ground::entry();
    garm_operator_ground::run(measure(Options::parse()))
}

/// Runs what was asked for, and ends the servers whatever happens.
async fn measure(mut options: Options) -> Result<()> {
    if options.scenarios.is_empty() {
        println!("scenarios (`all` runs every one):");
        for scenario in SCENARIOS {
            println!("  {:<10}{}", scenario.name, scenario.what);
        }
        return Ok(());
    }
    let chosen = choose(&options.scenarios)?;
    if options.settings.operator.is_none() {
        options.settings.operator = Some(build_operator(Path::new(env!("CARGO_MANIFEST_DIR")))?);
    }
    let measured = Ground::play(options.settings.garm, async |ground| {
        run_all(ground, &options, &chosen).await
    });
    measured.await.map(drop)
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
            let figures = (scenario.run)(ground, &options.settings)
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
