//! What the connection looks like at a moment, for metrics and diagnosis.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::availability::Availability;
use super::handle::Garm;
use super::mirror::{Collection, CollectionState};

/// The connection at a moment.
#[derive(Debug, Clone)]
pub struct State {
    /// Whether GARM can be worked with.
    pub availability: Availability,
    /// GARM's version, once it has told.
    pub version: Option<String>,
    /// Whether the events socket is up.
    pub is_listening: bool,
    /// When the last event came, if one ever did.
    pub last_event: Option<Instant>,
    /// How many requests wait for GARM's answer.
    pub under_way: usize,
    /// What is known of each collection.
    pub mirror: Vec<CollectionState>,
}

impl Garm {
    /// Looks at the connection as it is now.
    pub fn state(&self) -> State {
        let shared = &self.shared;
        let last_event = shared.last_event.lock();
        State {
            availability: self.availability(),
            version: self
                .controller()
                .map(|controller| controller.version.clone()),
            is_listening: shared.socket_is_up.load(Ordering::Relaxed),
            last_event: *last_event.unwrap_or_else(PoisonError::into_inner),
            under_way: shared.client.http.under_way.count(),
            mirror: Collection::all()
                .map(|collection| shared.mirror().state(collection))
                .collect(),
        }
    }

    /// Says whether a request waits for GARM's answer, or did just now. Whoever waits for GARM in any way waits for one.
    pub fn is_asked(&self) -> bool {
        self.shared.client.http.under_way.was_lately(Instant::now())
    }
}
