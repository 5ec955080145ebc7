//! What one object more costs at ten times the size: the operator's own processor time and memory, which no other server bounds.

use std::time::Duration;

use anyhow::{Context as _, Result};
use garm_operator_ground::Ground;

use crate::{
    create,
    figures::{Figure, Goal, count},
    large,
    options::Settings,
    process,
    stage::Stage,
    synthetic::Synthetic,
};

const POOLS: [usize; 3] = [100, 300, 1000];
const RUNNERS: [usize; 3] = [1000, 3000, 10_000];
/// The Pools that have the runners.
const CARRIERS: usize = 100;
/// How many runners change while all are there.
const CHANGES: usize = 500;
/// Between two changes.
const PACE: Duration = Duration::from_millis(20);
/// What the cost of one may grow to.
const GROWTH: f64 = 1.5;

/// What all Runners of a size cost.
struct Cost {
    runners: f64,
    /// Milliseconds of the processor for each new one.
    new: f64,
    /// Milliseconds of the processor for each change.
    change: f64,
    /// MiB in the end.
    memory: f64,
}

/// Pools and Runners at three sizes.
pub async fn run(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut pools = Vec::new();
    for number in POOLS {
        let settings = Settings {
            pools: Some(number),
            ..settings.clone()
        };
        let cost = create::cost(ground, &settings).await?;
        let name = format!("{number} Pools: processor for each");
        figures.push(Figure::new(name, "ms", cost));
        pools.push(cost);
    }
    figures.push(grown("a Pool", pools[2] / pools[0]));
    let mut costs = Vec::new();
    for number in RUNNERS {
        let cost = at(ground, settings, number).await?;
        for (what, unit, value) in [
            ("processor for each", "ms", cost.new),
            ("processor for a change", "ms", cost.change),
            ("memory", "MiB", cost.memory),
        ] {
            let name = format!("{number} Runners: {what}");
            figures.push(Figure::new(name, unit, value));
        }
        costs.push(cost);
    }
    figures.push(grown("a Runner", costs[2].new / costs[0].new));
    figures.push(grown(
        "a change of a Runner",
        costs[2].change / costs[0].change,
    ));
    // What the process takes without any is left out.
    let slope =
        |less: &Cost, more: &Cost| (more.memory - less.memory) / (more.runners - less.runners);
    let memory = slope(&costs[1], &costs[2]) / slope(&costs[0], &costs[1]);
    figures.push(grown("the memory of a Runner", memory));
    Ok(figures)
}

fn grown(what: &str, ratio: f64) -> Figure {
    Figure::new(format!("growth of {what} at ten times the size"), "", ratio)
        .goal(Goal::AtMost(GROWTH))
}

async fn at(ground: &Ground, settings: &Settings, runners: usize) -> Result<Cost> {
    let stage = Stage::new(ground, settings).await?;
    let ids = large::pools(&stage, CARRIERS).await?;
    let pool = |number: usize| ids[number % ids.len()].as_str();
    let synthetic = Synthetic::default();
    for number in 0..runners {
        synthetic.add(number, pool(number));
    }
    synthetic.stand_in(&stage.garm);
    let mark = stage.mark();
    let operator = stage.operator().await?;
    stage.all_shown(mark, runners).await?;
    stage.calm(Duration::from_secs(8)).await?;
    let shown = process::cpu(operator.pid())?;
    for number in (0..runners).step_by(runners.div_ceil(CHANGES)) {
        synthetic.put(&stage.garm, number, pool(number), "running", "active");
        tokio::time::sleep(PACE).await;
    }
    stage.calm(Duration::from_secs(8)).await?;
    let changed = process::cpu(operator.pid())?;
    let number = runners / runners.div_ceil(CHANGES);
    let memory = process::memory(operator.pid()).context("the operator runs")?;
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(Cost {
        runners: count(runners),
        new: shown * 1000.0 / count(runners),
        change: (changed - shown) * 1000.0 / count(number),
        memory,
    })
}
