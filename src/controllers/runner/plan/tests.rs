use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;

use super::*;
use crate::api::v1beta1::Pool;
use crate::garm::wire::Instance;

fn object(is_terminating: bool) -> Runner {
    Runner {
        metadata: ObjectMeta {
            deletion_timestamp: is_terminating.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        },
        ..Runner::default()
    }
}

/// What is seen of a runner that is there, in a living Pool.
fn observed(status: &str, runner_status: &str) -> Observed {
    Observed {
        instance: Some(Arc::new(Instance {
            name: "r".to_owned(),
            status: status.to_owned(),
            runner_status: runner_status.to_owned(),
            ..Instance::default()
        })),
        pool: Some(Arc::new(Pool::default())),
        enabled: true,
        asked: false,
        force: false,
        again: Duration::from_secs(60),
    }
}

fn words(plan: &Plan<Step>) -> Vec<&'static str> {
    let word = |step: &Step| match step {
        Step::Remove { force: false, .. } => "remove",
        Step::Remove { force: true, .. } => "remove by force",
        Step::Drop => "drop",
    };
    plan.steps.iter().map(word).collect()
}

#[test]
fn a_living_object_goes_only_with_its_instance_or_by_configuration() {
    let there = plan(&object(false), &observed("running", "active"));
    assert_eq!((words(&there), &there.verdict), (vec![], &Verdict::Ready));
    let mut gone = observed("running", "idle");
    gone.instance = None;
    assert_eq!(words(&plan(&object(false), &gone)), ["drop"]);
    let mut off = observed("running", "idle");
    off.enabled = false;
    assert_eq!(words(&plan(&object(false), &off)), ["drop"]);
}

#[test]
fn deletion_asks_once_and_waits_for_garm() {
    let mut seen = observed("running", "idle");
    let first = plan(&object(true), &seen);
    assert_eq!(words(&first), ["remove"]);
    seen.asked = true;
    let second = plan(&object(true), &seen);
    assert!(second.steps.is_empty() && !second.release);
    assert_eq!(second.wake, Some(seen.again));
    seen.instance = None;
    assert!(plan(&object(true), &seen).release);
}

#[test]
fn a_busy_runner_stays_also_by_force() {
    for force in [false, true] {
        let mut seen = observed("running", "active");
        seen.force = force;
        let plan = plan(&object(true), &seen);
        assert!(plan.steps.is_empty() && !plan.release);
        let Verdict::Waiting { reason, .. } = plan.verdict else {
            panic!("{:?}", plan.verdict)
        };
        assert_eq!(reason, reasons::RUNNER_BUSY);
    }
}

#[test]
fn an_instance_that_no_living_pool_claims_is_nobodys_to_delete() {
    let mut seen = observed("running", "idle");
    seen.pool = None;
    let orphan = plan(&object(true), &seen);
    assert!(orphan.release && orphan.steps.is_empty());
    let mut off = observed("running", "idle");
    off.enabled = false;
    let off = plan(&object(true), &off);
    assert!(off.release && off.steps.is_empty());
}

#[test]
fn force_asks_again_for_what_is_leaving() {
    let mut seen = observed("pending_delete", "idle");
    assert!(plan(&object(true), &seen).steps.is_empty());
    seen.force = true;
    assert_eq!(words(&plan(&object(true), &seen)), ["remove by force"]);
}

proptest! {
    #[test]
    fn deletion_never_asks_for_a_busy_or_undeletable_runner(status in "running|error|pending_delete|creating|deleting|stopped|[a-z]{0,5}", runner_status in "idle|active|pending|[a-z]{0,5}", has_job: bool, asked: bool, force: bool, claimed: bool, enabled: bool) {
        let mut seen = observed(&status, &runner_status);
        let mut instance = (**seen.instance.as_ref().unwrap()).clone();
        instance.has_job = has_job;
        seen.instance = Some(Arc::new(instance.clone()));
        seen.asked = asked;
        seen.force = force;
        seen.enabled = enabled;
        if !claimed {
            seen.pool = None;
        }
        let plan = plan(&object(true), &seen);
        if !plan.steps.is_empty() {
            prop_assert!(!is_busy(&instance) && is_deletable(&instance, force));
            prop_assert!(claimed && enabled && !asked);
            prop_assert!(!plan.release);
        }
        prop_assert_eq!(plan.release, !(claimed && enabled));
    }
}
