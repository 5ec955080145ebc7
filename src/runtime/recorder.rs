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

use sha2::{Digest, Sha256};

use super::{client::explain, cut};

/// Longest note the API server takes, in bytes.
const NOTE_MAX: usize = 1024;
/// Longest reason and action, in bytes.
const WORD_MAX: usize = 128;
/// Longest wait for the API server: an event is not worth more.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes events of one reporting component. One value per component, cloned: equal events within six minutes
/// become one with a count, which clones of a value know together.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    client: Client,
    /// Whether a refusal was logged, by this component or another.
    refused: Arc<AtomicBool>,
}

impl Events {
    /// Makes the recorder of a component, for example `pool-controller`.
    pub fn new(client: Client, component: &str) -> Self {
        Self {
            recorder: Recorder::new(client.clone(), Reporter::from(component)),
            client,
            refused: Arc::default(),
        }
    }

    /// Makes the recorder of another component of this process.
    #[must_use]
    pub fn component(&self, component: &str) -> Self {
        Self {
            refused: Arc::clone(&self.refused),
            ..Self::new(self.client.clone(), component)
        }
    }

    /// Publishes an event about `object`.
    ///
    /// `reason` is one of the fixed words that users filter by. Events with equal type, reason and action within six
    /// minutes are one event, which keeps the first `note`: put what tells two facts apart (the kind of an error)
    /// into `action`. Never fails: what the API server does not take is logged.
    pub async fn publish(
        &self,
        object: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let event = compose(type_, reason, &distinct(action, note), note);
        let answer = tokio::time::timeout(TIMEOUT, self.recorder.publish(&event, object)).await;
        let error = match answer {
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
        match &error {
            kube::Error::Api(status) if status.code == 403 => {
                let terminating = status.message.contains("is being terminated");
                if !terminating && !self.refused.swap(true, Ordering::Relaxed) {
                    let message = status.message.as_str();
                    tracing::warn!(
                        message,
                        "events are refused; grant create and patch of events in events.k8s.io"
                    );
                    return;
                }
            }
            _ => {}
        }
        tracing::debug!(reason, error = explain(&error), "an event was dropped");
    }
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
            events
                .publish(&pool(), EventType::Warning, "Error", "Timeout", "no answer")
                .await;
        }
        events
            .publish(&pool(), EventType::Warning, "Error", "Refused", "no right")
            .await;
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
            events
                .publish(&pool(), EventType::Normal, "Info", "Created", "done")
                .await;
        }
        assert!(events.component("other").refused.load(Ordering::Relaxed));
    }
}
