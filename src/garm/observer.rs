//! Who hears of what the connection does.

use std::time::Duration;

use jiff::Timestamp;

/// A call that is over.
#[derive(Debug, Clone, Copy)]
pub struct Called {
    /// Its label: `pool.Get`.
    pub label: &'static str,
    /// Its HTTP method: `GET`.
    pub method: &'static str,
    /// Its route, below `/api/v1`, with placeholders for what differs from object to object: `/pools/{id}`.
    pub route: &'static str,
    /// The status of the answer, if one came.
    pub status: Option<u16>,
    /// How long it took.
    pub duration: Duration,
}

/// A loop of the connection that has to go on, whatever GARM does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// Waits until GARM can be worked with. The others do not run meanwhile.
    Gate,
    /// Lists what GARM has.
    Lists,
    /// Keeps the events socket.
    Events,
}

/// Hears about calls and events, for metrics and probes. All methods must return at once.
pub trait Observer: Send + Sync + 'static {
    /// Hears of a call.
    fn request(&self, _call: &Called) {}
    /// Hears that GARM refused a token, and a new one is fetched.
    fn unauthenticated(&self) {}
    /// Hears that GARM gave a token, and until when it is good.
    fn token_expires(&self, _at: Timestamp) {}
    /// Hears that the events socket came up or went down.
    fn socket(&self, _is_up: bool) {}
    /// Hears that an event came.
    fn event(&self) {}
    /// Hears how a round of lists of everything ended.
    fn resync(&self, _succeeded: bool) {}
    /// Hears that a loop turned round.
    fn turned(&self, _which: Loop) {}
}

/// Hears and does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
