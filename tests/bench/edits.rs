//! Single changes, one after the other: how soon the other side shows them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::{
    Ground,
    poll::Patience,
    proxy::{Proxy, Recorded},
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    figures::{Figure, Goal, count, percentile},
    objects::{pool, pool_name},
    options::Sizes,
    stage::Stage,
};

const POOLS: usize = 20;
const REPOSITORIES: usize = 2;
const CHANGES: usize = 100;

/// Within which a change arrives.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two changes, so that none is part of the other.
const PAUSE: Duration = Duration::from_millis(50);

/// Some Pools that are Ready, with their ids in GARM.
async fn ids(stage: &Stage<'_>) -> Result<Vec<String>> {
    let pools = stage.sizes.pools.unwrap_or(POOLS).max(1);
    let repositories = stage.sizes.repositories.unwrap_or(REPOSITORIES).max(1);
    stage.prepare(repositories).await?;
    let mark = stage.mark();
    let all: Vec<Value> = (0..pools).map(|n| pool(n, repositories, 0)).collect();
    stage.create(&stage.namespace, &all).await?;
    stage.all_ready(mark, pools).await?;
    stage.calm(Duration::from_secs(3)).await?;
    let mut ids = Vec::new();
    for number in 0..pools {
        let object = stage
            .objects(&stage.namespace, "Pool")?
            .get(&pool_name(number))
            .await?;
        let id = object.data["status"]["id"].as_str().context("no id")?;
        ids.push(id.to_owned());
    }
    Ok(ids)
}

/// When the first PUT of a pool since the mark was answered, and how long that took.
async fn put(proxy: &Proxy, mark: usize, id: &str) -> Result<(Instant, Duration)> {
    let patience =
        Patience::new(LIMIT, "the operator changes the pool").every(Duration::from_millis(1));
    loop {
        let found = proxy.look(mark, |requests| {
            let is_put = |one: &&Recorded| one.route == "PUT /pools/{id}" && one.path.ends_with(id);
            let put = requests.iter().find(is_put)?;
            Some((put.answered_at?, put.took()?))
        });
        match found {
            Some(found) => return Ok(found),
            None => patience.pause("no PUT").await?,
        }
    }
}

/// GARM's value is taken when the PUT is answered; that GARM shows it then is looked at afterwards, so that nobody's looking slows it.
async fn shows(stage: &Stage<'_>, id: &str, most: u64) -> Result<()> {
    let shown = stage.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(shown["max_runners"] == most, "not {most}: {shown}");
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// `maxRunners` patched, until GARM shows it.
pub async fn change(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, sizes).await?;
    let operator = stage.operator().await?;
    let ids = ids(&stage).await?;
    let changes = sizes.changes.unwrap_or(CHANGES);
    let pools = stage.objects(&stage.namespace, "Pool")?;
    let mark = stage.mark();
    let (mut patches, mut arrivals, mut puts) = (Vec::new(), Vec::new(), Vec::new());
    for (change, number) in (0..ids.len()).cycle().take(changes).enumerate() {
        let most = 100 + change as u64;
        let patch = Patch::Merge(json!({"spec": {"maxRunners": most}}));
        let from = stage.garm.proxy().mark();
        let begun = Instant::now();
        pools
            .patch(&pool_name(number), &PatchParams::default(), &patch)
            .await?;
        patches.push(millis(begun.elapsed()));
        let (answered, took) = put(stage.garm.proxy(), from, &ids[number]).await?;
        arrivals.push(millis(answered.duration_since(begun)));
        puts.push(millis(took));
        shows(&stage, &ids[number], most).await?;
        tokio::time::sleep(PAUSE).await;
    }
    stage.calm(Duration::from_secs(2)).await?;
    let requests = stage.garm.proxy().since(mark.garm).len();
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("patch to GARM p50", "ms", percentile(&arrivals, 50.0))
            .beside(percentile(&patches, 50.0))
            .goal(Goal::AtMostAbove(3.0)),
        Figure::new("patch to GARM p99", "ms", percentile(&arrivals, 99.0))
            .beside(percentile(&patches, 99.0))
            .goal(Goal::AtMostAbove(10.0)),
        Figure::new("GARM's own PUT p50", "ms", percentile(&puts, 50.0)),
        Figure::new(
            "requests to GARM per change",
            "",
            count(requests) / count(changes),
        )
        .goal(Goal::AtMost(1.0)),
    ])
}

/// A pool edited in GARM by somebody else, until it is put back.
pub async fn drift(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, sizes).await?;
    let operator = stage.operator().await?;
    let ids = ids(&stage).await?;
    let changes = sizes.changes.unwrap_or(CHANGES);
    let (mut edits, mut arrivals) = (Vec::new(), Vec::new());
    for (change, id) in ids.iter().cycle().take(changes).enumerate() {
        let edit = json!({"max_runners": 200 + change});
        let from = stage.garm.proxy().mark();
        let begun = Instant::now();
        stage.garm.api().put(&format!("/pools/{id}"), &edit).await?;
        edits.push(millis(begun.elapsed()));
        let (answered, _) = put(stage.garm.proxy(), from, id).await?;
        arrivals.push(millis(answered.duration_since(begun)));
        shows(&stage, id, 1).await?;
        tokio::time::sleep(PAUSE).await;
    }
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("edit to put back p50", "ms", percentile(&arrivals, 50.0))
            .beside(percentile(&edits, 50.0)),
        Figure::new("edit to put back p99", "ms", percentile(&arrivals, 99.0))
            .beside(percentile(&edits, 99.0))
            .goal(Goal::AtMost(150.0)),
    ])
}
