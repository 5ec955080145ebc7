//! The mirror's rules, one by one.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::settings::Timings;
use super::super::wire::{Entity, EntityKind, Instance, List, Pool};
use super::*;

fn mirror() -> (Mirror, Instant) {
    (Mirror::new(&Timings::default()), Instant::now())
}

fn time(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(second).ok()
}

/// A pool of v0.1.5, which has no times.
fn old_pool(id: &str, max_runners: i64) -> Pool {
    Pool {
        id: id.to_owned(),
        max_runners,
        repo_id: "r".to_owned(),
        ..Pool::default()
    }
}

/// A pool of v0.2.1; its maximum is its time of change.
fn new_pool(id: &str, changed: i64) -> Pool {
    Pool {
        updated_at: time(changed),
        generation: Some(0),
        ..old_pool(id, changed)
    }
}

fn runner(name: &str, changed: i64, status: &str) -> Instance {
    Instance {
        id: format!("id-{name}"),
        name: name.to_owned(),
        pool_id: "p".to_owned(),
        status: status.to_owned(),
        updated_at: time(changed),
        ..Instance::default()
    }
}

fn list<T>(items: Vec<T>) -> List<T> {
    List {
        items,
        ..List::default()
    }
}

trait Lists {
    fn list_pools(&mut self, ticket: Ticket, pools: Vec<Pool>, now: Instant) -> Vec<Changed>;
    fn list_instances(
        &mut self,
        ticket: Ticket,
        instances: Vec<Instance>,
        now: Instant,
    ) -> Vec<Changed>;
    fn max_runners(&self, id: &str) -> Option<i64>;
}

impl Lists for Mirror {
    fn list_pools(&mut self, ticket: Ticket, pools: Vec<Pool>, now: Instant) -> Vec<Changed> {
        self.listed(Collection::Pools, list(pools), ticket, |_| true, now)
    }

    fn list_instances(
        &mut self,
        ticket: Ticket,
        instances: Vec<Instance>,
        now: Instant,
    ) -> Vec<Changed> {
        self.listed(
            Collection::Instances,
            list(instances),
            ticket,
            |_| true,
            now,
        )
    }

    fn max_runners(&self, id: &str) -> Option<i64> {
        self.get::<Pool>(&id.to_owned())
            .map(|pool| pool.max_runners)
    }
}

#[test]
fn a_list_neither_changes_nor_removes_what_was_touched_after_its_request() {
    let (mut mirror, now) = mirror();
    let ticket = mirror.ticket(now);
    mirror.heard(new_pool("a", 5), now);
    mirror.heard(new_pool("b", 5), now);
    mirror.list_pools(ticket, vec![new_pool("a", 4)], now);
    assert_eq!(mirror.max_runners("a"), Some(5));
    assert_eq!(mirror.max_runners("b"), Some(5));
}

#[test]
fn a_list_removes_what_it_lacks_and_proves_absence_from_its_request_on() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    assert_eq!(mirror.complete(Collection::Pools), None);
    let ticket = mirror.ticket(now);
    let later = now + Duration::from_secs(3);
    let changed = mirror.list_pools(ticket, vec![], later);
    assert_eq!(
        changed,
        [
            Changed::Pool("a".into()),
            Changed::Resynced(Collection::Pools)
        ]
    );
    assert_eq!(mirror.complete(Collection::Pools), Some(now));
}

#[test]
fn a_list_does_not_bring_back_what_was_deleted_after_its_request() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    let ticket = mirror.ticket(now);
    mirror.deleted::<Pool>(&"a".to_owned(), now);
    mirror.list_pools(ticket, vec![new_pool("a", 5)], now);
    assert_eq!(mirror.max_runners("a"), None);
}

#[test]
fn a_list_with_an_unreadable_object_keeps_it_and_proves_nothing_when_it_has_no_name() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    mirror.heard(new_pool("b", 5), now);
    let mut with_name = list::<Pool>(vec![]);
    with_name.unreadable = vec![vec!["a".to_owned()]];
    let ticket = mirror.ticket(now);
    mirror.listed(Collection::Pools, with_name, ticket, |_| true, now);
    assert_eq!(
        (mirror.max_runners("a"), mirror.max_runners("b")),
        (Some(5), None)
    );
    assert!(mirror.complete(Collection::Pools).is_some());

    let mut without = list::<Instance>(vec![]);
    without.unreadable = vec![vec![]];
    mirror.heard(runner("x", 1, "running"), now);
    let ticket = mirror.ticket(now);
    mirror.listed(Collection::Instances, without, ticket, |_| true, now);
    assert!(mirror.get::<Instance>(&"x".to_owned()).is_some());
    assert_eq!(mirror.complete(Collection::Instances), None);
}

#[test]
fn a_list_from_before_garm_went_away_says_nothing() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    let ticket = mirror.ticket(now);
    mirror.restart(now);
    assert_eq!(mirror.list_pools(ticket, vec![], now), []);
    assert_eq!(mirror.max_runners("a"), Some(5));
}

#[test]
fn takes_what_is_not_older_by_its_time() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    assert_eq!(mirror.heard(new_pool("a", 4), now), []);
    assert_eq!(mirror.max_runners("a"), Some(5));
    mirror.heard(new_pool("a", 6), now);
    assert_eq!(mirror.max_runners("a"), Some(6));
    assert_eq!(mirror.next_read(), None);
}

#[test]
fn an_answer_to_a_later_request_wins_over_any_time() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 9), now);
    // GARM's database came from a backup.
    let ticket = mirror.ticket(now);
    mirror.list_pools(ticket, vec![new_pool("a", 3)], now);
    assert_eq!(mirror.max_runners("a"), Some(3));
}

#[test]
fn reads_again_what_differs_without_a_time_and_only_once() {
    let (mut mirror, now) = mirror();
    mirror.heard(old_pool("a", 1).with_specs(), now);
    assert_eq!(mirror.heard(old_pool("a", 1).with_specs(), now), []);
    assert_eq!(mirror.next_read(), None, "an equal payload is no news");
    for max in 2..20 {
        mirror.heard(old_pool("a", max).with_specs(), now);
    }
    assert_eq!(mirror.max_runners("a"), Some(1));
    let due = now + Timings::default().reread_delay;
    assert_eq!(mirror.next_read(), Some(due));
    assert_eq!(mirror.take_read(now), None);
    let read = mirror.take_read(due).unwrap();
    assert_eq!(read, Subject::Pool("a".into()));
    assert_eq!(mirror.take_read(due), None, "one read in flight");

    // One more comes while the read is under way: one waits.
    let ticket = mirror.ticket(due);
    mirror.heard(old_pool("a", 20).with_specs(), due);
    mirror.heard(old_pool("a", 21).with_specs(), due);
    mirror.read(old_pool("a", 19).with_specs(), ticket, due);
    mirror.done(&read, None, due);
    assert_eq!(mirror.max_runners("a"), Some(19));
    let due = mirror.next_read().unwrap();
    let read = mirror.take_read(due).unwrap();
    let ticket = mirror.ticket(due);
    mirror.read(old_pool("a", 21).with_specs(), ticket, due);
    mirror.done(&read, None, due);
    assert_eq!(
        (mirror.max_runners("a"), mirror.next_read()),
        (Some(21), None)
    );
}

#[test]
fn the_answer_to_our_own_write_settles_the_doubt_that_its_event_raised() {
    let (mut mirror, now) = mirror();
    mirror.heard(old_pool("a", 1).with_specs(), now);
    let ticket = mirror.ticket(now);
    mirror.heard(old_pool("a", 2).with_specs(), now);
    assert!(mirror.next_read().is_some());
    mirror.written(old_pool("a", 2).with_specs(), ticket, now);
    assert_eq!(
        (mirror.max_runners("a"), mirror.next_read()),
        (Some(2), None)
    );
}

#[test]
fn our_own_write_shows_at_once_even_when_a_list_came_between() {
    let (mut mirror, now) = mirror();
    mirror.heard(old_pool("a", 1).with_specs(), now);
    let write = mirror.ticket(now);
    let ticket = mirror.ticket(now);
    let mut between = old_pool("a", 7);
    between.image = "other".into();
    mirror.list_pools(ticket, vec![between], now);
    mirror.written(old_pool("a", 2).with_specs(), write, now);
    assert_eq!(mirror.max_runners("a"), Some(2));
    assert!(
        mirror.next_read().is_some(),
        "which of the two is newer, a read tells"
    );
}

#[test]
fn a_late_event_of_something_deleted_is_read_before_it_is_believed() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 5), now);
    mirror.deleted::<Pool>(&"a".to_owned(), now);
    mirror.heard(new_pool("a", 6), now);
    assert_eq!(mirror.max_runners("a"), None);
    let due = mirror.next_read().unwrap();
    let read = mirror.take_read(due).unwrap();
    let ticket = mirror.ticket(due);
    mirror.absent::<Pool>(&"a".to_owned(), ticket, due);
    mirror.done(&read, None, due);
    assert_eq!((mirror.max_runners("a"), mirror.next_read()), (None, None));
}

#[test]
fn an_answer_asked_for_after_a_deletion_brings_back_what_is_there() {
    let (mut mirror, now) = mirror();
    mirror.deleted::<Pool>(&"a".to_owned(), now);
    let ticket = mirror.ticket(now);
    mirror.read(new_pool("a", 5), ticket, now);
    assert_eq!(mirror.max_runners("a"), Some(5));
}

#[test]
fn a_list_keeps_extra_specs_while_the_generation_stands_still() {
    let (mut mirror, now) = mirror();
    let specs = |mirror: &Mirror| {
        mirror
            .get::<Pool>(&"a".to_owned())
            .unwrap()
            .extra_specs
            .clone()
    };
    let with_specs = Pool {
        extra_specs: Some(json!({"a": 1})),
        ..new_pool("a", 5)
    };
    mirror.heard(with_specs, now);
    let ticket = mirror.ticket(now);
    mirror.list_pools(ticket, vec![new_pool("a", 6)], now);
    assert_eq!(
        (mirror.max_runners("a"), specs(&mirror)),
        (Some(6), Some(json!({"a": 1})))
    );
    let ticket = mirror.ticket(now);
    let moved = Pool {
        generation: Some(1),
        ..new_pool("a", 7)
    };
    mirror.list_pools(ticket, vec![moved], now);
    assert_eq!((mirror.max_runners("a"), specs(&mirror)), (Some(7), None));
    assert_eq!(mirror.next_read(), None, "who needs them reads them");
}

#[test]
fn v0_1_5_reads_extra_specs_once_per_full_list_where_they_are_known() {
    let (mut mirror, now) = mirror();
    let known = Pool {
        extra_specs: Some(Value::Null),
        ..old_pool("a", 1)
    };
    mirror.heard(known, now);
    let part = mirror.ticket(now);
    mirror.listed_part(list(vec![old_pool("a", 1)]), part, |_| true, now);
    assert_eq!(
        mirror.next_read(),
        None,
        "a part of the list costs no reads"
    );
    let ticket = mirror.ticket(now);
    mirror.list_pools(ticket, vec![old_pool("a", 1), old_pool("b", 1)], now);
    let due = mirror.next_read().unwrap();
    assert_eq!(mirror.take_read(due), Some(Subject::Pool("a".into())));
    assert_eq!(mirror.take_read(due), None);
    let kept = mirror.get::<Pool>(&"a".to_owned()).unwrap();
    assert_eq!(kept.extra_specs, Some(Value::Null));
}

#[test]
fn reads_the_addresses_of_an_instance_once_when_it_reaches_running() {
    let (mut mirror, now) = mirror();
    let ticket = mirror.ticket(now);
    let items = vec![runner("old", 1, "running"), runner("x", 1, "creating")];
    mirror.list_instances(ticket, items, now);
    assert_eq!(
        mirror.next_read(),
        None,
        "those that ran before are read by who needs them"
    );

    let ticket = mirror.ticket(now);
    let items = vec![runner("old", 1, "running"), runner("x", 2, "running")];
    mirror.list_instances(ticket, items, now);
    let due = mirror.next_read().unwrap();
    let read = mirror.take_read(due).unwrap();
    assert_eq!(read, Subject::Instance("x".into()));
    let ticket = mirror.ticket(due);
    mirror.read(runner("x", 2, "running").with_addresses(), ticket, due);
    mirror.done(&read, None, due);

    let ticket = mirror.ticket(due);
    mirror.list_instances(ticket, vec![runner("x", 3, "running")], due);
    let kept = mirror.get::<Instance>(&"x".to_owned()).unwrap();
    assert_eq!(
        (kept.addresses.clone(), mirror.next_read()),
        (Some(vec![]), None)
    );
}

#[test]
fn a_mere_sign_of_life_is_not_a_change_but_is_remembered() {
    let (mut mirror, now) = mirror();
    mirror.heard(runner("x", 1, "running"), now);
    assert_eq!(mirror.heard(runner("x", 9, "running"), now), []);
    assert_eq!(
        mirror.get::<Instance>(&"x".to_owned()).unwrap().updated_at,
        time(9)
    );
}

#[test]
fn keeps_its_indexes_while_things_come_move_and_go() {
    let (mut mirror, now) = mirror();
    mirror.heard(new_pool("a", 1), now);
    mirror.heard(runner("x", 1, "running"), now);
    assert_eq!(mirror.pools_of(EntityKind::Repository, "r").len(), 1);
    assert_eq!(mirror.instances_of("p").len(), 1);
    mirror.deleted::<Pool>(&"a".to_owned(), now);
    let gone = mirror.deleted::<Instance>(&"x".to_owned(), now);
    assert_eq!(
        gone,
        [Changed::Instance {
            name: "x".into(),
            pool_id: "p".into()
        }]
    );
    assert!(mirror.pools_of(EntityKind::Repository, "r").is_empty());
    assert!(mirror.instances_of("p").is_empty());
}

#[test]
fn an_entity_that_changes_its_credentials_wakes_both() {
    let (mut mirror, now) = mirror();
    let entity = |credentials_id, changed| Entity {
        id: "r".into(),
        credentials_id,
        updated_at: time(changed),
        ..Entity::default()
    };
    mirror.heard(entity(1, 1), now);
    assert_eq!(mirror.entities_using(1).len(), 1);
    let changed = mirror.heard(entity(2, 2), now);
    assert!(changed.contains(&Changed::Credential(1)) && changed.contains(&Changed::Credential(2)));
    assert_eq!(
        (
            mirror.entities_using(1).len(),
            mirror.entities_using(2).len()
        ),
        (0, 1)
    );
}

#[test]
fn looks_at_a_standing_manager_often_at_first_and_never_when_it_runs() {
    let (mut mirror, mut now) = mirror();
    let mut entity = Entity {
        id: "r".into(),
        ..Entity::default()
    };
    mirror.heard(entity.clone(), now);
    let mut reads = 0;
    let end = now + Duration::from_secs(181);
    while let Some(next) = mirror.next_read().filter(|next| *next <= end) {
        now = next;
        assert_eq!(
            mirror.take_read(now),
            Some(Subject::Entity(EntityKind::Repository, "r".into()))
        );
        reads += 1;
    }
    assert_eq!(
        reads,
        13 + 4,
        "after 1 s, every 5 s in the first minute, then every 30 s"
    );
    entity.manager.is_running = true;
    let ticket = mirror.ticket(now);
    mirror.read(entity, ticket, now);
    assert_eq!(mirror.next_read(), None);
}

#[test]
fn keeps_the_host_name_that_some_answers_lack() {
    let (mut mirror, now) = mirror();
    let full = Controller {
        controller_id: "c".into(),
        hostname: "h".into(),
        ..Controller::default()
    };
    let lacking = Controller {
        hostname: String::new(),
        webhook_url: "w".into(),
        ..full.clone()
    };
    mirror.heard(full, now);
    let ticket = mirror.ticket(now);
    mirror.written(lacking, ticket, now);
    let kept = mirror.get::<Controller>(&()).unwrap();
    assert_eq!(
        (kept.hostname.as_str(), kept.webhook_url.as_str()),
        ("h", "w")
    );
}

#[test]
fn what_a_list_leaves_out_is_not_told_to_be_gone() {
    let (mut mirror, now) = mirror();
    let ticket = mirror.ticket(now);
    let name = "i".to_owned();
    let instance = Instance {
        name: name.clone(),
        ..Instance::default()
    };
    mirror.list_instances(ticket, vec![instance.clone()], now);
    let ticket = mirror.ticket(now);
    mirror.list_instances(ticket, vec![], now);
    assert_eq!(mirror.get::<Instance>(&name), None);
    assert!(!mirror.was_told_gone::<Instance>(&name));
    let ticket = mirror.ticket(now);
    mirror.absent::<Instance>(&name, ticket, now);
    assert!(mirror.was_told_gone::<Instance>(&name));
    let ticket = mirror.ticket(now);
    mirror.read(instance, ticket, now);
    mirror.deleted::<Instance>(&name, now);
    assert!(mirror.was_told_gone::<Instance>(&name));
}

#[test]
fn another_garm_ends_what_was_proved_of_the_first() {
    let (mut mirror, now) = mirror();
    let controller = |id: &str| Controller {
        controller_id: id.to_owned(),
        ..Controller::default()
    };
    let ticket = mirror.ticket(now);
    mirror.read(controller("one"), ticket, now);
    mirror.list_pools(ticket, vec![], now);
    assert!(mirror.complete(Collection::Pools).is_some());
    let ticket = mirror.ticket(now);
    mirror.read(controller("two"), ticket, now);
    assert_eq!(mirror.complete(Collection::Pools), None);
}

#[test]
fn what_objects_decide_by_is_told_to_be_listed_once_for_each_garm() {
    let (mut mirror, now) = mirror();
    let controller = |id: &str| Controller {
        controller_id: id.to_owned(),
        ..Controller::default()
    };
    for garm in ["one", "two"] {
        let ticket = mirror.ticket(now);
        mirror.read(controller(garm), ticket, now);
        for round in 0..2 {
            let told: Vec<Collection> = Collection::all()
                .filter(|collection| {
                    let ticket = mirror.ticket(now);
                    let nothing = list::<Pool>(Vec::new());
                    let changed = mirror.listed(*collection, nothing, ticket, |_| false, now);
                    changed.contains(&Changed::Listed)
                })
                .collect();
            let expected = [Collection::Pools];
            assert_eq!(told, expected[..1 - round], "{garm}, round {round}");
        }
    }
}

#[test]
fn a_read_that_failed_is_tried_again_after_its_pause_also_after_a_restart() {
    let (mut mirror, now) = mirror();
    mirror.heard(old_pool("a", 1).with_specs(), now);
    mirror.heard(old_pool("a", 2).with_specs(), now);
    let due = mirror.next_read().unwrap();
    let read = mirror.take_read(due).unwrap();
    let pause = Duration::from_secs(5);
    mirror.done(&read, Some(pause), due);
    assert_eq!(mirror.next_read(), Some(due + pause));
    mirror.take_read(due + pause).unwrap();
    assert_eq!(mirror.next_read(), None);
    mirror.restart(due + pause);
    assert!(mirror.next_read().is_some());
}
