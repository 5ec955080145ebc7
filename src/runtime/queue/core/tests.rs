use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// A queue and a clock that only the test moves.
struct Bench {
    core: Core,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            core: Core::default(),
            now: Instant::now(),
        }
    }

    fn add(&mut self, name: &str) {
        self.core.add(key(name), self.now);
    }

    fn add_fresh(&mut self, name: &str) {
        self.core.add_fresh(key(name), self.now);
    }

    fn add_after(&mut self, name: &str, delay: Duration) {
        self.core.add_at(key(name), self.now + delay);
    }

    fn pop(&mut self) -> Option<String> {
        self.core.pop(self.now).map(|job| job.key.name)
    }

    fn finish(&mut self, name: &str, verdict: Verdict) {
        self.core.finish(&key(name), verdict, self.now, |attempts| {
            SECOND * attempts * 10
        });
    }

    fn fail(&mut self, name: &str) {
        self.add(name);
        assert_eq!(self.pop().as_deref(), Some(name));
        self.finish(name, Verdict::Retry);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

#[test]
fn keeps_order_and_drops_doubles() {
    let mut bench = Bench::new();
    for name in ["a", "b", "a"] {
        bench.add(name);
    }
    assert_eq!(
        [bench.pop(), bench.pop(), bench.pop()],
        [Some("a".into()), Some("b".into()), None]
    );
}

#[test]
fn works_again_after_an_add_during_the_work() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.pop();
    bench.add("a");
    assert_eq!(bench.pop(), None);
    bench.finish("a", Verdict::Done);
    assert_eq!(bench.pop().as_deref(), Some("a"));
    bench.finish("a", Verdict::Done);
    assert_eq!(bench.pop(), None);
    assert!(bench.core.entries.is_empty());
}

#[test]
fn an_add_does_not_shorten_a_back_off_but_a_changed_spec_does() {
    let mut bench = Bench::new();
    bench.fail("a");
    bench.add("a");
    bench.add_after("a", Duration::ZERO);
    bench.pass(9 * SECOND);
    assert_eq!(bench.pop(), None);
    bench.add_fresh("a");
    let job = bench.core.pop(bench.now).unwrap();
    assert_eq!((job.key, job.attempts), (key("a"), 0));
}

#[test]
fn counts_failures_in_a_row_and_forgets_them_after_success() {
    let mut bench = Bench::new();
    bench.fail("a");
    bench.pass(10 * SECOND);
    assert_eq!(bench.core.pop(bench.now).unwrap().attempts, 1);
    bench.finish("a", Verdict::Retry);
    bench.pass(19 * SECOND);
    assert_eq!(bench.pop(), None);
    bench.pass(SECOND);
    assert_eq!(bench.core.pop(bench.now).unwrap().attempts, 2);
    bench.finish("a", Verdict::After(SECOND));
    bench.pass(SECOND);
    assert_eq!(bench.core.pop(bench.now).unwrap().attempts, 0);
    assert_eq!(bench.core.take_counts(), (4, 2));
}

#[test]
fn stale_work_comes_back_later_each_time_until_something_is_heard() {
    let mut bench = Bench::new();
    bench.add("a");
    let mut delays = Vec::new();
    for _ in 0..12 {
        assert_eq!(bench.pop().as_deref(), Some("a"));
        bench.finish("a", Verdict::Stale);
        let due = bench.core.next_due().unwrap();
        delays.push(due - bench.now);
        bench.now = due;
    }
    let tenth = SECOND / 10;
    assert_eq!(delays[..4], [tenth, tenth * 2, tenth * 4, tenth * 8]);
    assert_eq!(delays[9..], [SECOND * 30; 3]);
    bench.pop();
    bench.finish("a", Verdict::Stale);
    bench.add("a");
    assert_eq!(bench.pop().as_deref(), Some("a"), "news comes first");
    bench.finish("a", Verdict::Stale);
    assert_eq!(bench.core.next_due(), Some(bench.now + tenth));
    bench.pass(tenth);
    bench.pop();
    bench.add("a");
    bench.finish("a", Verdict::Stale);
    assert_eq!(
        bench.pop().as_deref(),
        Some("a"),
        "also while it was worked on"
    );
}

#[test]
fn a_failure_during_which_something_was_added_still_backs_off() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.pop();
    bench.add("a");
    bench.finish("a", Verdict::Retry);
    assert_eq!(bench.pop(), None);
    bench.pass(10 * SECOND);
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn a_spec_changed_during_a_failing_try_is_tried_at_once() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.pop();
    bench.add_fresh("a");
    bench.add("a");
    bench.finish("a", Verdict::Retry);
    assert_eq!(bench.core.pop(bench.now).unwrap().attempts, 0);
}

#[test]
fn an_add_ends_a_pace() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.pop();
    bench.finish("a", Verdict::After(60 * SECOND));
    assert_eq!(bench.core.next_due(), Some(bench.now + 60 * SECOND));
    bench.add("a");
    assert_eq!(bench.pop().as_deref(), Some("a"));
    assert_eq!(bench.core.next_due(), None);
}

#[test]
fn the_earlier_of_two_delays_wins() {
    let mut bench = Bench::new();
    bench.add_after("a", 10 * SECOND);
    bench.add_after("a", 20 * SECOND);
    bench.pass(10 * SECOND);
    assert_eq!(bench.pop().as_deref(), Some("a"));
    bench.add_after("a", 5 * SECOND);
    bench.finish("a", Verdict::After(30 * SECOND));
    bench.pass(5 * SECOND);
    assert_eq!(bench.pop().as_deref(), Some("a"));
    // A resync asked for during the work outlives a verdict of "done".
    bench.add_after("a", 5 * SECOND);
    bench.finish("a", Verdict::Done);
    bench.pass(5 * SECOND);
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn forgets_an_object_wherever_it_waits() {
    let mut bench = Bench::new();
    bench.fail("failing");
    bench.add_after("waiting", SECOND);
    bench.add("running");
    bench.pop();
    bench.add("running");
    bench.add("ready");
    for name in ["ready", "waiting", "failing", "running", "unknown"] {
        bench.core.forget(&key(name));
    }
    bench.finish("running", Verdict::Done);
    bench.pass(60 * SECOND);
    assert_eq!(bench.pop(), None);
}

#[test]
fn gives_released_work_back() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.pop();
    bench.core.release(&key("a"), bench.now);
    assert_eq!(bench.pop().as_deref(), Some("a"));
}

#[test]
fn measures_waiting_and_working_times() {
    let mut bench = Bench::new();
    bench.add("a");
    bench.add("b");
    assert_eq!(bench.core.depth(), 2);
    bench.pass(2 * SECOND);
    assert_eq!(bench.core.pop(bench.now).unwrap().waited, 2 * SECOND);
    bench.pass(SECOND);
    assert_eq!(bench.core.pop(bench.now).unwrap().waited, 3 * SECOND);
    bench.pass(SECOND);
    assert_eq!(bench.core.running(bench.now), (3 * SECOND, 2 * SECOND));
    assert_eq!(bench.core.take_counts(), (2, 0));
    assert_eq!(bench.core.take_counts(), (0, 0));
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddFresh(u8),
    AddAfter(u8, u8),
    Pop,
    Done,
    After(u8),
    Stale,
    Retry,
    Release,
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..4_u8).prop_map(Op::Add),
        1 => (0..4_u8).prop_map(Op::AddFresh),
        2 => (0..4_u8, 0..30_u8).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        4 => Just(Op::Pop),
        2 => Just(Op::Done),
        1 => (0..30_u8).prop_map(Op::After),
        1 => Just(Op::Stale),
        2 => Just(Op::Retry),
        1 => Just(Op::Release),
        2 => (1..40_u8).prop_map(Op::Pass),
    ]
}

proptest! {
    /// Whatever happens, nothing is worked on twice at once, and everything asked for is handed out again.
    #[test]
    fn loses_nothing_and_never_hands_out_twice(ops in proptest::collection::vec(op(), 0..200)) {
        let mut bench = Bench::new();
        let mut running: Vec<String> = Vec::new();
        // Asked for and not handed out since.
        let mut owed: HashSet<String> = HashSet::new();
        let seconds = |n: u8| SECOND * u32::from(n);
        for op in ops {
            match op {
                Op::Add(n) => { bench.add(&n.to_string()); owed.insert(n.to_string()); }
                Op::AddFresh(n) => { bench.add_fresh(&n.to_string()); owed.insert(n.to_string()); }
                Op::AddAfter(n, d) => { bench.add_after(&n.to_string(), seconds(d)); owed.insert(n.to_string()); }
                Op::Pop => if let Some(name) = bench.pop() {
                    prop_assert!(!running.contains(&name), "{} handed out twice", name);
                    owed.remove(&name);
                    running.push(name);
                },
                Op::Done => if let Some(name) = running.pop() { bench.finish(&name, Verdict::Done); },
                Op::After(d) => if let Some(name) = running.pop() {
                    bench.finish(&name, Verdict::After(seconds(d)));
                    owed.insert(name);
                },
                Op::Stale => if let Some(name) = running.pop() { bench.finish(&name, Verdict::Stale); owed.insert(name); },
                Op::Retry => if let Some(name) = running.pop() { bench.finish(&name, Verdict::Retry); owed.insert(name); },
                Op::Release => if let Some(name) = running.pop() { bench.core.release(&key(&name), bench.now); owed.insert(name); },
                Op::Pass(n) => bench.pass(seconds(n)),
            }
        }
        for name in running.drain(..) {
            bench.finish(&name, Verdict::Done);
        }
        bench.pass(10_000 * SECOND);
        while let Some(name) = bench.pop() {
            owed.remove(&name);
            bench.finish(&name, Verdict::Done);
        }
        prop_assert!(owed.is_empty(), "never handed out: {:?}", owed);
        prop_assert!(bench.core.entries.is_empty() && bench.core.timers.is_empty() && bench.core.ready.is_empty());
    }
}

#[test]
fn its_state_names_the_worst_objects_first_and_not_too_many() {
    let mut bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.add(name);
        bench.pop();
    }
    bench.finish("a", Verdict::Retry);
    bench.finish("b", Verdict::Retry);
    bench.now += SECOND * 10;
    assert_eq!(bench.pop().as_deref(), Some("a"));
    bench.finish("a", Verdict::Retry);
    bench.add_after("d", SECOND);
    bench.add("e");
    bench.add("f");
    bench.now += SECOND * 2;
    let state = bench.core.state(bench.now, 1);
    assert_eq!(
        (state.ready, state.paced, state.running, state.backing_off),
        // The second one that failed has become due, and waits for a worker.
        (3, 1, 1, 1)
    );
    assert_eq!(state.oldest_ready, Some(SECOND * 2));
    assert_eq!(state.longest_running, [(key("c"), SECOND * 12)]);
    let failed = Failed {
        key: key("a"),
        attempts: 2,
        due_in: SECOND * 18,
    };
    assert_eq!(state.most_failed, [failed]);
    let numbers = bench.core.state(bench.now, 0);
    assert!(numbers.most_failed.is_empty() && numbers.backing_off == 1);
}
