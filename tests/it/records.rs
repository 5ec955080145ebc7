//! What the proxies have seen of the operator.

use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Recorded;

use crate::world::{SOON, World};

/// A moment in the records of both proxies.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    garm: usize,
    kube: usize,
}

impl Mark {
    /// The beginning of the records.
    pub const START: Self = Self { garm: 0, kube: 0 };
}

impl World<'_> {
    /// Marks this moment in the records of both proxies.
    pub fn mark(&self) -> Mark {
        Mark {
            garm: self.garm.proxy().mark(),
            kube: self.kube.mark(),
        }
    }

    /// What the operator changed in GARM since the mark; not what GARM's locked database failed, which is asked for again.
    pub fn garm_writes(&self, mark: Mark) -> Vec<Recorded> {
        let mut writes = self.garm.proxy().writes_since(mark.garm);
        writes.retain(|write| !write.locked);
        writes
    }

    /// How often the operator asked GARM for a route since the mark; without what GARM's locked database failed.
    pub fn garm_count(&self, mark: Mark, route: &str) -> usize {
        let requests = self.garm_requests(mark).into_iter();
        requests
            .filter(|request| request.route == route && !request.locked)
            .count()
    }

    /// What the operator asked GARM since the mark.
    pub fn garm_requests(&self, mark: Mark) -> Vec<Recorded> {
        self.garm.proxy().since(mark.garm)
    }

    /// What the operator changed in Kubernetes since the mark, events apart.
    pub fn kube_writes(&self, mark: Mark) -> Vec<Recorded> {
        self.kube.writes_since(mark.kube)
    }

    /// What the operator asked Kubernetes since the mark.
    pub fn kube_requests(&self, mark: Mark) -> Vec<Recorded> {
        self.kube.since(mark.kube)
    }

    /// Fails when the operator wrote anything anywhere since the mark, events included.
    pub fn ensure_nothing_written(&self, mark: Mark) -> Result<()> {
        let garm = told(&self.garm_writes(mark));
        let kube = told(&self.kube_writes(mark));
        let events = told(&self.kube.events_since(mark.kube));
        ensure!(
            garm.is_empty() && kube.is_empty() && events.is_empty(),
            "written to GARM: {garm:#?}, to Kubernetes: {kube:#?}, events: {events:#?}"
        );
        Ok(())
    }

    /// Waits until that many resyncs have begun since the mark, and all but the last have ended.
    pub async fn wait_resyncs(&self, mark: Mark, rounds: usize) -> Result<()> {
        let limit = Duration::from_secs(120);
        poll_until(limit, &format!("{rounds} resyncs"), async || {
            let count = self.garm_count(mark, "GET /instances");
            Ok(Seen::when(count, |count| *count >= rounds))
        })
        .await?;
        Ok(())
    }

    /// Waits until the operator has asked nobody for anything for this long; watches and event sockets stay open meanwhile.
    pub async fn wait_calm(&self, time: Duration) -> Result<()> {
        poll_until(SOON + time, "the operator rests", async || {
            let last = [self.garm.proxy().requests(), self.kube.requests()]
                .into_iter()
                .filter_map(|requests| requests.into_iter().rfind(is_no_watch))
                .max_by_key(|request| request.at);
            Ok(match last {
                Some(last) if last.at.elapsed() < time => Seen::NotYet(format!(
                    "{} {} ago",
                    last.route,
                    last.at.elapsed().as_millis()
                )),
                _ => Seen::Yes(()),
            })
        })
        .await
    }
}

/// The requests as lines to compare and to show: route and body.
pub fn told(requests: &[Recorded]) -> Vec<String> {
    let line = |request: &Recorded| match &request.body {
        Some(_) => format!("{} {}", request.route, request.json()),
        None => request.route.clone(),
    };
    requests.iter().map(line).collect()
}

/// Watches and sockets stay open at rest, and are renewed.
fn is_no_watch(request: &Recorded) -> bool {
    !request.query.contains("watch=true") && !request.route.contains("/ws/")
}
