//! Many Pools: from nothing, and at a restart.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use garm_operator_ground::{Ground, Operator, documents::is_ready, proxy::Recorded};
use serde_json::Value;

use crate::{
    figures::{Figure, Goal, count},
    is_old,
    objects::pool,
    options::Settings,
    process,
    reference::{Before, replay},
    replay::Script,
    stage::{Mark, Stage, is_work},
};

const POOLS: usize = 1000;
const REPOSITORIES: usize = 20;

/// After this long without a request an operator is quiet.
const QUIET: Duration = Duration::from_secs(5);

fn how_many(settings: &Settings) -> (usize, usize) {
    let repositories = settings.repositories.unwrap_or(REPOSITORIES).max(1);
    (settings.pools.unwrap_or(POOLS), repositories)
}

/// Pools that were made, and the operator that did.
struct Made {
    operator: Operator,
    mark: Mark,
    begun: Instant,
    ready: Instant,
    /// Processor time of the operator for all of it, in seconds.
    cpu: f64,
}

/// Creates all Pools at once before a running operator, and waits until it rests again.
async fn make(stage: &Stage<'_>) -> Result<Made> {
    let (pools, repositories) = how_many(stage.settings);
    let operator = stage.operator().await?;
    stage.prepare(repositories).await?;
    let all: Vec<Value> = (0..pools).map(|n| pool(n, repositories, 0)).collect();
    let mark = stage.mark();
    let before = process::cpu(operator.pid())?;
    let begun = Instant::now();
    stage.create(&stage.namespace, &all).await?;
    let ready = stage.all_ready(mark, pools).await?;
    stage.calm(QUIET).await?;
    Ok(Made {
        cpu: process::cpu(operator.pid())? - before,
        operator,
        mark,
        begun,
        ready,
    })
}

/// From the first creation until the last Pool is Ready, and what it cost.
pub async fn create(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let (pools, repositories) = how_many(settings);
    let stage = Stage::new(ground, settings).await?;
    let made = make(&stage).await?;
    let took = made.ready.duration_since(made.begun).as_secs_f64();
    let garm = stage.garm.proxy().since(made.mark.garm);
    let kube = stage.kube.since(made.mark.kube);
    stage.tell(made.mark);
    let orphans = orphans(&stage, pools).await?;
    stage.stop(made.operator).await?;
    let script = Script::new(&stage, made.mark, made.ready);
    let all: Vec<Value> = (0..pools).map(|n| pool(n, repositories, 0)).collect();
    let before = Before {
        repositories,
        pools: &all,
        is_filled: true,
        with_status: &[],
    };
    let replayed = replay(&stage, script, before).await?;
    stage.end().await?;

    let each = |number: usize| count(number) / count(pools);
    let number = |requests: &[Recorded], wanted: &dyn Fn(&Recorded) -> bool| {
        requests.iter().filter(|request| wanted(request)).count()
    };
    let garm_writes = number(&garm, &Recorded::is_write);
    let garm_reads = number(&garm, &|one| !one.is_write() && is_work(one));
    let failed = number(&garm, &|one| one.status == Some(500));
    Ok(vec![
        Figure::new("all Pools Ready", "s", took)
            .beside(replayed.took.as_secs_f64())
            .goal(Goal::Speed(0.6)),
        Figure::new("writes to GARM per Pool", "", each(garm_writes)).goal(Goal::AtMost(2.0)),
        Figure::new("reads of GARM per Pool", "", each(garm_reads)).goal(Goal::AtMost(1.0)),
        Figure::new(
            "writes to Kubernetes per Pool, Events apart",
            "",
            each(number(&kube, &Recorded::is_write)),
        )
        .goal(Goal::AtMost(4.0)),
        Figure::new(
            "Events per Pool",
            "",
            each(number(&kube, &Recorded::is_event)),
        ),
        Figure::new("answers 500 of GARM", "", count(failed))
            .beside(count(replayed.failures))
            .goal(Goal::AtMost(0.0)),
        Figure::new("orphans in GARM", "", count(orphans)).goal(Goal::AtMost(0.0)),
        Figure::new("processor per Pool", "ms", made.cpu * 1000.0 / count(pools)),
        Figure::new("writes replayed", "", count(replayed.writes)),
    ])
}

/// The operator's processor time for each new Pool, in milliseconds.
pub async fn cost(ground: &Ground, settings: &Settings) -> Result<f64> {
    let stage = Stage::new(ground, settings).await?;
    let made = make(&stage).await?;
    stage.stop(made.operator).await?;
    stage.end().await?;
    Ok(made.cpu * 1000.0 / count(how_many(settings).0))
}

/// Pools in GARM that no Ready Pool names; fails when a Pool is not Ready or names none.
async fn orphans(stage: &Stage<'_>, pools: usize) -> Result<usize> {
    let objects = stage.list(&stage.namespace, "Pool").await?;
    let ids: HashSet<String> = objects
        .iter()
        .filter(|pool| is_ready(pool))
        .filter_map(|pool| pool["status"]["id"].as_str().map(ToOwned::to_owned))
        .collect();
    ensure!(ids.len() == pools, "only {} Pools are Ready", ids.len());
    let in_garm = stage.garm.api().list("/pools").await?;
    let orphans = in_garm
        .iter()
        .filter(|pool| pool["id"].as_str().is_none_or(|id| !ids.contains(id)));
    Ok(orphans.count())
}

/// What a new operator asks and writes when all is as the last one left it.
pub async fn restart(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let (pools, _) = how_many(settings);
    let stage = Stage::new(ground, settings).await?;
    let made = make(&stage).await?;
    stage.stop(made.operator).await?;
    let mark = stage.mark();
    let begun = Instant::now();
    let operator = stage.operator().await?;
    let last = stage.calm(QUIET).await?;
    stage.tell(mark);
    let garm = stage.garm.proxy().since(mark.garm);
    let kube = stage.kube.since(mark.kube);
    stage.stop(operator).await?;
    stage.end().await?;

    let writes = |requests: &[Recorded]| {
        let writes = requests
            .iter()
            .filter(|one| one.is_write() || one.is_event());
        count(writes.count())
    };
    let allowed = 20.0
        + if is_old(settings.garm) {
            count(pools)
        } else {
            0.0
        };
    let quiet = last.saturating_duration_since(begun).as_secs_f64();
    Ok(vec![
        Figure::new("requests to GARM", "", count(garm.len())).goal(Goal::AtMost(allowed)),
        Figure::new("writes to GARM", "", writes(&garm)).goal(Goal::AtMost(0.0)),
        Figure::new("writes to Kubernetes", "", writes(&kube)).goal(Goal::AtMost(0.0)),
        Figure::new("quiet after", "s", quiet).goal(Goal::AtMost(3.0)),
    ])
}
