//! Pools that are made, changed and deleted all the time, so that there is always something to lose and something to double.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator::api::v1beta1::Pool;
use garm_operator_ground::Operator;
use garm_operator_ground::poll::{Seen, poll_until};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{SOON, World, condition};

/// Between two rounds, each of which makes a Pool.
const PACE: Duration = Duration::from_millis(250);

/// Pools on the move, until [`Churn::end`].
pub struct Churn {
    end: CancellationToken,
    running: JoinHandle<Tally>,
}

/// What has become of them.
#[derive(Default)]
struct Tally {
    /// The Pools that are to live, and their `maxRunners`.
    living: BTreeMap<String, i64>,
    /// How many were made and changed, and so reviewed.
    judged: usize,
    /// What it did not do, and when the replica was not ready.
    failures: Vec<String>,
}

impl Churn {
    /// Begins. The API server asks `serving` about each Pool; whether that is ready is asked all the time, too.
    pub fn begin(world: &World<'_>, serving: &Operator) -> Self {
        let end = CancellationToken::new();
        let pools = Api::namespaced(world.plane.client(), &world.namespace);
        let work = Work {
            pools,
            ready: serving.health_url("/readyz"),
            http: reqwest::Client::new(),
            tally: Tally::default(),
        };
        let running = tokio::spawn(work.run(end.clone()));
        Self { end, running }
    }

    /// Ends, and waits until GARM has exactly one pool for each Pool that is left, as it is wanted now. Fails when one call was refused or was
    /// not answered, be it by the API server or by the replica that it asks.
    pub async fn end(self, world: &World<'_>, serving: &Operator) -> Result<()> {
        self.end.cancel();
        let tally = self.running.await?;
        let failures = &tally.failures;
        ensure!(failures.is_empty(), "{}: {failures:#?}", failures.len());
        let (judged, reviews) = (tally.judged, reviews(serving).await?);
        ensure!(
            judged > 20 && reviews >= judged,
            "{judged} Pools were made or changed, and {reviews} reviews answered"
        );
        let what = "one pool in GARM for each Pool";
        poll_until(SOON * 2, what, async || {
            let (objects, pools) = (
                world.list("pool").await?,
                world.garm.api().list("/pools").await?,
            );
            Ok(match difference(&tally.living, &objects, &pools) {
                Some(difference) => Seen::NotYet(difference),
                None => Seen::Yes(()),
            })
        })
        .await
    }
}

/// How many reviews a replica has answered with a verdict.
async fn reviews(operator: &Operator) -> Result<usize> {
    let metrics = operator.metrics().await?;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("controller_runtime_webhook_requests_total{"))
        .filter(|line| line.contains("code=\"200\""))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(counts.sum())
}

/// What does not fit together.
fn difference(
    living: &BTreeMap<String, i64>,
    objects: &[Value],
    pools: &[Value],
) -> Option<String> {
    if objects.len() != living.len() || pools.len() != living.len() {
        let ids: Vec<&Value> = objects.iter().map(|one| &one["status"]["id"]).collect();
        let strange: Vec<_> = pools
            .iter()
            .filter(|pool| !ids.contains(&&pool["id"]))
            .collect();
        let (objects, pools) = (objects.len(), pools.len());
        return Some(format!(
            "{objects} Pools and {pools} pools for {}; of no Pool: {strange:?}",
            living.len()
        ));
    }
    objects.iter().find_map(|object| {
        let wanted = living.get(object["metadata"]["name"].as_str()?);
        let ready = condition(object, "Ready");
        let is_ready = ready["status"] == "True"
            && ready["observedGeneration"] == object["metadata"]["generation"];
        let id = &object["status"]["id"];
        let pool = pools.iter().find(|pool| pool["id"] == *id);
        let is_made = pool.is_some_and(|pool| {
            pool["max_runners"].as_i64() == wanted.copied()
                && pool["runner_prefix"] == "garm"
                && pool["enabled"] == true
        });
        (!is_ready || !is_made).then(|| format!("{object}: {pool:?}"))
    })
}

/// Who makes, changes and deletes.
struct Work {
    pools: Api<Pool>,
    ready: String,
    http: reqwest::Client,
    tally: Tally,
}

impl Work {
    async fn run(mut self, end: CancellationToken) -> Tally {
        let mut rounds = tokio::time::interval(PACE);
        for round in 0_usize.. {
            if end.run_until_cancelled(rounds.tick()).await.is_none() {
                break;
            }
            let done = self.round(round).await;
            self.note(done);
        }
        self.tally
    }

    /// Of four Pools one stays, two go while they are being made, and one when it is finished.
    async fn round(&mut self, round: usize) -> Result<()> {
        let made = self.make(round).await;
        self.note(made);
        for (age, max) in [(2, 2), (7, 3)] {
            if let Some(pool) = round.checked_sub(age) {
                let changed = self.change(pool, max).await;
                self.note(changed);
            }
        }
        for (age, goes) in [
            (3, [true, false, true, false]),
            (10, [false, false, false, true]),
        ] {
            if let Some(pool) = round.checked_sub(age)
                && goes[pool % 4]
            {
                let deleted = self.delete(pool).await;
                self.note(deleted);
            }
        }
        let answer = self.http.get(&self.ready).send().await?;
        ensure!(answer.status() == 200, "readyz: {}", answer.status());
        Ok(())
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.tally.failures.push(format!("{error:#}"));
        }
    }

    async fn make(&mut self, pool: usize) -> Result<()> {
        let name = format!("churn-{pool}");
        let object = serde_json::from_value(json!({
            "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "Pool",
            "metadata": {"name": name},
            "spec": {
                "githubScopeRef": {"apiGroup": "garm-operator.mercedes-benz.com", "kind": "Repository", "name": "tools"},
                "providerName": "fake", "imageName": "runner", "flavor": name, "osType": "linux", "osArch": "amd64",
                "tags": ["churn"], "enabled": true, "runnerBootstrapTimeout": 20, "minIdleRunners": 0, "maxRunners": 1,
            },
        }))?;
        let made = self.pools.create(&PostParams::default(), &object).await;
        made.with_context(|| format!("make {name}"))?;
        self.tally.judged += 1;
        self.tally.living.insert(name, 1);
        Ok(())
    }

    async fn change(&mut self, pool: usize, max: i64) -> Result<()> {
        let name = format!("churn-{pool}");
        let Some(current) = self.tally.living.get_mut(&name) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({"spec": {"maxRunners": max}}));
        let by = PatchParams::default();
        let changed = self.pools.patch(&name, &by, &patch).await;
        changed.with_context(|| format!("change {name}"))?;
        self.tally.judged += 1;
        *current = max;
        Ok(())
    }

    async fn delete(&mut self, pool: usize) -> Result<()> {
        let name = format!("churn-{pool}");
        let deleted = self.pools.delete(&name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("delete {name}"))?;
        self.tally.living.remove(&name);
        Ok(())
    }
}
