//! More of everything than GARM's SQLite bears: memory, and a steady coming and going.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use garm_operator_ground::{Ground, Operator};
use serde_json::{Value, json};

use crate::{
    figures::{Figure, Goal, count},
    objects::pool,
    options::Sizes,
    process,
    stage::Stage,
    synthetic::Synthetic,
};

const POOLS: usize = 1000;
const REPOSITORIES: usize = 20;
const RUNNERS: usize = 10_000;
const SECRETS: usize = 5000;
/// The size of each Secret, in bytes.
const SECRET: usize = 200_000;
/// How long memory is looked at after it has settled for half that time.
const MINUTES: f64 = 10.0;

const CHURN_POOLS: usize = 50;
const CHURN_MINUTES: f64 = 3.0;
/// How many runners come and go each second.
const A_SECOND: u32 = 50;
/// How long a runner lives.
const LIFE: Duration = Duration::from_secs(4);

/// What is still called flat, in MiB.
const FLAT: f64 = 2.0;
/// An answer that has not been seen before, a status code for example, has a series of its own; what grows with runners grows by thousands.
const FEW: f64 = 20.0;

/// Has an operator without Runner objects make Pools; answers their ids in GARM.
async fn pools(stage: &Stage<'_>, number: usize) -> Result<Vec<String>> {
    let repositories = stage.sizes.repositories.unwrap_or(REPOSITORIES).max(1);
    let command = stage
        .bare_command()?
        .argument("--operator-runner-reconciliation=false");
    let operator = stage.start(&command).await?;
    stage.prepare(repositories).await?;
    let all: Vec<Value> = (0..number).map(|n| pool(n, repositories, 0)).collect();
    let mark = stage.mark();
    stage.create(&stage.namespace, &all).await?;
    stage.all_ready(mark, number).await?;
    stage.calm(Duration::from_secs(5)).await?;
    stage.stop(operator).await?;
    let objects = stage.list(&stage.namespace, "Pool").await?;
    let id = |pool: &Value| pool["status"]["id"].as_str().map(ToOwned::to_owned);
    objects
        .iter()
        .map(|pool| id(pool).context("a Pool without id"))
        .collect()
}

/// Many of everything, and Secrets that are none of the operator's business.
pub async fn memory(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, sizes).await?;
    let ids = pools(&stage, sizes.pools.unwrap_or(POOLS).max(1)).await?;
    let runners = sizes.runners.unwrap_or(RUNNERS);
    let synthetic = Synthetic::default();
    for number in 0..runners {
        synthetic.add(number, &ids[number % ids.len()]);
    }
    synthetic.stand_in(&stage.garm);
    for number in 0..sizes.secrets.unwrap_or(SECRETS) {
        secret(&stage, number).await?;
    }
    let mark = stage.mark();
    let operator = stage.operator().await?;
    let shown = stage.all_shown(mark, runners).await?;
    stage.calm(Duration::from_secs(10)).await?;
    let minutes = sizes.minutes.unwrap_or(MINUTES);
    let settled = process::memory(operator.pid())?;
    tokio::time::sleep(Duration::from_secs_f64(minutes * 30.0)).await;
    let first = process::memory(operator.pid())?;
    tokio::time::sleep(Duration::from_secs_f64(minutes * 60.0)).await;
    let last = process::memory(operator.pid())?;
    let highest = process::highest_memory(operator.pid())?;
    let took = shown.duration_since(stage.kube.since(mark.kube)[0].at);
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("memory after half the time", "MiB", first).goal(Goal::AtMost(64.0)),
        Figure::new("growth after that", "MiB", last - first).goal(Goal::AtMost(FLAT)),
        Figure::new("memory when all is shown", "MiB", settled),
        Figure::new("highest memory", "MiB", highest),
        Figure::new("all Runners shown", "s", took.as_secs_f64()),
    ])
}

/// Creates a Secret; one after the other, as they are large.
async fn secret(stage: &Stage<'_>, number: usize) -> Result<()> {
    let data = "x".repeat(SECRET);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("large-{number:05}")},
        "stringData": {"data": data},
    });
    stage.create(&stage.namespace, &[secret]).await
}

/// What grows with the number of runners that have been.
#[derive(Clone, Copy, Debug)]
struct Grown {
    memory: f64,
    series: usize,
}

impl Grown {
    async fn of(operator: &Operator) -> Result<Self> {
        let metrics = operator.metrics().await?;
        let series = metrics.lines().filter(|line| !line.starts_with('#'));
        Ok(Self {
            memory: process::memory(operator.pid())?,
            series: series.count(),
        })
    }
}

/// Runners that come and go, steadily.
pub async fn churn(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, sizes).await?;
    let ids = pools(&stage, sizes.pools.unwrap_or(CHURN_POOLS).max(1)).await?;
    let synthetic = Synthetic::default();
    synthetic.stand_in(&stage.garm);
    let operator = stage.operator().await?;
    stage.calm(Duration::from_secs(5)).await?;
    let mark = stage.mark();
    let minutes = sizes.minutes.unwrap_or(CHURN_MINUTES);
    let steady = come_and_go(&stage, &synthetic, &ids, minutes, &operator).await?;
    let ended = Instant::now();
    let last = stage.calm(Duration::from_secs(10)).await?;
    let settled = Grown::of(&operator).await?;
    stage.tell(mark);
    let left = stage.list(&stage.namespace, "Runner").await?.len();
    let refused = stage.kube.look(mark.kube, |requests| {
        let refused = requests
            .iter()
            .filter(|one| one.status.is_some_and(|status| status >= 400));
        refused.count()
    });
    let errors = errors(&operator.metrics().await?);
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("failed passes", "", errors).goal(Goal::AtMost(0.0)),
        Figure::new("refusals of the API server", "", count(refused)),
        Figure::new("Runner objects left", "", count(left)).goal(Goal::AtMost(0.0)),
        Figure::new("quiet after the last change", "s", {
            last.saturating_duration_since(ended).as_secs_f64()
        }),
        Figure::new("growth of series", "", {
            count(settled.series) - count(steady.series)
        })
        .goal(Goal::AtMost(FEW)),
        Figure::new("growth of memory after a third", "MiB", {
            settled.memory - steady.memory
        })
        .goal(Goal::AtMost(FLAT)),
        Figure::new("memory", "MiB", settled.memory),
    ])
}

/// Lets runners come and go at a steady pace until the time is over and all are gone; answers how things stood after a third of it.
async fn come_and_go(
    stage: &Stage<'_>,
    synthetic: &Synthetic,
    ids: &[String],
    minutes: f64,
    operator: &Operator,
) -> Result<Grown> {
    let tick = Duration::from_secs(1) / A_SECOND;
    let mut ticks = tokio::time::interval(tick);
    let life = usize::try_from(LIFE.as_millis() / tick.as_millis())?;
    let begun = Instant::now();
    let (third, end) = (
        Duration::from_secs_f64(minutes * 20.0),
        Duration::from_secs_f64(minutes * 60.0),
    );
    let mut steady = None;
    let (mut next, mut gone) = (0, 0);
    let garm = &stage.garm;
    while begun.elapsed() < end || gone < next {
        ticks.tick().await;
        if begun.elapsed() < end {
            let pool = &ids[next % ids.len()];
            synthetic.put(garm, next, pool, "pending_create", "pending");
            next += 1;
        }
        // It becomes idle after a quarter of its life.
        let idle = next.checked_sub(life / 4);
        if let Some(idle) = idle.filter(|idle| *idle >= gone && begun.elapsed() < end) {
            synthetic.put(garm, idle, &ids[idle % ids.len()], "running", "idle");
        }
        if next - gone > life || begun.elapsed() >= end {
            synthetic.remove(garm, gone);
            gone += 1;
        }
        if steady.is_none() && begun.elapsed() > third {
            steady = Some(Grown::of(operator).await?);
        }
    }
    steady.context("too short a time")
}

/// How many passes have failed.
fn errors(metrics: &str) -> f64 {
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_reconcile_errors_total"));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
