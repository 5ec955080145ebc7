//! A leader goes while Pools are made, changed and deleted all the time: nothing is lost, nothing doubled, no review fails, and one that has lost
//! the Lease begins nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Patience, Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};
use http::Method;

use super::churn::Churn;
use super::{DURATION, Replica, TAKE_OVER};
use crate::hooks;
use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_busy_leader_that_is_killed_is_followed_in_time", killed);
    suite.test_on_each_garm("a_busy_leader_that_is_stopped_is_followed_at_once", stopped);
    suite.test(
        "a_busy_leader_frozen_beyond_its_lease_begins_nothing_when_it_thaws",
        frozen,
    );
    suite.test(
        "a_busy_leader_whose_api_server_is_gone_begins_nothing_beyond_its_lease",
        async |ground| cut_off(ground, Fault::Close).await,
    );
    suite.test(
        "a_busy_leader_whose_api_server_is_silent_begins_nothing_beyond_its_lease",
        async |ground| cut_off(ground, Fault::Blackhole).await,
    );
}

/// Beyond the duration of the Lease, until the next leader has it.
const SLACK: Duration = Duration::from_secs(2);

/// A leader at work, and a standby that the API server asks about each change.
struct Scene<'a> {
    world: World<'a>,
    first: Replica,
    second: Replica,
    churn: Churn,
}

impl<'a> Scene<'a> {
    async fn begin(ground: &'a Ground, version: GarmVersion) -> Result<Self> {
        let world = World::new(ground, version).await?;
        let first = Replica::start(&world).await?;
        first.wait_leads(true).await?;
        let (certificates, port) = (Certificates::new()?, hooks::free_port()?);
        let command = hooks::serving(ground, &world.command(), port, &certificates)?;
        let second = Replica::start_as(&world, world.plane.proxy().await?, &command).await?;
        second.wait_log("another replica leads").await?;
        let url = format!("https://127.0.0.1:{port}");
        hooks::ask(&world, &url, &certificates, &[]).await?;

        let mut documents = world.manifests();
        documents.retain(|document| !document.contains("kind: Pool"));
        world.apply(&documents).await?;
        world.wait_ready("repository", "tools").await?;
        let churn = Churn::begin(&world, &second.operator);
        first.wait_busy().await?;
        ensure!(second.deeds(0, 0).is_empty(), "the standby works");
        Ok(Self {
            world,
            first,
            second,
            churn,
        })
    }

    /// Waits until the second one has the Lease, which it may have when the first one's has expired, and not before; answers when that was.
    async fn wait_followed(&self) -> Result<Instant> {
        self.second.wait_leads(true).await?;
        let ((_, renewed), (taken, _)) = (self.first.held()?, self.second.held()?);
        let after = taken.duration_since(renewed);
        ensure!(
            after >= DURATION && after <= DURATION + SLACK,
            "taken over after {after:?}"
        );
        Ok(taken)
    }

    /// Ends the test, once the second one has worked for a while.
    async fn end(self) -> Result<()> {
        let Self {
            world,
            first,
            second,
            churn,
        } = self;
        second.wait_busy().await?;
        churn.end(&world, &second.operator).await?;
        drop(first);
        world.finish(second.operator).await
    }
}

impl Replica {
    /// Waits until it has done all kinds of things, several times.
    async fn wait_busy(&self) -> Result<()> {
        poll_until(SOON * 3, "a replica is at work", async || {
            let counts = [
                "POST /repositories/{id}/pools",
                "PUT /pools/{id}",
                "DELETE /pools/{id}",
            ]
            .map(|route| self.garm.count(0, route));
            Ok(Seen::when(counts, |counts| counts.iter().all(|n| *n >= 5)).map(drop))
        })
        .await
    }

    /// Waits until it has done some more.
    async fn wait_works_on(&self) -> Result<()> {
        let mark = self.garm.mark();
        poll_until(SOON * 3, "a replica works on", async || {
            let count = self.garm.writes_since(mark).len();
            Ok(Seen::when(count, |count| *count >= 20).map(drop))
        })
        .await
    }

    /// Waits until it has begun nothing for a while.
    async fn wait_stuck(&self) -> Result<()> {
        let patience = Patience::new(SOON * 2, "everything waits for an answer");
        let (mut before, mut since) = (0, Instant::now());
        while since.elapsed() < Duration::from_secs(1) {
            let now = self.deeds(0, 0).len();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            patience.pause(now).await?;
        }
        Ok(())
    }
}

async fn killed(ground: &Ground, version: GarmVersion) -> Result<()> {
    let mut scene = Scene::begin(ground, version).await?;
    scene.first.operator.kill().await?;
    scene.wait_followed().await?;
    scene.end().await
}

async fn stopped(ground: &Ground, version: GarmVersion) -> Result<()> {
    let mut scene = Scene::begin(ground, version).await?;
    let asked = Instant::now();
    let status = scene
        .first
        .operator
        .terminate(Duration::from_secs(10))
        .await?;
    ensure!(status.success(), "it ended with {status}");
    scene.second.wait_leads(true).await?;
    let (taken, _) = scene.second.held()?;
    let after = taken.duration_since(asked);
    ensure!(after < TAKE_OVER, "taken over after {after:?}");
    // What it had begun was on its way when the Lease was given back.
    let late = taken + Duration::from_millis(500);
    let mut begun = scene.first.garm.requests();
    begun.extend(scene.first.kube.writes_since(0));
    begun.extend(scene.first.kube.events_since(0));
    begun.retain(|one| one.at > late);
    ensure!(begun.is_empty(), "it went on with {:#?}", told(&begun));
    scene.end().await
}

async fn frozen(ground: &Ground) -> Result<()> {
    let scene = Scene::begin(ground, GarmVersion::V0_2_1).await?;
    let first = &scene.first;
    // All who work wait for an answer, and would go on with it.
    let release = Release::new();
    let hold = || Fault::HoldAnswer(release.clone());
    first.garm.rule(Matcher::any(), hold());
    for method in [Method::POST, Method::PATCH, Method::DELETE] {
        first.kube.rule(Matcher::any().method(method), hold());
    }
    first.wait_stuck().await?;
    first.operator.freeze();
    scene.wait_followed().await?;
    scene.second.wait_busy().await?;

    let (garm, kube) = (first.garm.mark(), first.kube.mark());
    release.release();
    first.operator.thaw();
    first.wait_leads(false).await?;
    first.wait_log("another replica leads").await?;
    // While it knows of ever more that could be done.
    scene.second.wait_works_on().await?;
    let mut deeds = first.deeds(garm, kube);
    deeds.extend(told(&first.lease_writes(kube)));
    ensure!(deeds.is_empty(), "the thawed one did {deeds:#?}");
    scene.end().await
}

async fn cut_off(ground: &Ground, fault: Fault) -> Result<()> {
    let scene = Scene::begin(ground, GarmVersion::V0_2_1).await?;
    let first = &scene.first;
    let cut = first.kube.rule(Matcher::any(), fault);
    first.kube.drop_connections();
    first.wait_leads(false).await?;
    let (garm, kube) = (first.garm.mark(), first.kube.mark());
    let taken = scene.wait_followed().await?;
    let mut late = first.garm.requests();
    late.extend(first.kube.writes_since(0));
    late.extend(first.kube.events_since(0));
    late.retain(|one| one.at > taken);
    ensure!(late.is_empty(), "two at once: {:#?}", told(&late));
    scene.second.wait_busy().await?;

    // It hears again of everything, and who leads.
    cut.remove();
    first.kube.drop_connections();
    first.wait_log("another replica leads").await?;
    scene.second.wait_works_on().await?;
    let deeds = first.deeds(garm, kube);
    ensure!(deeds.is_empty(), "without the Lease it did {deeds:#?}");
    scene.end().await
}
