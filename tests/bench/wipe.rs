//! GARM's database is replaced by an empty one.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use garm_operator_ground::{Ground, Setup, documents::is_ready, poll::Patience, proxy::Recorded};
use serde_json::Value;

use crate::{
    figures::{Figure, Goal, count},
    objects::pool,
    options::Settings,
    reference::{Before, replay},
    replay::Script,
    stage::{Mark, Stage},
};

const POOLS: usize = 100;
const REPOSITORIES: usize = 20;
const LIMIT: Duration = Duration::from_secs(1200);

/// From GARM's first answer until everything is there again, and what the objects say meanwhile.
pub async fn run(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let repositories = settings.repositories.unwrap_or(REPOSITORIES).max(1);
    let number = settings.pools.unwrap_or(POOLS).max(1);
    let pools: Vec<Value> = (0..number).map(|n| pool(n, repositories, 0)).collect();
    let stage = Stage::new(ground, settings).await?;
    let operator = stage.operator().await?;
    stage.prepare(repositories).await?;
    let mark = stage.mark();
    stage.create(&stage.namespace, &pools).await?;
    stage.all_ready(mark, number).await?;
    stage.calm(Duration::from_secs(5)).await?;

    let mut before = Vec::new();
    for kind in ["GitHubEndpoint", "GitHubCredential", "Repository", "Pool"] {
        before.extend(stage.list(&stage.namespace, kind).await?);
    }

    let mark = stage.mark();
    stage.garm.wipe(Setup::Complete).await?;
    let answers = first_answer(&stage, mark).await?;
    let ready = all_again(&stage, mark, number + repositories).await?;
    stage.calm(Duration::from_secs(5)).await?;
    stage.tell(mark);
    let untrue = untrue(&stage, mark, answers).await?;
    stage.stop(operator).await?;
    let script = Script::new(&stage, mark, ready);
    let before = Before {
        repositories,
        pools: &pools,
        is_filled: false,
        with_status: &before,
    };
    let replayed = replay(&stage, script, before).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new(
            "all Ready again",
            "s",
            ready.saturating_duration_since(answers).as_secs_f64(),
        )
        .beside(replayed.took.as_secs_f64())
        .goal(Goal::AtMost(10.0)),
        Figure::new(
            "Ready written for what is not there",
            "",
            count(untrue.written),
        )
        .goal(Goal::AtMost(0.0)),
        Figure::new(
            "last Ready of before taken back",
            "s",
            untrue.taken_back.as_secs_f64(),
        ),
        Figure::new("writes replayed", "", count(replayed.writes)),
    ])
}

/// When GARM first answered the operator since it was stopped.
async fn first_answer(stage: &Stage<'_>, mark: Mark) -> Result<Instant> {
    let patience = Patience::new(LIMIT, "GARM answers the operator");
    loop {
        let first = stage.garm.proxy().look(mark.garm, |requests| {
            let mut answers = requests.iter().filter(|one| one.status.is_some());
            answers.find_map(|one| one.answered_at)
        });
        match first {
            Some(first) => return Ok(first),
            None => patience.pause("nothing").await?,
        }
    }
}

/// Whether a request writes the status of a Pool or Repository.
fn is_status(request: &Recorded) -> bool {
    let route = request.route.as_str();
    let is_ours = [
        "PATCH /pools/{name}/status",
        "PATCH /repositories/{name}/status",
    ];
    is_ours.contains(&route) && request.status == Some(200)
}

/// Waits until all objects show another id than before and are Ready; answers when the last was written.
async fn all_again(stage: &Stage<'_>, mark: Mark, objects: usize) -> Result<Instant> {
    let patience = Patience::new(LIMIT, "all is Ready again").every(Duration::from_millis(50));
    loop {
        let writes = stage.kube.look(mark.kube, |requests| {
            let statuses = requests.iter().filter(|one| is_status(one));
            statuses.cloned().collect::<Vec<_>>()
        });
        let mut renewed = HashSet::new();
        let mut ready = HashMap::new();
        for write in writes {
            let body = write.json();
            if body["status"]["id"].is_string() {
                renewed.insert(write.path.clone());
            }
            // One that is merely not there any more has lost its id and comes to a new one later.
            if is_ready(&body) && renewed.contains(&write.path) {
                ready.insert(write.path, write.answered_at.context("no answer")?);
            } else if body["status"]["conditions"].is_array() {
                ready.remove(&write.path);
            }
        }
        match ready.values().max() {
            Some(last) if ready.len() == objects => return Ok(*last),
            _ => {
                patience
                    .pause(format!("{} of {objects}", ready.len()))
                    .await?;
            }
        }
    }
}

/// What objects said of things that are not there.
struct Untrue {
    /// Writes that say Ready for an id that the new GARM does not have.
    written: usize,
    /// When the last object stopped saying what was true before, after GARM's first answer.
    taken_back: Duration,
}

async fn untrue(stage: &Stage<'_>, mark: Mark, answers: Instant) -> Result<Untrue> {
    let mut there = HashSet::new();
    for path in ["/pools", "/repositories"] {
        for one in stage.garm.api().list(path).await? {
            there.extend(one["id"].as_str().map(ToOwned::to_owned));
        }
    }
    let mut ids: HashMap<String, String> = HashMap::new();
    let mut first = HashMap::new();
    let mut written = 0;
    for write in stage
        .kube
        .since(mark.kube)
        .iter()
        .filter(|one| is_status(one))
    {
        let body = write.json();
        if let Some(id) = body["status"]["id"].as_str() {
            ids.insert(write.path.clone(), id.to_owned());
        }
        let is_there = ids.get(&write.path).is_some_and(|id| there.contains(id));
        if is_ready(&body) && !is_there && write.at > answers {
            written += 1;
        }
        let at = write.answered_at.context("no answer")?;
        first.entry(write.path.clone()).or_insert(at);
    }
    let last = first.values().max().copied().unwrap_or(answers);
    Ok(Untrue {
        written,
        taken_back: last.saturating_duration_since(answers),
    })
}
