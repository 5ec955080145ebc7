//! Several replicas: all serve, one works, and another takes over however that one goes.

mod busy;
mod churn;
mod ends;
mod go;
mod rights;
mod roles;
mod unelected;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Proxy, Recorded};
use garm_operator_ground::{Operator, OperatorCommand};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::Value;

use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    roles::register(suite);
    ends::register(suite);
    busy::register(suite);
    go::register(suite);
    rights::register(suite);
    unelected::register(suite);
}

const LEASE: &str = "b608d8b3.mercedes-benz.com";

/// Two fifths of the times: a Lease of 6 s, which a leader holds for 4 s without renewal.
const SCALE: &str = "--timings-scale=0.4";
const DURATION: Duration = Duration::from_secs(6);

/// Within which the next leader has to act after one that stopped in good order.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// One process and what it alone was seen doing.
struct Replica {
    kube: Proxy,
    garm: Proxy,
    operator: Operator,
}

impl Replica {
    async fn start(world: &World<'_>) -> Result<Self> {
        let kube = world.plane.proxy().await?;
        Self::start_by(world, kube).await
    }

    /// Starts one that knows nothing of the Lease.
    async fn start_alone(world: &World<'_>) -> Result<Self> {
        let kube = world.plane.proxy().await?;
        Self::run(world, kube, world.command()).await
    }

    async fn start_by(world: &World<'_>, kube: Proxy) -> Result<Self> {
        Self::start_as(world, kube, &world.command()).await
    }

    async fn start_as(world: &World<'_>, kube: Proxy, command: &OperatorCommand) -> Result<Self> {
        let command = command
            .clone()
            .own_namespace(&world.namespace)
            .argument("--operator-leader-election=true")
            .argument(SCALE);
        Self::run(world, kube, command).await
    }

    async fn run(world: &World<'_>, kube: Proxy, command: OperatorCommand) -> Result<Self> {
        let garm = world.garm.another_proxy().await?;
        let command = command.kubernetes(&kube).garm_proxy(&garm);
        let operator = world.start(&command).await?;
        Ok(Self {
            kube,
            garm,
            operator,
        })
    }

    /// Whether its metrics say that it leads.
    async fn leads(&self) -> Result<bool> {
        let metrics = self.operator.metrics().await?;
        let line = format!("leader_election_master_status{{name=\"{LEASE}\"}} ");
        let value = metrics
            .lines()
            .find_map(|text| text.strip_prefix(line.as_str()))
            .context("the metric is missing")?;
        Ok(value == "1")
    }

    async fn wait_leads(&self, leads: bool) -> Result<()> {
        poll_until(SOON, &format!("leads: {leads}"), async || {
            Ok(Seen::when(self.leads().await?, |now| *now == leads).map(drop))
        })
        .await
    }

    async fn wait_log(&self, words: &str) -> Result<()> {
        poll_until(SOON, words, async || {
            let log = self.operator.stderr();
            Ok(Seen::when(log, |log| log.contains(words)).map(drop))
        })
        .await
    }

    /// Everything it changed or wanted to know of GARM, and everything it changed in Kubernetes, events included, since these marks.
    fn deeds(&self, garm: usize, kube: usize) -> Vec<String> {
        let mut all = told(&self.garm.since(garm));
        all.extend(told(&self.kube.writes_since(kube)));
        all.extend(told(&self.kube.events_since(kube)));
        all
    }

    /// Its requests that write the Lease.
    fn lease_writes(&self, kube: usize) -> Vec<Recorded> {
        let mut all = self.kube.since(kube);
        all.retain(|one| one.path.contains("/leases") && one.method != Method::GET);
        all
    }

    /// When it sent the first and the last request that wrote the Lease, as far as the API server took them.
    fn held(&self) -> Result<(Instant, Instant)> {
        let mut writes = self.lease_writes(0);
        writes.retain(|one| one.status.is_some_and(|status| status < 300));
        let (first, last) = writes.first().zip(writes.last()).context("no Lease")?;
        Ok((first.at, last.at))
    }
}

fn leases(world: &World<'_>) -> Api<Lease> {
    Api::namespaced(world.plane.client(), &world.namespace)
}

/// What the Lease says.
async fn spec(world: &World<'_>) -> Result<Value> {
    let lease = leases(world).get(LEASE).await?;
    Ok(serde_json::to_value(lease.spec)?)
}

async fn holder(world: &World<'_>) -> Result<String> {
    let holder = spec(world).await?["holderIdentity"].clone();
    Ok(holder.as_str().unwrap_or_default().to_owned())
}

/// Starts a replica that leads, and then one that stands by and knows all objects.
async fn pair(world: &World<'_>) -> Result<(Replica, Replica)> {
    let first = Replica::start(world).await?;
    first.wait_leads(true).await?;
    let second = Replica::start(world).await?;
    second.wait_log("another replica leads").await?;
    Ok((first, second))
}

/// Fails unless GARM has the two pools of the set, by the ids that the objects show, finished and once.
async fn ensure_two_pools(world: &World<'_>) -> Result<()> {
    world.wait_all_ready().await?;
    let pools = world.garm.api().list("/pools").await?;
    ensure!(pools.len() == 2, "{pools:?}");
    for name in ["small", "large"] {
        let id = world.id("pool", name).await?;
        let one = pools.iter().find(|pool| pool["id"] == id.as_str());
        let one = one.with_context(|| format!("{name} is not {id}: {pools:?}"))?;
        ensure!(
            one["enabled"] == true && one["runner_prefix"] == "garm",
            "{one}"
        );
    }
    Ok(())
}
