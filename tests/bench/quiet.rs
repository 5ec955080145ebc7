//! What an operator does while nothing happens.

use std::time::Duration;

use anyhow::{Context as _, Result};
use garm_operator_ground::{
    Ground, Operator,
    poll::Patience,
    proxy::{Fault, Matcher, Recorded},
};
use kube::api::DeleteParams;

use crate::{
    figures::{Figure, Goal, count},
    fleet::Fleet,
    is_old,
    objects::pool_name,
    options::Sizes,
    process,
    stage::Stage,
};

const RUNNERS: usize = 1000;
/// As long as the operator's sync period, so that one resync is in it.
const MINUTES: f64 = 5.0;
const STUCK_MINUTES: f64 = 3.0;
/// How long the operator gets to find its pace.
const SETTLE: Duration = Duration::from_secs(40);

/// What was asked, written and used in some minutes.
struct Seen {
    minutes: f64,
    garm: Vec<Recorded>,
    kube: Vec<Recorded>,
    /// Of the operator, in seconds.
    cpu: f64,
    /// Of GARM, in seconds.
    garm_cpu: f64,
    memory: f64,
}

impl Seen {
    fn per_minute(&self, number: usize) -> f64 {
        count(number) / self.minutes
    }

    /// Requests that GARM has to answer. The proxy ends a dial of the events socket where there is to be none.
    fn requests(&self) -> f64 {
        let requests = self.garm.iter().filter(|one| !is_dial(one));
        self.per_minute(requests.count())
    }

    fn dials(&self) -> f64 {
        self.per_minute(self.garm.iter().filter(|one| is_dial(one)).count())
    }

    fn writes(&self, of: &[Recorded]) -> f64 {
        let writes = of.iter().filter(|one| one.is_write() || one.is_event());
        self.per_minute(writes.count())
    }
}

fn is_dial(request: &Recorded) -> bool {
    request.route == "GET /ws/events"
}

async fn watch(stage: &Stage<'_>, operator: &Operator, minutes: f64) -> Result<Seen> {
    let garm = stage.garm.pid().await.context("GARM runs")?;
    let mark = stage.mark();
    let before = (process::cpu(operator.pid())?, process::cpu(garm)?);
    tokio::time::sleep(Duration::from_secs_f64(minutes * 60.0)).await;
    stage.tell(mark);
    Ok(Seen {
        minutes,
        garm: stage.garm.proxy().since(mark.garm),
        kube: stage.kube.since(mark.kube),
        cpu: process::cpu(operator.pid())? - before.0,
        garm_cpu: process::cpu(garm)? - before.1,
        memory: process::memory(operator.pid())?,
    })
}

/// Many idle runners, with the events socket.
pub async fn rest(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let pools = Fleet::of(sizes.runners.unwrap_or(RUNNERS)).pools;
    let old = if is_old(sizes.garm) {
        count(pools) / MINUTES
    } else {
        0.0
    };
    idle(ground, sizes, false, 2.0 + old).await
}

/// The same without the socket.
pub async fn poll(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    idle(ground, sizes, true, 14.0).await
}

async fn idle(
    ground: &Ground,
    sizes: &Sizes,
    is_polling: bool,
    requests: f64,
) -> Result<Vec<Figure>> {
    let fleet = Fleet::of(sizes.runners.unwrap_or(RUNNERS));
    let stage = Stage::new(ground, sizes).await?;
    let operator = fleet.make(&stage, &stage.command()?).await?;
    if is_polling {
        let socket = Matcher::any().path_contains("/ws/events");
        stage.garm.proxy().rule(socket, Fault::Close);
        stage.garm.proxy().drop_sockets();
        tokio::time::sleep(SETTLE).await;
    }
    let minutes = sizes.minutes.unwrap_or(MINUTES);
    let seen = watch(&stage, &operator, minutes).await?;
    stage.stop(operator).await?;
    // What GARM does by itself is none of ours.
    let garm = stage.garm.pid().await.context("GARM runs")?;
    let before = process::cpu(garm)?;
    tokio::time::sleep(Duration::from_secs_f64(minutes * 60.0)).await;
    let alone = process::cpu(garm)? - before;
    stage.end().await?;

    let share = seen.cpu / (minutes * 60.0) * 100.0;
    let caused = (seen.garm_cpu - alone).max(0.0) / minutes;
    let mut figures = vec![
        Figure::new("requests to GARM per minute", "/min", seen.requests())
            .goal(Goal::AtMost(requests)),
        Figure::new("writes to GARM per minute", "/min", seen.writes(&seen.garm))
            .goal(Goal::AtMost(0.0)),
        Figure::new(
            "writes to Kubernetes per minute",
            "/min",
            seen.writes(&seen.kube),
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new("processor, of one core", "%", share),
        Figure::new("processor of GARM caused", "s/min", caused),
        Figure::new("processor of GARM alone", "s/min", alone / minutes),
        Figure::new("memory", "MiB", seen.memory),
    ];
    if is_polling {
        figures.push(Figure::new("dials of the socket", "/min", seen.dials()));
    } else {
        figures[3] = figures[3].clone().goal(Goal::AtMost(0.2));
        figures[4] = figures[4].clone().goal(Goal::AtMost(1.0));
    }
    Ok(figures)
}

/// A Pool that goes while GitHub refuses to remove its one runner.
pub async fn stuck(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let fleet = Fleet {
        repositories: 1,
        pools: 1,
        each: 1,
    };
    let stage = Stage::new(ground, sizes).await?;
    let operator = fleet.make(&stage, &stage.command()?).await?;
    let runner = stage.garm.github().runners().pop().context("no runner")?;
    // GitHub removes no busy runner.
    stage.garm.github().set_busy(&runner.name, true);
    let pools = stage.objects(&stage.namespace, "Pool")?;
    pools
        .delete(&pool_name(0), &DeleteParams::default())
        .await?;
    let mark = stage.mark();
    let patience = Patience::new(Duration::from_secs(60), "the operator asks for the runner");
    while stage
        .garm
        .proxy()
        .count(mark.garm, "DELETE /instances/{name}")
        == 0
    {
        patience.pause("it does not").await?;
    }
    tokio::time::sleep(SETTLE).await;
    let seen = watch(&stage, &operator, sizes.minutes.unwrap_or(STUCK_MINUTES)).await?;
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("requests to GARM per minute", "/min", seen.requests())
            .goal(Goal::AtMost(15.0)),
        Figure::new(
            "writes to Kubernetes per minute",
            "/min",
            seen.writes(&seen.kube),
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new("processor, of one core", "%", {
            seen.cpu / (seen.minutes * 60.0) * 100.0
        }),
    ])
}
