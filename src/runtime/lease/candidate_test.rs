//! A candidate's decisions: one by one, and those of several candidates against each other.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;
use serde_json::json;

use super::Times;
use super::candidate::{Candidate, Step};

const TIMES: Times = Times {
    duration: Duration::from_secs(15),
    renew: Duration::from_secs(10),
    retry: Duration::from_secs(2),
    release: Duration::from_secs(2),
};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A Lease as client-go writes it.
fn lease(holder: &str, version: &str, renewed: u32) -> Lease {
    serde_json::from_value(json!({
        "metadata": {"name": "l", "namespace": "ns", "uid": "u", "resourceVersion": version},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": format!("2020-01-01T00:00:{renewed:02}.000000Z"),
            "leaseTransitions": 4,
        },
    }))
    .unwrap()
}

fn candidate() -> Candidate {
    Candidate::new("l", "me".to_owned(), TIMES)
}

/// A candidate that leads by a write sent at `sent`.
fn leader(sent: Instant) -> Candidate {
    let mut candidate = candidate();
    candidate.saw(None, sent);
    let mut mine = candidate.propose(Timestamp::UNIX_EPOCH);
    mine.metadata.resource_version = Some("1".to_owned());
    candidate.wrote(mine, sent, sent + seconds(1), TIMES.retry);
    candidate
}

#[test]
fn reads_first_and_takes_what_is_nobodys() {
    let now = Instant::now();
    let mut candidate = candidate();
    assert_eq!(candidate.decide(now), Step::Read);
    for free in [None, Some(lease("", "7", 0)), Some(Lease::default())] {
        candidate.saw(free, now);
        assert_eq!(candidate.decide(now), Step::Write);
    }
}

#[test]
fn waits_for_as_long_as_the_record_of_another_does_not_change() {
    let start = Instant::now();
    let mut candidate = candidate();
    candidate.saw(Some(lease("other", "7", 0)), start);
    let expiry = start + seconds(15);
    assert_eq!(candidate.decide(start), Step::Wait(expiry));
    // Somebody put a label on it: no news of the holder.
    candidate.saw(Some(lease("other", "8", 0)), start + seconds(9));
    assert_eq!(candidate.decide(start + seconds(9)), Step::Wait(expiry));
    candidate.saw(Some(lease("other", "9", 1)), start + seconds(10));
    let later = start + seconds(25);
    assert_eq!(candidate.decide(start + seconds(16)), Step::Wait(later));
    assert_eq!(candidate.decide(later), Step::Write);
    assert_eq!(candidate.version(), Some("9"));
}

#[test]
fn believes_the_duration_that_the_record_names() {
    let start = Instant::now();
    let mut candidate = candidate();
    let mut long = lease("other", "7", 0);
    long.spec.as_mut().unwrap().lease_duration_seconds = Some(60);
    candidate.saw(Some(long), start);
    assert_eq!(candidate.decide(start), Step::Wait(start + seconds(60)));
    let mut unknown = lease("other", "8", 1);
    unknown.spec.as_mut().unwrap().lease_duration_seconds = None;
    candidate.saw(Some(unknown), start);
    assert_eq!(candidate.decide(start), Step::Wait(start + seconds(15)));
}

#[test]
fn a_lease_deleted_by_hand_is_left_to_its_holder_until_it_would_have_expired() {
    let start = Instant::now();
    let mut candidate = candidate();
    candidate.saw(Some(lease("other", "7", 0)), start);
    candidate.saw(None, start + seconds(3));
    let expiry = start + seconds(15);
    assert_eq!(candidate.decide(start + seconds(3)), Step::Wait(expiry));
    assert_eq!(candidate.decide(expiry), Step::Write);
    let start = Instant::now();
    let mut leader = leader(start);
    leader.saw(None, start + seconds(3));
    assert_eq!(leader.decide(start + seconds(3)), Step::Write);
}

#[test]
fn leads_from_the_sending_of_the_last_success_until_the_renew_deadline() {
    let start = Instant::now();
    let mut leader = leader(start);
    assert_eq!(leader.held_until(), Some(start + seconds(10)));
    let due = start + seconds(2);
    assert_eq!(leader.decide(start + seconds(1)), Step::Wait(due));
    assert_eq!(leader.decide(due), Step::Write);
    // Failures do not prolong it, whatever pause they ask for.
    leader.doubt(start + seconds(60));
    let end = start + seconds(10);
    assert_eq!(leader.decide(start + seconds(4)), Step::Wait(end));
    assert_eq!(leader.decide(end), Step::Lost);
    leader.lost();
    assert_eq!(leader.decide(end), Step::Read);
    // Nobody has taken it meanwhile.
    leader.saw(Some(lease("me", "8", 2)), end);
    assert_eq!(leader.decide(end), Step::Write);
}

#[test]
fn an_answer_after_the_deadline_does_not_turn_it_back() {
    let start = Instant::now();
    let mut leader = leader(start);
    let renewed = leader.propose(Timestamp::UNIX_EPOCH);
    leader.wrote(
        renewed,
        start + seconds(9),
        start + seconds(11),
        TIMES.retry,
    );
    assert_eq!(leader.decide(start + seconds(11)), Step::Lost);
}

#[test]
fn sees_at_once_that_another_has_taken_it() {
    let start = Instant::now();
    let mut leader = leader(start);
    leader.saw(Some(lease("other", "9", 3)), start + seconds(1));
    assert_eq!(leader.decide(start + seconds(1)), Step::Lost);
}

#[test]
fn a_taken_lease_counts_its_transitions_and_a_kept_one_its_renewals() {
    let start = Instant::now();
    let mut candidate = candidate();
    candidate.saw(Some(lease("", "7", 0)), start);
    let time: Timestamp = "2021-01-01T00:00:00Z".parse().unwrap();
    let taken = candidate.propose(time);
    assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"));
    let spec = taken.spec.clone().unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("me"), Some(5))
    );
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.acquire_time, spec.renew_time);
    candidate.wrote(taken, start, start, TIMES.retry);
    let kept = candidate.propose(time + jiff::SignedDuration::from_secs(2));
    let kept = kept.spec.unwrap();
    assert_eq!(kept.lease_transitions, Some(5));
    assert_eq!(kept.acquire_time, spec.acquire_time);
    assert_ne!(kept.renew_time, spec.renew_time);
}

#[test]
fn gives_back_what_is_its_own_and_nothing_else() {
    let start = Instant::now();
    let time = Timestamp::UNIX_EPOCH;
    let mut standby = candidate();
    standby.saw(Some(lease("other", "7", 0)), start);
    assert!(standby.release(time).is_none() && !standby.may_hold());
    let mut leader = leader(start);
    let spec = leader.release(time).unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!(spec.lease_duration_seconds, Some(1));
    assert!(leader.may_hold(), "until that is answered");
    // A write whose answer never came may have been carried out.
    let mut unsure = candidate();
    unsure.saw(None, start);
    unsure.propose(time);
    assert!(unsure.may_hold() && unsure.release(time).is_none());
    unsure.saw(Some(lease("me", "8", 0)), start);
    assert!(unsure.release(time).is_some());
}

/// Several candidates before one API server, each with a clock of its own, and requests and answers that take their time or get lost.
struct World {
    origin: Instant,
    /// Milliseconds since the origin.
    time: u64,
    stored: Option<Lease>,
    version: u64,
    replicas: Vec<Replica>,
}

struct Replica {
    candidate: Candidate,
    /// How its clock stands, in milliseconds, and how fast it goes, in thousandths.
    offset: u64,
    rate: u64,
    under_way: Option<Request>,
}

enum Request {
    Sent(Sort, Instant),
    Answered(Answer, Instant),
}

enum Sort {
    Read,
    Write(Box<Lease>),
}

enum Answer {
    Read(Option<Box<Lease>>),
    Written(Box<Lease>),
    Refused,
}

/// What happens next, and to which replica.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// It does what it decides.
    Act,
    /// The server carries its request out.
    Carry,
    /// The answer arrives.
    Arrive,
    /// Request or answer is lost.
    Lose,
    /// A watch shows it the stored Lease.
    Show,
    /// It gives the Lease back, if it leads, and the server carries that out.
    Resign,
    /// It acts, and its request is answered at once.
    Finish,
    /// Time goes on by so many milliseconds; nobody notices before it acts.
    Pass(u64),
    /// Time goes on until it would do something.
    Await,
}

impl World {
    fn new(clocks: &[(u64, u64)]) -> Self {
        let replica = |(index, &(offset, rate)): (usize, &(u64, u64))| Replica {
            candidate: Candidate::new("l", index.to_string(), TIMES),
            offset,
            rate,
            under_way: None,
        };
        Self {
            origin: Instant::now(),
            time: 0,
            stored: None,
            version: 0,
            replicas: clocks.iter().enumerate().map(replica).collect(),
        }
    }

    /// What the clock of a replica shows.
    fn now(&self, index: usize) -> Instant {
        let replica = &self.replicas[index];
        self.origin + Duration::from_millis(replica.offset + self.time * replica.rate / 1000)
    }

    fn leads(&self, index: usize) -> bool {
        let until = self.replicas[index].candidate.held_until();
        until.is_some_and(|until| self.now(index) < until)
    }

    fn happen(&mut self, index: usize, happening: Happening) {
        match happening {
            Happening::Finish => {
                self.happen(index, Happening::Act);
                self.happen(index, Happening::Carry);
                return self.happen(index, Happening::Arrive);
            }
            Happening::Await => {
                if let Step::Wait(until) = self.replicas[index].candidate.decide(self.now(index)) {
                    let left = until.saturating_duration_since(self.now(index));
                    let left = u64::try_from(left.as_millis()).unwrap();
                    self.time += left * 1000 / self.replicas[index].rate + 2;
                }
                return;
            }
            _ => {}
        }
        let now = self.now(index);
        let clock = Timestamp::from_millisecond(i64::try_from(self.time).unwrap()).unwrap();
        let replica = &mut self.replicas[index];
        let candidate = &mut replica.candidate;
        match (happening, replica.under_way.take()) {
            (Happening::Pass(time), under_way) => {
                replica.under_way = under_way;
                self.time += time;
            }
            (Happening::Act, None) => match candidate.decide(now) {
                Step::Read => replica.under_way = Some(Request::Sent(Sort::Read, now)),
                Step::Write => {
                    let lease = Box::new(candidate.propose(clock));
                    replica.under_way = Some(Request::Sent(Sort::Write(lease), now));
                }
                Step::Wait(_) => {}
                Step::Lost => candidate.lost(),
            },
            (Happening::Carry, Some(Request::Sent(sort, sent))) => {
                let answer = match sort {
                    Sort::Read => Answer::Read(self.stored.clone().map(Box::new)),
                    Sort::Write(lease) => self.store(*lease),
                };
                self.replicas[index].under_way = Some(Request::Answered(answer, sent));
            }
            (Happening::Arrive, Some(Request::Answered(answer, sent))) => match answer {
                Answer::Read(lease) => candidate.saw(lease.map(|lease| *lease), now),
                Answer::Written(lease) => candidate.wrote(*lease, sent, now, TIMES.retry),
                Answer::Refused => candidate.doubt(now),
            },
            (Happening::Lose, Some(_)) => candidate.doubt(now),
            (Happening::Show, None) if candidate.version().is_some() => {
                candidate.saw(self.stored.clone(), now);
            }
            (Happening::Resign, None) => {
                if let Some(lease) = candidate.release(clock) {
                    candidate.lost();
                    self.store(lease);
                }
            }
            (_, under_way) => replica.under_way = under_way,
        }
    }

    /// Does as the API server: a stale version is refused.
    fn store(&mut self, mut lease: Lease) -> Answer {
        let current = self.stored.as_ref();
        let current = current.and_then(|stored| stored.metadata.resource_version.clone());
        if current != lease.metadata.resource_version {
            return Answer::Refused;
        }
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.stored = Some(lease.clone());
        Answer::Written(Box::new(lease))
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Act),
        4 => Just(Happening::Carry),
        4 => Just(Happening::Arrive),
        1 => Just(Happening::Lose),
        2 => Just(Happening::Show),
        1 => Just(Happening::Resign),
        6 => Just(Happening::Finish),
        4 => Just(Happening::Await),
        // Short enough to renew, or long enough to be frozen past the Lease.
        4 => prop_oneof![1..2_500_u64, 1..20_000_u64].prop_map(Happening::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Clocks stand anywhere and may differ in speed by a tenth in both directions, which no real ones do.
    #[test]
    fn no_two_candidates_ever_lead_at_a_time(
        clocks in prop::collection::vec((0..1_000_000_u64, 900..1_100_u64), 2..4),
        happenings in prop::collection::vec((0..4_usize, happening()), 1..120),
    ) {
        let mut world = World::new(&clocks);
        for (index, happening) in happenings {
            world.happen(index % clocks.len(), happening);
            let leading = (0..clocks.len()).filter(|&index| world.leads(index)).count();
            prop_assert!(leading <= 1, "{leading} lead");
        }
    }

    /// Whatever has happened: when requests get through again, somebody leads before long.
    #[test]
    fn somebody_leads_when_the_trouble_is_over(
        happenings in prop::collection::vec((0..2_usize, happening()), 0..60),
    ) {
        let mut world = World::new(&[(0, 1_000), (5_000, 1_000)]);
        for (index, happening) in happenings {
            world.happen(index, happening);
        }
        for _ in 0..80 {
            for index in [0, 1] {
                for happening in [Happening::Carry, Happening::Arrive, Happening::Act] {
                    world.happen(index, happening);
                }
            }
            world.time += 500;
        }
        prop_assert!((0..2).any(|index| world.leads(index)));
    }
}
