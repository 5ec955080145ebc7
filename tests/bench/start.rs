//! How soon an operator serves, and what it takes without objects.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use garm_operator_ground::Ground;

use crate::{
    figures::{Figure, Goal},
    options::Settings,
    process,
    serving::with_webhooks,
    stage::Stage,
};

/// When the memory is looked at.
const SETTLED: Duration = Duration::from_secs(5);
/// No start takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// From exec to a ready operator that serves webhooks, and its memory after that.
pub async fn run(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, settings).await?;
    let (command, _) = with_webhooks(ground, stage.command()?)?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let begun = Instant::now();
    let operator = command.start()?;
    let url = operator.health_url("/readyz");
    loop {
        let answer = client.get(&url).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            break;
        }
        if begun.elapsed() > LIMIT {
            bail!("not ready:\n{}", operator.stderr());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begun.elapsed();
    tokio::time::sleep(SETTLED).await;
    let memory = process::memory(operator.pid())?;
    let own = process::own_memory(operator.pid())?;
    stage.stop(operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("exec to ready", "s", took.as_secs_f64()).goal(Goal::AtMost(0.05)),
        Figure::new("memory after 5 s", "MiB", memory).goal(Goal::AtMost(18.0)),
        Figure::new("of it no pages of files", "MiB", own),
    ])
}
