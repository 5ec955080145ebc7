//! What the leader works with just now, for those who look on: metrics, probes, diagnosis.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use crate::garm::{self, Garm};
use crate::runtime::queue::Queue;
use crate::telemetry::metrics::{GarmReading, Metrics};

/// The work of this process; there is none on a standby. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Current(Arc<RwLock<Option<Work>>>);

/// What one term works with.
#[derive(Clone)]
pub(super) struct Work {
    /// The connection to GARM.
    pub(super) garm: Garm,
    /// The controllers; none before the watches are loaded.
    pub(super) lines: Vec<Line>,
}

/// A controller's queue and its workers.
#[derive(Clone)]
pub(super) struct Line {
    /// The controller.
    pub(super) name: &'static str,
    /// How many objects it works on at a time.
    pub(super) concurrency: usize,
    /// What it has to work on.
    pub(super) queue: Arc<Queue>,
}

/// Shows work until it is dropped, which is the end of the term.
pub(super) struct Shown<'a>(&'a Current);

impl Current {
    /// Shows the work of a term that begins.
    pub(super) fn show(&self, garm: &Garm) -> Shown<'_> {
        self.set(Some(Work {
            garm: garm.clone(),
            lines: Vec::new(),
        }));
        Shown(self)
    }

    /// Gives the work there is.
    pub(super) fn get(&self) -> Option<Work> {
        let work = self.0.read();
        work.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the metrics of the connection to GARM.
    pub(super) fn measure(&self, registry: &Metrics) {
        let (current, gauges) = (self.clone(), registry.garm_gauges());
        registry.before_scrape(move || {
            let reading = current.get().map(|work| reading(&work.garm.state()));
            gauges.set(reading.as_ref());
            true
        });
    }

    fn set(&self, work: Option<Work>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = work;
    }
}

impl Shown<'_> {
    /// Adds the controllers.
    pub(super) fn add(&self, lines: Vec<Line>) {
        let mut work = self.0.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = &mut *work {
            work.lines = lines;
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

fn reading(state: &garm::State) -> GarmReading {
    let mirror = state.mirror.iter();
    GarmReading {
        is_ready: state.availability.is_ready(),
        event_age: state
            .last_event
            .map(|last| Instant::now().saturating_duration_since(last)),
        under_way: state.under_way,
        mirror: mirror
            .map(|one| (one.collection.name(), one.objects, one.unreadable))
            .collect(),
    }
}
