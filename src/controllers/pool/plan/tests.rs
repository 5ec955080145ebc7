use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;
use secrecy::SecretString;

use super::super::{NO_SCOPE, SCOPE};
use super::*;
use crate::api::refs::TypedRef;
use crate::api::v1beta1::PoolSpec;
use crate::controllers::scope::Target;
use crate::domain::pool::{desired, marker};
use crate::domain::pushed::Hasher;
use crate::garm::wire::{Instance, Pool as Actual};

const UID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const AGE: Duration = Duration::from_secs(100);
const SETTLE: Duration = Duration::from_secs(6);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn spec() -> PoolSpec {
    PoolSpec {
        github_scope_ref: TypedRef::new("Repository", "tools"),
        provider_name: "fake".to_owned(),
        max_runners: 4,
        min_idle_runners: 1,
        flavor: "small".to_owned(),
        os_type: "linux".to_owned(),
        os_arch: "amd64".to_owned(),
        tags: vec!["linux".to_owned()],
        enabled: true,
        runner_bootstrap_timeout: 20,
        image_name: "image".to_owned(),
        ..PoolSpec::default()
    }
}

fn object(spec: PoolSpec, is_terminating: bool) -> Pool {
    Pool {
        metadata: ObjectMeta {
            uid: Some(UID.to_owned()),
            deletion_timestamp: is_terminating.then(|| Time(at(1))),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// What a living object with all its references sees.
fn living(spec: &PoolSpec) -> Observed {
    let mut observed = Observed::new(
        &object(spec.clone(), false),
        Hasher::new(&SecretString::from("p".to_owned())),
        AGE,
    );
    observed.scope = Some(Reference::Found(Target {
        kind: EntityKind::Repository,
        id: "r".to_owned(),
        is_terminating: false,
    }));
    observed.scope_is_there = true;
    observed.image = Some(Reference::Found("tag".to_owned()));
    observed.desired = Some(desired(spec, "tag"));
    observed
}

fn pool(id: &str, spec: &PoolSpec) -> Actual {
    let mut pool = Actual {
        id: id.to_owned(),
        repo_id: "r".to_owned(),
        extra_specs: Some(serde_json::Value::Null),
        runner_prefix: "garm".to_owned(),
        ..Actual::default()
    };
    let update = desired(spec, "tag").unwrap().diff(&pool);
    take(&mut pool, &update);
    pool.provider_name.clone_from(&spec.provider_name);
    pool
}

/// What a PUT does in GARM.
fn take(pool: &mut Actual, update: &UpdatePool) {
    macro_rules! take {
        ($($field:ident),*) => {$(
            if let Some(value) = &update.$field {
                pool.$field = value.clone();
            }
        )*};
    }
    take!(
        max_runners,
        min_idle_runners,
        image,
        flavor,
        os_type,
        os_arch,
        tags,
        enabled,
        runner_bootstrap_timeout,
        github_runner_group,
        priority,
        runner_prefix
    );
    if let Some(specs) = &update.extra_specs {
        pool.extra_specs = Some(specs.clone());
    }
}

/// What a step does to what the next plan sees.
fn effect(observed: &mut Observed, step: &Step) {
    match step {
        Step::Create { desired, scope, .. } => {
            let create = desired.create(UID);
            let mut made = pool("made", &spec());
            let update = desired.diff(&made);
            take(&mut made, &update);
            made.provider_name.clone_from(&create.provider_name);
            made.repo_id.clone_from(scope);
            made.enabled = create.enabled;
            made.runner_prefix = create.runner_prefix;
            observed.actual = Some(Arc::new(made));
        }
        Step::Adopt { id } => {
            let taken = observed.marked.iter().find(|pool| pool.id == *id).unwrap();
            observed.actual = Some(Arc::new(taken.clone()));
        }
        Step::TakeOver { pool } => observed.actual = Some(Arc::new((**pool).clone())),
        Step::RemoveSurplus { id } => {
            observed.marked.retain(|pool| pool.id != *id);
            observed.surplus.retain(|surplus| surplus != id);
        }
        Step::Update { update, .. } => {
            let mut pool = (**observed.actual.as_ref().unwrap()).clone();
            take(&mut pool, update);
            observed.actual = Some(Arc::new(pool));
        }
        Step::ScaleDown { name } => observed.idle.retain(|(idle, _)| idle.name != *name),
        Step::Quiet { .. } => {
            let mut pool = (**observed.actual.as_ref().unwrap()).clone();
            pool.enabled = false;
            pool.min_idle_runners = 0;
            observed.actual = Some(Arc::new(pool));
        }
        Step::RemoveFailed { name } | Step::RemoveRunner { name, .. } => {
            observed.asked.insert(name.clone());
        }
        Step::Delete { .. } => observed.actual = None,
    }
}

/// Plans and takes effect until nothing is left to do; answers all steps.
fn converge(object: &Pool, observed: &mut Observed) -> (Vec<Step>, Plan<Step>) {
    let mut all = Vec::new();
    for _ in 0..4 {
        let plan = plan(object, observed, at(1000));
        if plan.steps.is_empty() {
            return (all, plan);
        }
        for step in plan.steps {
            effect(observed, &step);
            all.push(step);
        }
    }
    panic!("does not converge: {all:?}");
}

fn words(steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Create { .. } => "create".to_owned(),
        Step::Adopt { id } => format!("adopt {id}"),
        Step::TakeOver { pool } => format!("take over {}", pool.id),
        Step::RemoveSurplus { id } => format!("remove {id}"),
        Step::Update { update, .. } => format!("update {}", update.fields().join(",")),
        Step::ScaleDown { name } => format!("scale down {name}"),
        Step::RemoveFailed { name } => format!("remove failed {name}"),
        Step::Quiet { .. } => "quiet".to_owned(),
        Step::RemoveRunner { name, force } => {
            format!("remove runner {name}{}", if *force { "!" } else { "" })
        }
        Step::Delete { .. } => "delete".to_owned(),
    };
    steps.iter().map(word).collect()
}

fn runner(name: &str, status: &str, runner_status: &str) -> Arc<Instance> {
    Arc::new(Instance {
        name: name.to_owned(),
        status: status.to_owned(),
        runner_status: runner_status.to_owned(),
        ..Instance::default()
    })
}

fn going(pool: Actual, instances: Vec<Arc<Instance>>, quiet_for: u64) -> Observed {
    let mut observed = Observed::new(
        &object(PoolSpec::default(), true),
        Hasher::new(&SecretString::from("p".to_owned())),
        AGE,
    );
    observed.actual = Some(Arc::new(pool));
    observed.instances = instances;
    observed.deletion = Some(Deletion {
        quiet_for: Duration::from_secs(quiet_for),
        settle: SETTLE,
        pace: Duration::from_secs(7),
        force: false,
    });
    observed
}

fn quiet() -> Actual {
    Actual {
        enabled: false,
        min_idle_runners: 0,
        ..pool("p", &spec())
    }
}

#[test]
fn a_new_pool_is_made_once_and_finished_by_one_update() {
    let (steps, plan) = converge(&object(spec(), false), &mut living(&spec()));
    assert_eq!(words(&steps), ["create", "update enabled,runner_prefix"]);
    assert_eq!(plan.verdict, Verdict::Ready);
}

#[test]
fn a_marked_pool_is_taken_and_further_ones_go_first() {
    let marked = |id: &str| Actual {
        enabled: false,
        runner_prefix: marker(UID),
        ..pool(id, &spec())
    };
    let mut observed = living(&spec());
    observed.marked = vec![marked("a"), marked("b"), marked("c")];
    let (steps, _) = converge(&object(spec(), false), &mut observed);
    let expected = [
        "remove b",
        "remove c",
        "adopt a",
        "update enabled,runner_prefix",
    ];
    assert_eq!(words(&steps), expected);
}

/// A living object without a pool that asks for one.
fn asking(pool: Option<Actual>) -> Observed {
    let mut observed = living(&spec());
    observed.adoption = Some(Candidate {
        id: ADOPTED.to_owned(),
        pool: pool.map(Box::new),
        holder: None,
    });
    observed
}

const ADOPTED: &str = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";

#[test]
fn a_pool_that_is_asked_for_is_taken_as_it_is_and_then_updated_like_any_other() {
    let object = object(spec(), false);
    let (steps, last) = converge(&object, &mut asking(Some(pool(ADOPTED, &spec()))));
    assert_eq!(words(&steps), [format!("take over {ADOPTED}")]);
    assert_eq!(last.verdict, Verdict::Ready);
    let mut other = pool(ADOPTED, &spec());
    other.max_runners = 99;
    let (steps, _) = converge(&object, &mut asking(Some(other)));
    let expected = [
        format!("take over {ADOPTED}"),
        "update max_runners".to_owned(),
    ];
    assert_eq!(words(&steps), expected);
}

#[test]
fn a_pool_that_is_not_taken_is_told_and_none_is_made_in_its_place() {
    let mut elsewhere = pool(ADOPTED, &spec());
    elsewhere.repo_id = "other".to_owned();
    let mut held = asking(Some(pool(ADOPTED, &spec())));
    held.adoption.as_mut().unwrap().holder = Some("ns/first".to_owned());
    for mut observed in [asking(None), asking(Some(elsewhere)), held] {
        let (steps, plan) = converge(&object(spec(), false), &mut observed);
        assert!(steps.is_empty(), "{steps:?}");
        assert!(
            matches!(&plan.verdict, Verdict::Waiting { reason, message } if *reason == reasons::ADOPTION_REFUSED && !message.is_empty()),
            "{plan:?}"
        );
    }
}

#[test]
fn a_pool_that_is_being_made_for_the_object_comes_before_the_one_it_asks_for() {
    let mut observed = asking(Some(pool(ADOPTED, &spec())));
    let mut ours = pool("ours", &spec());
    ours.runner_prefix = marker(UID);
    ours.enabled = false;
    observed.marked = vec![ours];
    let (steps, _) = converge(&object(spec(), false), &mut observed);
    assert_eq!(words(&steps)[0], "adopt ours");
}

#[test]
fn a_late_twin_of_a_pool_is_removed_in_life_and_in_death() {
    let mut observed = living(&spec());
    observed.actual = Some(Arc::new(pool("p", &spec())));
    observed.surplus = vec!["twin".to_owned()];
    let (steps, plan) = converge(&object(spec(), false), &mut observed);
    assert_eq!(words(&steps), ["remove twin"]);
    assert_eq!(plan.verdict, Verdict::Ready);
    let mut observed = going(quiet(), Vec::new(), 60);
    observed.surplus = vec!["twin".to_owned()];
    let (steps, plan) = converge(&object(spec(), true), &mut observed);
    assert_eq!(words(&steps), ["remove twin", "delete"]);
    assert!(plan.release);
}

#[test]
fn nothing_is_written_while_a_reference_is_missing_or_the_spec_is_wrong() {
    let mut scope = living(&spec());
    scope.scope = Some(Reference::Missing("no scope".to_owned()));
    let mut absent = living(&spec());
    absent.scope = Some(Reference::Missing("no object".to_owned()));
    absent.scope_is_there = false;
    let mut image = living(&spec());
    image.image = Some(Reference::Missing("no image".to_owned()));
    let wrong = living(&PoolSpec {
        max_runners: -1,
        ..spec()
    });
    let mut dying = living(&spec());
    if let Some(Reference::Found(target)) = &mut dying.scope {
        target.is_terminating = true;
    }
    for (mut observed, reason) in [
        (scope, SCOPE.missing),
        (absent, NO_SCOPE.missing),
        (image, IMAGE.missing),
        (dying, SCOPE.missing),
        (wrong, "-"),
    ] {
        let (steps, plan) = converge(&object(spec(), false), &mut observed);
        assert!(steps.is_empty(), "{reason}: {steps:?}");
        match plan.verdict {
            Verdict::Waiting { reason: found, .. } => assert_eq!(found, reason),
            Verdict::Invalid { message } => assert!(message.contains("spec.maxRunners")),
            other => panic!("{reason}: {other:?}"),
        }
    }
}

#[test]
fn a_waiting_pool_still_comes_back_to_write_its_counts() {
    let mut observed = living(&spec());
    observed.image = Some(Reference::Missing("no image".to_owned()));
    observed.counts_due = Some(Duration::from_secs(3));
    let plan = plan(&object(spec(), false), &observed, at(1000));
    assert_eq!(plan.wake, Some(Duration::from_secs(3)));
}

#[test]
fn a_pool_that_garm_keeps_refusing_is_not_sent_again_but_one_of_ours_is_taken() {
    let mut observed = living(&spec());
    let rest = Duration::from_secs(200);
    observed.refused = Some(("no such provider".to_owned(), rest));
    let (steps, plan) = converge(&object(spec(), false), &mut observed);
    assert!(steps.is_empty());
    assert!(matches!(plan.verdict, Verdict::Pace { after, .. } if after == rest));
    observed.marked = vec![pool("a", &spec())];
    let (steps, _) = converge(&object(spec(), false), &mut observed);
    assert_eq!(words(&steps), ["adopt a"]);
}

#[test]
fn what_garm_cannot_change_is_told_and_not_sent() {
    let mut observed = living(&spec());
    let elsewhere = Actual {
        repo_id: "other".to_owned(),
        provider_name: "other".to_owned(),
        max_runners: 99,
        ..pool("p", &spec())
    };
    observed.actual = Some(Arc::new(elsewhere));
    let (steps, plan) = converge(&object(spec(), false), &mut observed);
    assert!(steps.is_empty());
    let Verdict::Invalid { message } = plan.verdict else {
        panic!("{:?}", plan.verdict)
    };
    assert!(message.contains("spec.providerName") && message.contains("spec.githubScopeRef"));
}

#[test]
fn scale_down_takes_old_idle_runners_above_the_minimum_and_wakes_for_the_next() {
    let mut observed = living(&spec());
    observed.actual = Some(Arc::new(pool("p", &spec())));
    observed.idle = vec![
        (runner("young", "running", "idle"), at(990)),
        (runner("old", "running", "idle"), at(0)),
        (runner("older", "running", "idle"), at(-50)),
        (runner("leaving", "pending_delete", "idle"), at(0)),
    ];
    let first = plan(&object(spec(), false), &observed, at(1000));
    assert_eq!(words(&first.steps), ["scale down older", "scale down old"]);
    assert_eq!(first.wake, Some(Duration::from_secs(90)));
    let (steps, _) = converge(&object(spec(), false), &mut observed);
    assert_eq!(steps.len(), 2);
}

#[test]
fn deletion_goes_step_by_step() {
    let going_pool = object(spec(), true);
    let runners = || {
        vec![
            runner("idle", "running", "idle"),
            runner("active", "running", "active"),
            runner("creating", "creating", "pending"),
            runner("failed", "error", "pending"),
            runner("leaving", "pending_delete", "idle"),
        ]
    };
    let mut observed = going(pool("p", &spec()), runners(), 0);
    let (steps, plan) = converge(&going_pool, &mut observed);
    let expected = ["quiet", "remove runner idle", "remove runner failed"];
    assert_eq!(words(&steps), expected);
    let Verdict::Pace { message, .. } = &plan.verdict else {
        panic!("{:?}", plan.verdict)
    };
    assert_eq!(message, "5 runners remain");

    let (steps, plan) = converge(&going_pool, &mut going(quiet(), Vec::new(), 2));
    assert!(steps.is_empty(), "a creation tick may be under way");
    assert!(matches!(plan.verdict, Verdict::Pace { after, .. } if after == Duration::from_secs(4)));

    let (steps, plan) = converge(&going_pool, &mut going(quiet(), Vec::new(), 6));
    assert_eq!(words(&steps), ["delete"]);
    assert!(plan.release);
}

#[test]
fn one_runner_that_cannot_be_removed_shows_and_keeps_no_other_one() {
    let mut observed = going(
        quiet(),
        vec![
            runner("a", "running", "idle"),
            runner("b", "running", "idle"),
        ],
        60,
    );
    observed.asked.insert("a".to_owned());
    observed.trouble = Some(Verdict::Pace {
        reason: reasons::DELETION_FAILED,
        message: "GARM failed".to_owned(),
        after: Duration::from_secs(7),
    });
    let (steps, plan) = converge(&object(spec(), true), &mut observed);
    assert_eq!(words(&steps), ["remove runner b"]);
    assert_eq!(Some(plan.verdict), observed.trouble);
}

#[test]
fn force_asks_again_for_what_is_leaving_and_leaves_the_busy_alone() {
    let mut observed = going(
        quiet(),
        vec![
            runner("leaving", "pending_delete", "idle"),
            runner("active", "running", "active"),
        ],
        60,
    );
    observed.deletion.as_mut().unwrap().force = true;
    let (steps, _) = converge(&object(spec(), true), &mut observed);
    assert_eq!(words(&steps), ["remove runner leaving!"]);
}

fn any_instances() -> impl Strategy<Value = Vec<Arc<Instance>>> {
    let status = prop::sample::select(vec![
        "pending_create",
        "creating",
        "running",
        "error",
        "pending_delete",
        "pending_force_delete",
        "deleting",
        "deleted",
        "stopped",
        "unknown",
        "never-heard-of",
    ]);
    let runner_status = prop::sample::select(vec!["pending", "idle", "active", "terminated", "?"]);
    prop::collection::vec((status, runner_status, any::<bool>()), 0..8).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.map(|(n, (status, runner_status, has_job))| {
            Arc::new(Instance {
                has_job,
                ..(*runner(&format!("r{n}"), status, runner_status)).clone()
            })
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn deletion_converges_and_never_asks_for_a_busy_runner(instances in any_instances(), enabled: bool, min in 0i64..3, quiet_for in 0u64..12, force: bool) {
        let pool = Actual { enabled, min_idle_runners: min, ..pool("p", &spec()) };
        let mut observed = going(pool, instances.clone(), quiet_for);
        observed.deletion.as_mut().unwrap().force = force;
        let (steps, plan) = converge(&object(spec(), true), &mut observed);
        for step in &steps {
            match step {
                Step::RemoveRunner { name, .. } => {
                    let instance = instances.iter().find(|i| i.name == *name).unwrap();
                    prop_assert!(!is_busy(instance) && is_deletable(instance, force));
                }
                Step::Quiet { .. } => {}
                Step::Delete { .. } => prop_assert!(instances.is_empty()),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(plan.release, observed.actual.is_none());
        prop_assert!(words(&steps).iter().filter(|word| *word == "quiet").count() <= 1);
    }

    #[test]
    fn deletion_reads_nothing_of_the_spec(max: i64, min: i64, words_of in ".{0,20}", instances in any_instances()) {
        let garbage = PoolSpec { max_runners: max, min_idle_runners: min, os_type: words_of.clone(), image_name: words_of, ..PoolSpec::default() };
        let observed = going(quiet(), instances, 60);
        let planned = |spec| {
            let plan = plan(&object(spec, true), &observed, at(1000));
            (words(&plan.steps), plan.verdict, plan.release)
        };
        prop_assert_eq!(planned(garbage), planned(spec()));
    }

    #[test]
    fn the_plan_after_its_own_effect_is_empty(max in 1i64..20, min in 0i64..20, enabled: bool, exists: bool, prefix in prop::option::of("[a-z]{0,8}"), specs in prop::sample::select(vec!["", "{}", "{\"a\": [1]}"]), idle in prop::collection::vec(-2000i64..1000, 0..8)) {
        let spec = PoolSpec { max_runners: max.max(min), min_idle_runners: min, enabled, runner_prefix: prefix, extra_specs: Some(specs.to_owned()), ..spec() };
        let mut observed = living(&spec);
        if exists {
            observed.actual = Some(Arc::new(pool("p", &self::spec())));
        }
        observed.idle = idle.iter().enumerate().map(|(n, since)| (runner(&format!("r{n}"), "running", "idle"), at(*since))).collect();
        let before = observed.idle.len();
        let (steps, plan) = converge(&object(spec, false), &mut observed);
        prop_assert_eq!(plan.verdict, Verdict::Ready);
        let left = observed.idle.len();
        prop_assert!(left >= before.min(usize::try_from(min).unwrap()));
        let count = |start: &str| words(&steps).iter().filter(|word| word.starts_with(start)).count();
        prop_assert!(count("create") <= 1 && count("update") <= 1);
    }
}
