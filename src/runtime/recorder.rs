//! Kubernetes Events: what happened to an object, for `kubectl describe`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
pub use kube::runtime::events::EventType;
use kube::{
    Client,
    runtime::events::{Event, Recorder, Reporter},
};

use futures::future::join_all;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::{client::explain, cut};

/// Longest note the API server takes, in bytes.
const NOTE_MAX: usize = 1024;
/// Longest reason and action, in bytes.
const WORD_MAX: usize = 128;
/// Longest wait for the API server: an event is not worth more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Requests under way at a time; events of one object go one after the other.
const LANES: usize = 4;
/// Events of a lane that may wait. What comes beyond, with an API server that takes none for long, is dropped.
const WAITING_MAX: usize = 2048;

/// Publishes events of one reporting component. One value per component, cloned: equal events within six minutes
/// become one with a count, which clones of a value know together.
#[derive(Clone)]
pub struct Events {
    client: Client,
    recorder: Recorder,
    lanes: Arc<[mpsc::Sender<Job>]>,
}

/// What a lane does.
enum Job {
    Publish(Box<Told>),
    /// Says so when all before it is done.
    Flush(oneshot::Sender<()>),
}

/// An event on its way.
struct Told {
    recorder: Recorder,
    object: ObjectReference,
    event: Event,
}

impl Events {
    /// Makes the recorder of a component, for example `pool-controller`. Its events are sent by tasks that end with its last clone.
    pub fn new(client: Client, component: &str) -> Self {
        let refused = Arc::new(AtomicBool::new(false));
        let lane = |_| {
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            tokio::spawn(work_off(jobs, Arc::clone(&refused)));
            sender
        };
        Self {
            recorder: Recorder::new(client.clone(), Reporter::from(component)),
            client,
            lanes: (0..LANES).map(lane).collect(),
        }
    }

    /// Makes the recorder of another component, whose events go the same way.
    #[must_use]
    pub fn component(&self, component: &str) -> Self {
        Self {
            recorder: Recorder::new(self.client.clone(), Reporter::from(component)),
            ..self.clone()
        }
    }

    /// Publishes an event about `object`, without waiting for it.
    ///
    /// `reason` is one of the fixed words that users filter by. Events with equal type, reason and action within six
    /// minutes are one event, which keeps the first `note`: put what tells two facts apart (the kind of an error)
    /// into `action`. Never fails: what the API server does not take is logged.
    pub fn publish(
        &self,
        object: ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let lane = lane_of(object.uid.as_deref().unwrap_or_default());
        let told = Box::new(Told {
            recorder: self.recorder.clone(),
            event: compose(type_, reason, &distinct(action, note), note),
            object,
        });
        if self.lanes[lane].try_send(Job::Publish(told)).is_err() {
            tracing::debug!(reason, "an event was dropped: too many are waiting");
        }
    }

    /// Waits until what was published before this call has been sent or dropped, for as long as an event may take at most.
    pub async fn flush(&self) {
        let lanes = self.lanes.iter().map(async |lane| {
            let (done, wait) = oneshot::channel();
            // Either fails only when the lane has ended.
            if lane.send(Job::Flush(done)).await.is_ok() {
                let _ = wait.await;
            }
        });
        let _ = tokio::time::timeout(TIMEOUT, join_all(lanes)).await;
    }
}

/// Chooses the lane of an object.
fn lane_of(uid: &str) -> usize {
    uid.bytes().fold(0, |sum, byte| sum ^ usize::from(byte)) % LANES
}

async fn work_off(mut jobs: mpsc::Receiver<Job>, refused: Arc<AtomicBool>) {
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Publish(told) => send(&told, &refused).await,
            Job::Flush(done) => {
                // Whoever waited may have given up.
                let _ = done.send(());
            }
        }
    }
}

/// Sends one event. `refused` remembers whether a refusal was logged, of whatever component.
async fn send(told: &Told, refused: &AtomicBool) {
    let reason = told.event.reason.as_str();
    let sent = told.recorder.publish(&told.event, &told.object);
    let error = match tokio::time::timeout(TIMEOUT, sent).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => {
            tracing::debug!(
                reason,
                "an event was dropped: the API server did not answer in time"
            );
            return;
        }
    };
    if let kube::Error::Api(status) = &error
        && status.code == 403
        && !status.message.contains("is being terminated")
        && !refused.swap(true, Ordering::Relaxed)
    {
        let message = status.message.as_str();
        tracing::warn!(
            message,
            "events are refused; grant create and patch of events in events.k8s.io"
        );
        return;
    }
    tracing::debug!(reason, error = explain(&error), "an event was dropped");
}

/// Makes an action that differs where the note does: events of one reason and action become one, which keeps the first note.
fn distinct(action: &str, note: &str) -> String {
    let digest = Sha256::digest(note.as_bytes());
    let base = cut(action, WORD_MAX - 9);
    format!(
        "{base}-{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3]
    )
}

/// Builds an event within the API server's limits, which it enforces: empty and long words are answered 422.
fn compose(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    let word = |word: &str, otherwise: &str| {
        cut(if word.is_empty() { otherwise } else { word }, WORD_MAX).to_owned()
    };
    let reason = word(reason, "Info");
    Event {
        type_,
        action: word(action, &reason),
        note: Some(cut(if note.is_empty() { &reason } else { note }, NOTE_MAX).to_owned()),
        reason,
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::testing::{FakeApi, Reply};

    fn pool() -> ObjectReference {
        ObjectReference {
            kind: Some("Pool".into()),
            name: Some("a".into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn cuts_a_note_on_a_character_border() {
        let note = format!("x{}", "ü".repeat(2_500));
        let event = compose(EventType::Warning, "Error", "Push", &note);
        let note = event.note.unwrap();
        assert_eq!(note.len(), 1023);
        assert!(note.ends_with('ü'));
        assert_eq!(
            compose(EventType::Normal, &"R".repeat(200), "A", "n")
                .reason
                .len(),
            128
        );
    }

    #[test]
    fn leaves_no_word_empty() {
        let event = compose(EventType::Normal, "Deleting", "", "");
        assert_eq!(
            (event.action.as_str(), event.note.as_deref()),
            ("Deleting", Some("Deleting"))
        );
    }

    #[tokio::test]
    async fn counts_equal_events_in_one() {
        let fake = FakeApi::new(|request| Reply::json(&request.body));
        let events = Events::new(fake.client(), "pool-controller");
        for _ in 0..3 {
            events.publish(pool(), EventType::Warning, "Error", "Timeout", "no answer");
        }
        events.publish(pool(), EventType::Warning, "Error", "Refused", "no right");
        events.flush().await;
        let requests = fake.requests();
        let methods: Vec<&str> = requests
            .iter()
            .map(|request| request.method.as_str())
            .collect();
        assert_eq!(methods, ["POST", "PATCH", "PATCH", "POST"]);
        assert_eq!(requests[2].body["series"]["count"], json!(3));
        assert_eq!(
            requests[0].path,
            "/apis/events.k8s.io/v1/namespaces/ns/events"
        );
        assert_eq!(
            requests[0].body["reportingController"],
            json!("pool-controller")
        );
    }

    #[tokio::test]
    async fn survives_a_refusal() {
        let fake = FakeApi::new(|_| Reply::status(403, "Forbidden", "no"));
        let events = Events::new(fake.client(), "pool-controller");
        for _ in 0..2 {
            events.publish(pool(), EventType::Normal, "Info", "Created", "done");
        }
        let other = events.component("other");
        other.publish(pool(), EventType::Normal, "Info", "Created", "done");
        events.flush().await;
        assert_eq!(fake.requests().len(), 3);
    }

    #[tokio::test]
    async fn nobody_waits_for_an_api_server_that_takes_no_events() {
        let fake = FakeApi::new(|_| Reply::status(403, "Forbidden", "no"));
        let events = Events::new(fake.client(), "pool-controller");
        // No lane has had its turn yet.
        for number in 0..=WAITING_MAX {
            let note = format!("no answer {number}");
            events.publish(pool(), EventType::Warning, "Error", "Timeout", &note);
        }
        events.flush().await;
        assert_eq!(fake.requests().len(), WAITING_MAX, "the last is dropped");
    }
}
