//! Loops that have to go on: each says when it turns round, so that one that stands still can be told by name.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

/// All loops of the process that are running now.
#[derive(Clone, Debug, Default)]
pub struct Pulses(Arc<Mutex<Vec<Weak<Loop>>>>);

#[derive(Debug)]
struct Loop {
    name: &'static str,
    rest: Duration,
    waits_for_garm: bool,
    turned: Mutex<Instant>,
}

/// A running loop's own side; the loop is forgotten when this is dropped.
#[derive(Debug)]
pub struct Pulse(Arc<Loop>);

/// What is known of a running loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Its name.
    pub name: &'static str,
    /// How long ago it turned round.
    pub age: Duration,
    /// How long it rests by itself between two turns.
    pub rest: Duration,
    /// Whether it calls GARM, which may take its time.
    pub waits_for_garm: bool,
}

impl Pulses {
    /// Begins to watch over a loop that rests for at most `rest` by itself.
    pub fn begin(&self, name: &'static str, rest: Duration) -> Pulse {
        self.add(name, rest, false)
    }

    /// Begins to watch over a loop that also waits for GARM's answers, however long these take.
    pub fn begin_with_garm(&self, name: &'static str, rest: Duration) -> Pulse {
        self.add(name, rest, true)
    }

    fn add(&self, name: &'static str, rest: Duration, waits_for_garm: bool) -> Pulse {
        let new = Arc::new(Loop {
            name,
            rest,
            waits_for_garm,
            turned: Mutex::new(Instant::now()),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&new));
        Pulse(new)
    }

    /// Lists the running loops in the order in which they began.
    pub fn beats(&self, now: Instant) -> Vec<Beat> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = all.iter().filter_map(Weak::upgrade);
        running
            .map(|one| {
                let turned = *one.turned.lock().unwrap_or_else(PoisonError::into_inner);
                Beat {
                    name: one.name,
                    age: now.saturating_duration_since(turned),
                    rest: one.rest,
                    waits_for_garm: one.waits_for_garm,
                }
            })
            .collect()
    }
}

impl Pulse {
    /// Notes that the loop turned round.
    pub fn turn(&self) {
        *self.0.turned.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_loop_is_known_while_it_runs_and_ages_between_two_turns() {
        let pulses = Pulses::default();
        let lease = pulses.begin("lease", MINUTE);
        let garm = pulses.begin_with_garm("garm", Duration::ZERO);
        let later = Instant::now() + MINUTE;
        let beats = pulses.beats(later);
        let names: Vec<&str> = beats.iter().map(|beat| beat.name).collect();
        assert_eq!(names, ["lease", "garm"]);
        assert!(beats[0].age > MINUTE / 2 && beats[1].waits_for_garm);
        let before = beats[0].age;
        lease.turn();
        assert!(pulses.beats(later)[0].age <= before);
        drop(lease);
        assert_eq!(pulses.beats(later).len(), 1);
        drop(garm);
        assert!(pulses.beats(later).is_empty());
    }
}
