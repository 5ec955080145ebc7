//! Several replicas: all serve, one works, and another takes over however that one goes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Proxy, Recorded, Release};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use http::{Method, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{SOON, World, condition, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("of_two_replicas_one_works_and_both_serve", one_works);
    suite.test("a_killed_leader_is_followed_when_its_lease_expires", killed);
    suite.test_on_each_garm("a_stopped_leader_is_followed_at_once", stopped);
    suite.test("a_frozen_leader_begins_nothing_when_it_thaws", frozen);
    suite.test(
        "a_lease_of_the_go_operator_is_waited_for_until_it_expires",
        held_by_go,
    );
    suite.test(
        "a_lease_that_the_go_operator_gives_back_is_taken_at_once",
        given_back_by_go,
    );
    suite.test("a_lease_deleted_by_hand_stays_with_its_holder", deleted);
    suite.test("a_leader_cut_off_stops_and_comes_back", cut_off);
    suite.test("a_lease_that_may_not_be_used_is_told_once", forbidden);
    suite.test("rights_to_one_lease_by_name_are_enough", few_rights);
}

const LEASE: &str = "b608d8b3.mercedes-benz.com";

/// Two fifths of the times: a Lease of 6 s, which a leader holds for 4 s without renewal.
const SCALE: &str = "--timings-scale=0.4";
const DURATION: Duration = Duration::from_secs(6);

/// Within which the next leader has to act after one that stopped in good order.
const TAKE_OVER: Duration = Duration::from_secs(2);

const POST_POOL: &str = "POST /repositories/{id}/pools";

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

    async fn start_by(world: &World<'_>, kube: Proxy) -> Result<Self> {
        let garm = world.garm.another_proxy().await?;
        let command = world
            .command()
            .kubernetes(&kube)
            .garm_proxy(&garm)
            .own_namespace(&world.namespace)
            .argument("--operator-leader-election=true")
            .argument(SCALE);
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

async fn one_works(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    world.wait_idle_runners(2).await?;

    let deeds = second.deeds(0, 0);
    ensure!(deeds.is_empty(), "the standby did {deeds:#?}");
    ensure!(second.lease_writes(0).is_empty(), "it wrote the Lease");
    ensure!(!second.leads().await? && first.leads().await?, "metrics");
    let client = reqwest::Client::new();
    for replica in [&first, &second] {
        for path in ["/healthz", "/readyz"] {
            let answer = client.get(replica.operator.health_url(path)).send().await?;
            ensure!(answer.status() == 200, "{path}: {}", answer.status());
        }
    }

    let spec = spec(&world).await?;
    ensure!(
        spec["leaseDurationSeconds"] == DURATION.as_secs() && spec["leaseTransitions"] == 0,
        "{spec}"
    );
    let holder = holder(&world).await?;
    let log = first.operator.stderr();
    ensure!(log.contains(&holder), "{holder} is not in the log");
    let events = world.events(LEASE, "Normal", "LeaderElection").await?;
    let note = events.first().map(|event| event["note"].to_string());
    ensure!(
        note.is_some_and(|note| note.contains("became leader")),
        "{events:?}"
    );
    world.finish(first.operator).await?;
    world.finish(second.operator).await
}

async fn killed(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_1_5).await?;
    let (mut first, second) = pair(&world).await?;
    let held = first
        .garm
        .rule(Matcher::route(POST_POOL), Fault::HoldAnswer(Release::new()));
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a pool is made", async || {
        let pools = world.garm.api().list("/pools").await?;
        Ok(Seen::when(pools.len(), |count| {
            *count == held.hits() && *count > 0
        }))
    })
    .await?;
    first.operator.kill().await?;
    let renewals = first.lease_writes(0);
    let renewed = renewals.last().context("it never had the Lease")?.at;

    second.wait_leads(true).await?;
    ensure_two_pools(&world).await?;
    let asked = second.garm.requests();
    let asked = asked.first().context("it has asked for nothing")?.at;
    ensure!(
        asked.duration_since(renewed) >= DURATION,
        "taken over after {:?}",
        asked.duration_since(renewed)
    );
    ensure!(spec(&world).await?["leaseTransitions"] == 1, "transitions");
    world.finish(second.operator).await
}

async fn stopped(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let (mut first, second) = pair(&world).await?;
    let held = first.garm.rule(
        Matcher::route(POST_POOL).times(1),
        Fault::HoldAnswer(Release::new()),
    );
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a held creation", async || {
        Ok(Seen::when(held.hits(), |hits| *hits > 0))
    })
    .await?;
    let asked_to_end = Instant::now();
    let status = first.operator.terminate(Duration::from_secs(10)).await?;
    ensure!(status.success(), "it ended with {status}");
    ensure_two_pools(&world).await?;

    let release = first.lease_writes(0).pop().context("no Lease")?;
    ensure!(
        release.json()["spec"]["holderIdentity"] == ""
            && release.json()["spec"]["leaseDurationSeconds"] == 1,
        "not given back: {}",
        release.json()
    );
    let taken = second.garm.requests();
    let taken = taken.first().context("the second did nothing")?.at;
    ensure!(
        taken.duration_since(asked_to_end) < TAKE_OVER,
        "taken over after {:?}",
        taken.duration_since(asked_to_end)
    );
    // What it had begun was on its way when it asked.
    let late = release.at + Duration::from_millis(100);
    let mut after = first.garm.requests();
    after.extend(first.kube.writes_since(0));
    after.retain(|one| one.at > late);
    ensure!(after.is_empty(), "it went on with {:?}", told(&after));
    ensure!(second.garm.count(0, "PUT /pools/{id}") >= 2, "not finished");
    world.finish(second.operator).await
}

async fn frozen(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    let release = Release::new();
    let held = first.garm.rule(
        Matcher::route(POST_POOL).times(1),
        Fault::HoldAnswer(release.clone()),
    );
    world.apply(&world.manifests()).await?;
    poll_until(SOON, "a held creation", async || {
        Ok(Seen::when(held.hits(), |hits| *hits > 0))
    })
    .await?;
    first.operator.freeze();
    second.wait_leads(true).await?;
    ensure_two_pools(&world).await?;

    // Work for whoever believes to lead: changes of objects, and an answer that a pass waits for.
    let more = json!({"spec": {"maxRunners": 7}});
    world.change("pool", "small", more.clone()).await?;
    release.release();
    let (garm, kube) = (first.garm.mark(), first.kube.mark());
    first.operator.thaw();
    first.wait_leads(false).await?;
    first.wait_log("another replica leads").await?;
    world.change("pool", "large", more).await?;
    let deeds = first.deeds(garm, kube);
    ensure!(deeds.is_empty(), "the thawed one did {deeds:#?}");
    ensure!(
        first.lease_writes(kube).is_empty(),
        "it wrote the Lease: {:?}",
        told(&first.lease_writes(kube))
    );

    // It is a standby like any other, and can lead again.
    let mark = world.garm.api().list("/pools").await?.len();
    world.finish(second.operator).await?;
    first.wait_leads(true).await?;
    let fewer = json!({"spec": {"maxRunners": 5}});
    world.change("pool", "small", fewer).await?;
    ensure!(first.garm.count(garm, "PUT /pools/{id}") == 1, "one change");
    ensure!(
        world.garm.api().list("/pools").await?.len() == mark,
        "a pool was doubled"
    );
    world.finish(first.operator).await
}

/// A Lease as the Go operator leaves it.
fn of_go(holder: &str, seconds: i32) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now();
    let now = format!("{now:.6}");
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 2,
        },
    })
}

/// A holder that was a Go operator: its host name and a UUID.
const GO: &str = "garm-operator-controller-manager-6d5f_0c9d4f60-5f0a-4c26-8f39-5a0b8a4ad7a5";

async fn write_as_go(world: &World<'_>, holder: &str, seconds: i32) -> Result<()> {
    let patch = Patch::Merge(of_go(holder, seconds));
    leases(world)
        .patch(LEASE, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn held_by_go(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let lease = serde_json::from_value(of_go(GO, 4))?;
    leases(&world)
        .create(&PostParams::default(), &lease)
        .await?;
    let ours = Replica::start(&world).await?;
    ours.wait_log(GO).await?;
    // For longer than the Lease lasts, it is renewed.
    let mut renewed = Instant::now();
    let begun = renewed;
    let mut rounds = tokio::time::interval(Duration::from_millis(500));
    while begun.elapsed() < Duration::from_secs(6) {
        rounds.tick().await;
        renewed = Instant::now();
        write_as_go(&world, GO, 4).await?;
    }
    let deeds = ours.deeds(0, 0);
    ensure!(deeds.is_empty(), "while another holds the Lease: {deeds:?}");
    ensure!(ours.lease_writes(0).is_empty(), "it wrote the Lease");

    ours.wait_leads(true).await?;
    let asked = poll_until(SOON, "a request to GARM", async || {
        let first = ours.garm.requests().first().map(|request| request.at);
        Ok(first.map_or_else(|| Seen::NotYet("none".to_owned()), Seen::Yes))
    })
    .await?;
    ensure!(
        asked.duration_since(renewed) >= Duration::from_secs(4),
        "too early: {:?}",
        asked.duration_since(renewed)
    );
    let spec = spec(&world).await?;
    ensure!(spec["leaseTransitions"] == 3, "{spec}");
    ensure!(spec["leaseDurationSeconds"] == DURATION.as_secs(), "{spec}");
    world.finish(ours.operator).await
}

async fn given_back_by_go(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let lease = serde_json::from_value(of_go(GO, 600))?;
    leases(&world)
        .create(&PostParams::default(), &lease)
        .await?;
    let ours = Replica::start(&world).await?;
    ours.wait_log(GO).await?;
    ensure!(ours.deeds(0, 0).is_empty(), "while another holds the Lease");
    let given = Instant::now();
    write_as_go(&world, "", 1).await?;
    ours.wait_leads(true).await?;
    let taken = ours.lease_writes(0);
    let taken = taken.first().context("not taken")?.at;
    ensure!(
        taken.duration_since(given) < TAKE_OVER,
        "taken after {:?}",
        taken.duration_since(given)
    );
    world.finish(ours.operator).await
}

async fn deleted(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let (first, second) = pair(&world).await?;
    let before = holder(&world).await?;
    leases(&world)
        .delete(LEASE, &DeleteParams::default())
        .await?;
    poll_until(SOON, "the Lease is made anew", async || {
        let holder = holder(&world).await?;
        Ok(Seen::when(holder, |holder| *holder == before))
    })
    .await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    ensure!(first.leads().await? && !second.leads().await?, "metrics");
    ensure!(
        !first.operator.stderr().contains("lost the Lease"),
        "it was lost meanwhile"
    );
    let deeds = second.deeds(0, 0);
    ensure!(deeds.is_empty(), "the standby did {deeds:?}");
    world.finish(second.operator).await?;
    world.finish(first.operator).await
}

async fn cut_off(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let first = Replica::start(&world).await?;
    world.apply(&world.manifests()).await?;
    ensure_two_pools(&world).await?;
    ensure!(first.garm.sockets() == 1, "no events socket");

    first.kube.refuse(true);
    first.wait_leads(false).await?;
    poll_until(SOON, "the connection to GARM is given up", async || {
        Ok(Seen::when(first.garm.sockets(), |sockets| *sockets == 0))
    })
    .await?;
    let mark = first.garm.mark();
    // News from GARM, which nobody may act upon.
    let id = world.id("pool", "small").await?;
    let drift = json!({"max_runners": 9});
    world
        .garm
        .api()
        .put(&format!("/pools/{id}"), &drift)
        .await?;
    let second = Replica::start(&world).await?;
    second.wait_leads(true).await?;
    poll_until(SOON, "the drift is undone", async || {
        let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
        Ok(Seen::when(pool["max_runners"].clone(), |max| *max == 3))
    })
    .await?;
    ensure!(
        first.garm.since(mark).is_empty(),
        "{:?}",
        told(&first.garm.since(mark))
    );

    let kube = first.kube.mark();
    first.kube.refuse(false);
    first.wait_log("another replica leads").await?;
    ensure!(first.deeds(mark, kube).is_empty(), "it is a standby");
    second.kube.refuse(true);
    first.wait_leads(true).await?;
    world
        .change("pool", "small", json!({"spec": {"maxRunners": 5}}))
        .await?;
    ensure_two_pools(&world).await?;
    second.wait_leads(false).await?;
    world.finish(first.operator).await?;

    // The one that is cut off still ends in good time, and what it cannot give back is not its own any more.
    world.finish(second.operator).await
}

async fn forbidden(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let kube = world.plane.proxy().await?;
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "leases.coordination.k8s.io is forbidden",
    });
    let refused = kube.rule(
        Matcher::any().path_contains("/leases"),
        Fault::Status {
            code: StatusCode::FORBIDDEN,
            body: refusal.to_string(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
        },
    );
    let replica = Replica::start_by(&world, kube).await?;
    poll_until(SOON, "four tries", async || {
        Ok(Seen::when(refused.hits(), |hits| *hits >= 4))
    })
    .await?;
    let log = replica.operator.stderr();
    ensure!(
        log.matches("the Lease may not be used; grant").count() == 1,
        "{log}"
    );
    ensure!(replica.deeds(0, 0).is_empty(), "it worked all the same");
    refused.remove();
    replica.wait_leads(true).await?;
    world.apply(&world.manifests()).await?;
    let pool = world.wait_ready("pool", "small").await?;
    ensure!(condition(&pool, "Ready")["status"] == "True", "{pool}");
    ensure!(
        replica
            .operator
            .stderr()
            .contains("the Lease can be used again"),
        "its return is not told"
    );
    world.finish(replica.operator).await
}

/// What the operator's own namespace has to grant.
const RIGHTS: &str = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader-election}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [b608d8b3.mercedes-benz.com], verbs: [get, update, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader-election}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader-election}
subjects: [{kind: ServiceAccount, name: operator}]
";

async fn few_rights(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    world.kubectl(&["apply", "-f", "-"], RIGHTS).await?;
    let token = world.kubectl(&["create", "token", "operator"], "").await?;
    let mut replicas = Vec::new();
    for leads in [true, false] {
        let kube = world.plane.proxy_as(token.trim()).await?;
        let replica = Replica::start_by(&world, kube).await?;
        if leads {
            replica.wait_leads(true).await?;
        } else {
            replica.wait_log("another replica leads").await?;
            poll_until(SOON, "it watches the Lease", async || {
                let requests = replica.kube.requests();
                let watches = |one: &&Recorded| {
                    one.path.contains("/leases") && one.query.contains("watch=true")
                };
                let statuses: Vec<_> = requests
                    .iter()
                    .filter(watches)
                    .map(|one| one.status)
                    .collect();
                Ok(Seen::when(statuses, |all| all.contains(&Some(200))).map(drop))
            })
            .await?;
        }
        replicas.push(replica);
    }
    for replica in replicas {
        let mut refused = replica.kube.requests();
        refused.retain(|one| {
            let is_ours = one.path.contains("/leases") || one.path.contains("/events");
            is_ours && one.status == Some(403)
        });
        ensure!(refused.is_empty(), "{:?}", told(&refused));
        world.finish(replica.operator).await?;
    }
    Ok(())
}
