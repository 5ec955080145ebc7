//! The state of the process as JSON, for people who look for what stands still. No secret is in it.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::work::{Current, Line};
use crate::api::install::LEASE;
use crate::controllers::Hubs;
use crate::garm::{self, Availability};
use crate::runtime::hub::HubState;
use crate::runtime::lease::View;
use crate::runtime::pulse::{Beat, Pulses};
use crate::runtime::queue::QueueState;
use crate::telemetry::level::Level;

/// Most objects that are named of one queue in one list.
const NAMED: usize = 50;

/// What the state is read from.
pub(super) struct Diagnosis {
    /// When the process began.
    pub(super) started: Instant,
    /// The watches.
    pub(super) hubs: Hubs,
    /// The loops.
    pub(super) pulses: Pulses,
    /// What the leader works with.
    pub(super) current: Current,
    /// The election, if there is one.
    pub(super) election: Option<View>,
    /// How much is logged.
    pub(super) level: Level,
}

impl Diagnosis {
    /// Reads the state.
    pub(super) fn look(&self) -> Value {
        let now = Instant::now();
        let work = self.current.get();
        let watches = self.hubs.each().map(|hub| hub.state(now));
        let named = |hub: &HubState| (hub.kind.clone(), watch(hub));
        let lines = work.as_ref().map_or(&[][..], |work| &work.lines);
        let queues = lines.iter().map(line).collect::<Map<_, _>>();
        let loops = self.pulses.beats(now);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": seconds(now.saturating_duration_since(self.started)),
            "logVerbosity": {"now": self.level.now(), "configured": self.level.configured()},
            "lease": lease(self.election.as_ref(), work.is_some()),
            "watches": watches.iter().map(named).collect::<Map<_, _>>(),
            "garm": work.as_ref().map(|work| garm(&work.garm.state(), now)),
            "queues": queues,
            "loops": loops.iter().map(beat).collect::<Map<_, _>>(),
        })
    }
}

fn lease(election: Option<&View>, works: bool) -> Value {
    let Some(election) = election else {
        return json!({"election": false, "works": works});
    };
    let standing = election.get();
    json!({
        "election": true,
        "name": LEASE,
        "identity": standing.identity,
        "holder": standing.holder,
        "trouble": standing.trouble,
        "works": works,
    })
}

fn watch(hub: &HubState) -> Value {
    let scopes = hub.scopes.iter().map(|scope| {
        json!({
            "namespace": scope.namespace,
            "idleSeconds": seconds(scope.idle),
            "failure": scope.failure,
        })
    });
    json!({
        "loaded": hub.is_loaded,
        "objects": hub.objects,
        "undecodable": hub.invalid,
        "scopes": scopes.collect::<Vec<_>>(),
    })
}

fn garm(state: &garm::State, now: Instant) -> Value {
    let age = |moment: Option<Instant>| {
        moment.map(|moment| seconds(now.saturating_duration_since(moment)))
    };
    let collections = state.mirror.iter().map(|one| {
        let collection = json!({
            "objects": one.objects,
            "doubtful": one.doubtful,
            "unreadable": one.unreadable,
            "listedSecondsAgo": age(one.complete),
        });
        (one.collection.name().to_owned(), collection)
    });
    json!({
        "ready": state.availability.is_ready(),
        "message": match &state.availability {
            Availability::Ready => None,
            other => Some(other.message()),
        },
        "version": state.version,
        "requestsInFlight": state.under_way,
        "events": {
            "connected": state.is_listening,
            "lastSecondsAgo": age(state.last_event),
        },
        "mirror": collections.collect::<Map<_, _>>(),
    })
}

fn line(line: &Line) -> (String, Value) {
    let state = line.queue.state(NAMED);
    (line.name.to_owned(), queue(&state, line.concurrency))
}

fn queue(state: &QueueState, concurrency: usize) -> Value {
    let running = state
        .longest_running
        .iter()
        .map(|(key, age)| json!({"object": key.to_string(), "forSeconds": seconds(*age)}));
    let failed = state.most_failed.iter().map(|failed| {
        json!({
            "object": failed.key.to_string(),
            "attempts": failed.attempts,
            "dueInSeconds": seconds(failed.due_in),
        })
    });
    json!({
        "concurrency": concurrency,
        "ready": state.ready,
        "oldestReadySeconds": state.oldest_ready.map(seconds),
        "paced": state.paced,
        "inFlight": {"count": state.running, "longest": running.collect::<Vec<_>>()},
        "backOff": {"count": state.backing_off, "worst": failed.collect::<Vec<_>>()},
    })
}

fn beat(beat: &Beat) -> (String, Value) {
    let value = json!({
        "turnedSecondsAgo": seconds(beat.age),
        "restSeconds": seconds(beat.rest),
    });
    (beat.name.to_owned(), value)
}

/// Rounds to a tenth: more tells nobody anything.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ObjectKey;
    use crate::runtime::queue::Failed;

    #[test]
    fn a_queue_shows_its_worst_objects_and_counts_all() {
        let failed = Failed {
            key: ObjectKey::new("ns", "a"),
            attempts: 7,
            due_in: Duration::from_millis(12_345),
        };
        let state = QueueState {
            backing_off: 900,
            most_failed: vec![failed],
            oldest_ready: Some(Duration::from_secs(1)),
            ..QueueState::default()
        };
        let shown = queue(&state, 5);
        assert_eq!(
            shown["backOff"],
            json!({"count": 900, "worst": [{"object": "ns/a", "attempts": 7, "dueInSeconds": 12.3}]})
        );
        assert_eq!(shown["oldestReadySeconds"], 1.0);
        assert_eq!(shown["inFlight"], json!({"count": 0, "longest": []}));
    }

    #[test]
    fn a_process_without_an_election_says_so() {
        assert_eq!(lease(None, true), json!({"election": false, "works": true}));
    }
}
