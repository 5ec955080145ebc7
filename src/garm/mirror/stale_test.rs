//! Answers of before a change back, where GARM tells no times (v0.1.5).

use std::time::Instant;

use super::super::settings::Timings;
use super::super::wire::Pool;
use super::*;

fn pool(max_runners: i64) -> Pool {
    Pool {
        id: "a".to_owned(),
        max_runners,
        ..Pool::default()
    }
}

/// A mirror that has heard of the pool as it was first.
fn mirror() -> (Mirror, Instant) {
    let (mut mirror, now) = (Mirror::new(&Timings::default()), Instant::now());
    mirror.heard(pool(1), now);
    (mirror, now)
}

fn max_runners(mirror: &Mirror) -> Option<i64> {
    mirror
        .get::<Pool>(&"a".to_owned())
        .map(|pool| pool.max_runners)
}

fn is_in_doubt(mirror: &mut Mirror, now: Instant) -> bool {
    mirror
        .take_read(now + Timings::default().reread_delay)
        .is_some()
}

#[test]
fn an_answer_of_before_a_change_back_is_not_believed() {
    let (mut mirror, now) = mirror();
    let ticket = mirror.ticket(now);
    // It became 2, which this answer shows, and 1 again, which is heard first.
    mirror.heard(pool(1), now);
    mirror.read(pool(2), ticket, now);
    assert_eq!(max_runners(&mirror), Some(1));
    assert!(is_in_doubt(&mut mirror, now));
}

#[test]
fn an_old_answer_does_not_settle_the_doubt_about_a_late_answer_to_our_write() {
    let (mut mirror, now) = mirror();
    let (write, read) = (mirror.ticket(now), mirror.ticket(now));
    // Somebody wrote 3 after us, and that is known already.
    let list = mirror.ticket(now);
    mirror.read(pool(3), list, now);
    mirror.written(pool(2), write, now);
    mirror.read(pool(2), read, now);
    assert!(
        is_in_doubt(&mut mirror, now),
        "both answers are of one time"
    );
}
