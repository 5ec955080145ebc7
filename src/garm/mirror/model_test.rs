//! Random histories of a small GARM, told to the mirror late, out of order and with gaps.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::super::settings::Timings;
use super::super::wire::{List, Pool};
use super::*;

/// One thing that happens. Numbers pick among what there is.
#[derive(Debug, Clone)]
enum Step {
    /// Somebody else changes GARM.
    Create,
    Update(usize),
    Delete(usize),
    /// We send a request.
    AskList,
    AskRead(usize),
    AskPut(usize),
    AskDelete(usize),
    /// GARM handles a request.
    Serve(usize),
    /// An answer arrives.
    Answer(usize),
    /// An event arrives, or is lost.
    Hear(usize),
    Lose(usize),
    /// We read what is in doubt.
    Reread,
}

fn step() -> impl Strategy<Value = Step> {
    let pick = 0..64_usize;
    prop_oneof![
        3 => Just(Step::Create),
        4 => pick.clone().prop_map(Step::Update),
        2 => pick.clone().prop_map(Step::Delete),
        3 => Just(Step::AskList),
        2 => pick.clone().prop_map(Step::AskRead),
        3 => pick.clone().prop_map(Step::AskPut),
        1 => pick.clone().prop_map(Step::AskDelete),
        6 => pick.clone().prop_map(Step::Serve),
        6 => pick.clone().prop_map(Step::Answer),
        8 => pick.clone().prop_map(Step::Hear),
        1 => pick.prop_map(Step::Lose),
        2 => Just(Step::Reread),
    ]
}

enum Request {
    List,
    Read(String),
    Put(String),
    Delete(String),
}

enum Reply {
    List(Vec<Pool>),
    Pool(Option<Box<Pool>>),
    Done,
}

enum Event {
    Changed(Box<Pool>),
    Deleted(String),
}

struct Pending {
    ticket: Ticket,
    request: Request,
    reply: Option<Reply>,
}

/// A GARM, the network, and the mirror.
struct World {
    has_times: bool,
    pools: BTreeMap<String, Pool>,
    gone: Vec<String>,
    changes: i64,
    events: Vec<Event>,
    pending: Vec<Pending>,
    mirror: Mirror,
    now: Instant,
}

impl World {
    fn new(has_times: bool) -> Self {
        Self {
            has_times,
            pools: BTreeMap::new(),
            gone: Vec::new(),
            changes: 0,
            events: Vec::new(),
            pending: Vec::new(),
            mirror: Mirror::new(&Timings::default()),
            now: Instant::now(),
        }
    }

    fn pick(&self, number: usize) -> Option<String> {
        let ids: Vec<_> = self.pools.keys().chain(&self.gone).collect();
        (!ids.is_empty()).then(|| ids[number % ids.len()].clone())
    }

    fn create(&mut self) {
        let id = format!("pool-{}", self.pools.len() + self.gone.len());
        self.pools.insert(
            id.clone(),
            Pool {
                id: id.clone(),
                ..Pool::default()
            },
        );
        self.update(&id);
    }

    /// Changes a pool in GARM; now and then only in what lists do not show.
    fn update(&mut self, id: &str) {
        self.changes += 1;
        let changes = self.changes;
        let Some(pool) = self.pools.get_mut(id) else {
            return;
        };
        if changes % 3 == 0 {
            pool.extra_specs = Some(json!({"changes": changes}));
            pool.generation = self
                .has_times
                .then(|| pool.generation.map_or(0, |generation| generation + 1));
        } else {
            // Small numbers, so that earlier states come back.
            pool.max_runners = changes % 4;
            pool.extra_specs.get_or_insert(serde_json::Value::Null);
            pool.generation = self.has_times.then(|| pool.generation.unwrap_or_default());
        }
        if self.has_times {
            pool.updated_at = Timestamp::from_second(changes).ok();
        }
        let pool = pool.clone();
        self.events.push(Event::Changed(Box::new(pool)));
    }

    fn delete(&mut self, id: &str) {
        if self.pools.remove(id).is_some() {
            self.gone.push(id.to_owned());
            self.events.push(Event::Deleted(id.to_owned()));
        }
    }

    fn ask(&mut self, request: Request) {
        let ticket = self.mirror.ticket(self.now);
        self.pending.push(Pending {
            ticket,
            request,
            reply: None,
        });
    }

    fn serve(&mut self, number: usize) {
        let waiting: Vec<_> = (0..self.pending.len())
            .filter(|at| self.pending[*at].reply.is_none())
            .collect();
        let Some(at) = waiting.get(number % waiting.len().max(1)) else {
            return;
        };
        let reply = match &self.pending[*at].request {
            Request::List => {
                let shown = |pool: &Pool| Pool {
                    extra_specs: None,
                    ..pool.clone()
                };
                Reply::List(self.pools.values().map(shown).collect())
            }
            Request::Read(id) => Reply::Pool(self.pools.get(id).cloned().map(Box::new)),
            Request::Put(id) => {
                let id = id.clone();
                self.update(&id);
                Reply::Pool(self.pools.get(&id).cloned().map(Box::new))
            }
            Request::Delete(id) => {
                let id = id.clone();
                self.delete(&id);
                Reply::Done
            }
        };
        self.pending[*at].reply = Some(reply);
    }

    fn answer(&mut self, number: usize) {
        let ready: Vec<_> = (0..self.pending.len())
            .filter(|at| self.pending[*at].reply.is_some())
            .collect();
        let Some(at) = ready.get(number % ready.len().max(1)) else {
            return;
        };
        let Pending {
            ticket,
            request,
            reply,
        } = self.pending.swap_remove(*at);
        let (mirror, now) = (&mut self.mirror, self.now);
        match (request, reply) {
            (Request::List, Some(Reply::List(items))) => {
                let list = List {
                    items,
                    unreadable: Vec::new(),
                };
                mirror.listed(Collection::Pools, list, ticket, |_| true, now);
            }
            (Request::Put(_), Some(Reply::Pool(Some(pool)))) => {
                mirror.written(*pool, ticket, now);
            }
            (Request::Read(_), Some(Reply::Pool(Some(pool)))) => {
                mirror.read(*pool, ticket, now);
            }
            (Request::Read(id) | Request::Put(id) | Request::Delete(id), _) => {
                mirror.absent::<Pool>(&id, ticket, now);
            }
            _ => unreachable!("a reply of another kind"),
        }
    }

    fn hear(&mut self, number: usize) {
        if self.events.is_empty() {
            return;
        }
        let at = number % self.events.len();
        match self.events.remove(at) {
            Event::Changed(pool) => self.mirror.heard(*pool, self.now),
            Event::Deleted(id) => self.mirror.deleted::<Pool>(&id, self.now),
        };
    }

    fn lose(&mut self, number: usize) {
        if !self.events.is_empty() {
            self.events.remove(number % self.events.len());
        }
    }

    fn reread(&mut self) -> bool {
        let later = self.now + Timings::default().reread_delay;
        let Some(subject) = self.mirror.take_read(later) else {
            return false;
        };
        let Subject::Pool(id) = &subject else {
            unreachable!("only pools")
        };
        let ticket = self.mirror.ticket(self.now);
        match self.pools.get(id).cloned() {
            Some(pool) => self.mirror.read(pool, ticket, self.now),
            None => self.mirror.absent::<Pool>(id, ticket, self.now),
        };
        self.mirror.done(&subject, None, self.now);
        true
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create => self.create(),
            Step::Update(number) => {
                if let Some(id) = self.pick(*number) {
                    self.update(&id);
                }
            }
            Step::Delete(number) => {
                if let Some(id) = self.pick(*number) {
                    self.delete(&id);
                }
            }
            Step::AskList => self.ask(Request::List),
            Step::AskRead(number) => {
                if let Some(id) = self.pick(*number) {
                    self.ask(Request::Read(id));
                }
            }
            Step::AskPut(number) => {
                if let Some(id) = self.pick(*number) {
                    self.ask(Request::Put(id));
                }
            }
            Step::AskDelete(number) => {
                if let Some(id) = self.pick(*number) {
                    self.ask(Request::Delete(id));
                }
            }
            Step::Serve(number) => self.serve(*number),
            Step::Answer(number) => self.answer(*number),
            Step::Hear(number) => self.hear(*number),
            Step::Lose(number) => self.lose(*number),
            Step::Reread => {
                self.reread();
            }
        }
    }

    /// Lets everything under way arrive.
    fn drain(&mut self) {
        while !self.pending.is_empty() {
            self.serve(0);
            self.answer(0);
        }
        while !self.events.is_empty() {
            self.hear(0);
        }
        self.settle();
    }

    fn settle(&mut self) {
        let mut reads = 0;
        while self.reread() {
            reads += 1;
            assert!(reads < 1_000, "doubts never end");
        }
    }

    fn list(&mut self) {
        self.ask(Request::List);
        self.serve(0);
        self.answer(self.pending.len() - 1);
        self.settle();
    }

    /// The mirror shows exactly GARM's pools; extra specs may be unknown, never wrong.
    fn check(&self) {
        let mut shown = BTreeMap::new();
        for pool in self.mirror.all::<Pool>() {
            shown.insert(pool.id.clone(), Pool::clone(&pool));
        }
        for (id, pool) in &self.pools {
            let Some(mut found) = shown.remove(id) else {
                panic!("{id} is lost")
            };
            found.extra_specs = found.extra_specs.or_else(|| pool.extra_specs.clone());
            assert_eq!(found.extra_specs, pool.extra_specs, "extra specs of {id}");
            assert_eq!(found, *pool);
        }
        assert!(shown.is_empty(), "{shown:?} came back from the dead");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever was lost, a list mends it.
    #[test]
    fn equals_garm_after_a_list(has_times: bool, steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new(has_times);
        for step in &steps {
            world.take(step);
        }
        world.drain();
        world.list();
        world.check();
    }

    /// Where no event is lost, no list is needed.
    #[test]
    fn equals_garm_without_a_list_when_nothing_is_lost(has_times: bool, steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new(has_times);
        for step in steps.iter().filter(|step| !matches!(step, Step::Lose(_))) {
            world.take(step);
        }
        world.drain();
        world.check();
    }

    /// Once a list is in, old answers and events that are still under way do not undo it.
    #[test]
    fn late_answers_do_not_undo_a_list(has_times: bool, steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::new(has_times);
        for step in &steps {
            world.take(step);
        }
        while world.pending.iter().any(|pending| pending.reply.is_none()) {
            world.serve(0);
        }
        world.list();
        world.check();
        world.drain();
        // A late event of an object that came and went unseen is believed when the event of its end was lost.
        if !steps.iter().any(|step| matches!(step, Step::Lose(_))) {
            world.check();
        }
    }
}
