//! Pools that have idle runners.

use std::time::{Duration, Instant};

use anyhow::Result;
use garm_operator_ground::{Operator, OperatorCommand, poll::Patience};
use serde_json::Value;

use crate::{objects::pool, stage::Stage};

/// How long GARM may take to make all runners.
const LIMIT: Duration = Duration::from_secs(1800);
/// How many GARM is to make at once. Of a thousand it fails to make many, as its database is locked.
const AT_ONCE: usize = 50;
/// After so long without another idle runner, those that are not idle are given up: v0.2.1 never tries again what has failed.
const STUCK: Duration = Duration::from_secs(25);
/// GARM starts them in ticks of five seconds.
const LOOK: Duration = Duration::from_millis(500);

/// How many runners there are, and where.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// How many repositories.
    pub repositories: usize,
    /// How many Pools.
    pub pools: usize,
    /// How many runners each Pool has.
    pub each: usize,
}

impl Fleet {
    /// So many runners, ten in a Pool, over up to 20 repositories.
    pub fn of(runners: usize) -> Self {
        let pools = runners.div_ceil(10).max(1);
        Self {
            repositories: pools.min(20),
            pools,
            each: runners.div_ceil(pools),
        }
    }

    /// How many runners there are.
    pub fn runners(self) -> usize {
        self.pools * self.each
    }

    /// The Pools.
    pub fn objects(self) -> Vec<Value> {
        (0..self.pools)
            .map(|n| pool(n, self.repositories, self.each))
            .collect()
    }

    /// Has an operator make the Pools, and waits until all runners are idle and the operator rests.
    pub async fn make(self, stage: &Stage<'_>, command: &OperatorCommand) -> Result<Operator> {
        let operator = stage.start(command).await?;
        stage.prepare(self.repositories).await?;
        let mut there = 0;
        for some in self.objects().chunks(AT_ONCE.div_ceil(self.each)) {
            stage.create(&stage.namespace, some).await?;
            there += some.len() * self.each;
            wait_idle(stage, there).await?;
        }
        stage.calm(Duration::from_secs(8)).await?;
        Ok(operator)
    }
}

/// Waits until so many runners are idle, and GARM says so.
pub async fn wait_idle(stage: &Stage<'_>, runners: usize) -> Result<()> {
    let patience = Patience::new(LIMIT, "all runners are idle").every(LOOK);
    let (mut before, mut since) = (0, Instant::now());
    loop {
        // GARM is asked only in the end, or when nothing moves: a list of all instances is dear.
        let known = stage.garm.github().runners();
        let online = known.iter().filter(|runner| runner.online).count();
        if online != before {
            (before, since) = (online, Instant::now());
        }
        let is_stuck = since.elapsed() > STUCK;
        if online == runners || is_stuck {
            let all = stage.garm.api().list("/instances").await?;
            let (idle, others): (Vec<Value>, Vec<Value>) = all
                .into_iter()
                .partition(|one| one["runner_status"] == "idle" && one["status"] == "running");
            if idle.len() == runners && others.is_empty() {
                return Ok(());
            }
            if is_stuck {
                remove(stage, &others).await?;
                since = Instant::now();
            }
        }
        patience.pause(format!("{online} of {runners}")).await?;
    }
}

/// Removes instances that failed, for GARM to make others. It answers 400 for those that are on their way anyhow.
async fn remove(stage: &Stage<'_>, instances: &[Value]) -> Result<()> {
    for instance in instances {
        let name = instance["name"].as_str().unwrap_or_default();
        let path = format!("/instances/{name}?forceRemove=true");
        stage.garm.api().call("DELETE", &path, &Value::Null).await?;
    }
    Ok(())
}
