//! Counts what the connection to GARM does, and watches over its loops.

use std::sync::{Arc, Weak};

use jiff::Timestamp;

use crate::garm::{self, Called, Loop, Observer};
use crate::runtime::pulse::{Pulse, Pulses};
use crate::telemetry::metrics::Metrics;

/// The loops of the connection, for as long as they run.
pub(super) struct Loops {
    lists: Pulse,
    events: Pulse,
}

impl Loops {
    /// Begins to watch over them.
    pub(super) fn begin(pulses: &Pulses, times: &garm::Timings) -> Self {
        Self {
            // It looks whether to poll even where it does not poll.
            lists: pulses.begin_with_garm("garm-lists", times.runners_interval),
            events: pulses.begin_with_garm("garm-events", times.silence),
        }
    }
}

/// Hears what the connection does in one term.
pub(super) struct Heard {
    registry: Arc<Metrics>,
    /// Weak: a call that may not begin any more can outlive the loops, and must not pass for one of them.
    loops: Weak<Loops>,
}

impl Heard {
    /// Begins to listen.
    pub(super) fn new(registry: &Arc<Metrics>, loops: &Arc<Loops>) -> Self {
        Self {
            registry: Arc::clone(registry),
            loops: Arc::downgrade(loops),
        }
    }
}

impl Observer for Heard {
    fn request(&self, call: &Called) {
        let failed = call.status.is_none_or(|status| status >= 400);
        self.registry.garm_called(call.label, failed);
        self.registry
            .garm_answered(call.method, call.route, call.status, call.duration);
    }

    fn unauthenticated(&self) {
        self.registry.garm_failed("client.Unauthenticated");
    }

    fn token_expires(&self, at: Timestamp) {
        self.registry.garm_token_expiry(at.as_second());
    }

    fn socket(&self, is_up: bool) {
        self.registry.garm_events_connected(is_up);
    }

    fn event(&self) {
        self.registry.garm_event();
    }

    fn resync(&self, succeeded: bool) {
        self.registry.garm_resync(succeeded);
    }

    fn turned(&self, which: Loop) {
        let Some(loops) = self.loops.upgrade() else {
            return;
        };
        if which != Loop::Events {
            loops.lists.turn();
        }
        if which != Loop::Lists {
            loops.events.turn();
        }
    }
}
