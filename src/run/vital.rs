//! What has to go on for the process to live: watches, controllers, loops. `/healthz` names whatever stands still.
//!
//! A restart heals nothing that is wrong with GARM, so nobody is blamed for waiting for it: whoever does has a request under way, or waits for
//! those who have, and each request ends after a minute at most. While GARM is asked all the time, work that does not end for another reason
//! shows in `workqueue_longest_running_processor_seconds` alone.

use std::time::{Duration, Instant};

use super::work::{Current, Line};
use crate::controllers::Hubs;
use crate::runtime::pulse::{Beat, Pulses};
use crate::runtime::queue::QueueState;
use crate::server::health::Finding;

/// Looks after what has to go on.
pub(super) struct Vital {
    /// The watches.
    pub(super) hubs: Hubs,
    /// The loops.
    pub(super) pulses: Pulses,
    /// The controllers.
    pub(super) current: Current,
    /// After how long without progress something stands still.
    pub(super) limit: Duration,
}

impl Vital {
    /// Looks at everything.
    pub(super) fn look(&self) -> Vec<Finding> {
        let now = Instant::now();
        let mut findings: Vec<Finding> = Vec::new();
        for hub in self.hubs.each() {
            let name = format!("watch/{}", hub.kind());
            findings.push((name, watch(hub.idle(now), self.limit)));
        }
        let work = self.current.get();
        let asks_garm = work.as_ref().is_some_and(|work| work.garm.is_asked());
        for Line {
            name,
            concurrency,
            queue,
        } in work.into_iter().flat_map(|work| work.lines)
        {
            let result = controller(&queue.state(1), concurrency, asks_garm, self.limit);
            findings.push((format!("controller/{name}"), result));
        }
        for beat in self.pulses.beats(now) {
            let result = turn(&beat, asks_garm, self.limit);
            findings.push((format!("loop/{}", beat.name), result));
        }
        findings
    }
}

fn watch(idle: Duration, limit: Duration) -> Result<(), String> {
    if idle <= limit {
        return Ok(());
    }
    Err(format!("no progress for {} s", idle.as_secs()))
}

/// Judges a loop.
fn turn(beat: &Beat, asks_garm: bool, limit: Duration) -> Result<(), String> {
    if beat.waits_for_garm && asks_garm {
        return Ok(());
    }
    watch(beat.age, limit.saturating_add(beat.rest))
}

/// Judges a controller: work that a free worker does not take, and work that does not end.
fn controller(
    queue: &QueueState,
    concurrency: usize,
    asks_garm: bool,
    limit: Duration,
) -> Result<(), String> {
    let waits = queue.oldest_ready.filter(|age| *age > limit);
    if let Some(age) = waits
        && queue.running < concurrency
    {
        let (ready, age) = (queue.ready, age.as_secs());
        return Err(format!(
            "{ready} objects wait for a worker, the first for {age} s, and none takes them"
        ));
    }
    let runs = queue.longest_running.first();
    match runs.filter(|(_, age)| *age > limit && !asks_garm) {
        None => Ok(()),
        // Its name is for those who may ask for the state.
        Some((_, age)) => Err(format!(
            "an object is worked on for {} s, and not because of GARM",
            age.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ObjectKey;

    const LIMIT: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(61);

    #[test]
    fn a_watch_stands_still_after_the_limit() {
        assert_eq!(watch(LIMIT, LIMIT), Ok(()));
        assert_eq!(watch(LONG, LIMIT), Err("no progress for 61 s".to_owned()));
    }

    #[test]
    fn a_loop_may_rest_and_may_wait_for_garm() {
        let beat = |waits_for_garm, rest| Beat {
            name: "a",
            age: LONG,
            rest,
            waits_for_garm,
        };
        let second = Duration::from_secs(1);
        assert!(turn(&beat(false, Duration::ZERO), false, LIMIT).is_err());
        assert_eq!(turn(&beat(false, second), false, LIMIT), Ok(()));
        assert!(turn(&beat(false, Duration::ZERO), true, LIMIT).is_err());
        assert!(turn(&beat(true, Duration::ZERO), false, LIMIT).is_err());
        assert_eq!(turn(&beat(true, Duration::ZERO), true, LIMIT), Ok(()));
        assert_eq!(
            turn(&beat(false, Duration::MAX), false, Duration::MAX),
            Ok(())
        );
    }

    #[test]
    fn a_controller_stands_still_when_work_is_not_taken_or_does_not_end() {
        let waiting = |running| QueueState {
            ready: 3,
            oldest_ready: Some(LONG),
            running,
            ..QueueState::default()
        };
        let fault = controller(&waiting(1), 2, true, LIMIT).unwrap_err();
        assert!(fault.contains("3 objects wait for a worker"), "{fault}");
        // All workers are at work: the queue is long, that is all.
        assert_eq!(controller(&waiting(2), 2, false, LIMIT), Ok(()));
        let running = QueueState {
            running: 2,
            longest_running: vec![(ObjectKey::new("ns", "secret-plan"), LONG)],
            ..QueueState::default()
        };
        let fault = controller(&running, 2, false, LIMIT).unwrap_err();
        assert!(fault.contains("61 s") && !fault.contains("plan"), "{fault}");
        assert_eq!(controller(&running, 2, true, LIMIT), Ok(()));
        assert_eq!(controller(&QueueState::default(), 1, false, LIMIT), Ok(()));
    }
}
