use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use secrecy::SecretString;

use super::*;
use crate::controllers::references::Reference;
use crate::domain::pushed::{Hasher, Pushed};

fn metadata(is_terminating: bool) -> ObjectMeta {
    ObjectMeta {
        deletion_timestamp: is_terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
        ..ObjectMeta::default()
    }
}

fn hasher() -> Hasher {
    Hasher::new(&SecretString::from("p".to_owned()))
}

fn desired(balancer: &str) -> DesiredEntity {
    DesiredEntity {
        owner: Some("acme".to_owned()),
        name: "tools".to_owned(),
        credentials: "pat".to_owned(),
        endpoint: "ghes".to_owned(),
        webhook_secret: SecretString::from("hook".to_owned()),
        balancer: balancer.to_owned(),
    }
}

/// An entity as another hand would have made it.
fn entity() -> Entity {
    let mut entity = Entity {
        id: "1".to_owned(),
        owner: "acme".to_owned(),
        name: "tools".to_owned(),
        credentials_name: "pat".to_owned(),
        endpoint: "ghes".to_owned(),
        ..Entity::default()
    };
    entity.manager.is_running = true;
    entity
}

/// What a living owner with all its references sees.
fn living() -> Observed {
    Observed {
        uid: "uid".to_owned(),
        claim: Claim::Owner,
        credentials: Some(Reference::Found(())),
        secret: Some(Reference::Found(())),
        desired: Some(desired("")),
        key: None,
        actual: None,
        pushed: Pushed::default(),
        hasher: hasher(),
        webhook: Some(Webhook::default()),
        dependants: Vec::new(),
    }
}

/// What a terminating owner sees: no reference.
fn going(actual: Option<Entity>) -> Observed {
    Observed {
        credentials: None,
        secret: None,
        desired: None,
        actual: actual.map(Arc::new),
        ..living()
    }
}

/// What a step does to what the next plan sees.
fn effect(observed: &mut Observed, step: &Step) {
    match step {
        Step::Create(desired) => {
            let create = desired.create();
            observed.actual = Some(Arc::new(Entity {
                pool_balancing_type: create.pool_balancer_type.unwrap_or_default(),
                ..entity()
            }));
            observed.pushed = desired.memory(&observed.hasher, &observed.uid, "1");
        }
        Step::Update {
            update, desired, ..
        } => {
            let mut actual = (**observed.actual.as_ref().unwrap()).clone();
            if let Some(balancer) = &update.pool_balancer_type {
                actual.pool_balancing_type.clone_from(balancer);
            }
            if let Some(credentials) = &update.credentials_name {
                actual.credentials_name.clone_from(credentials);
            }
            observed.pushed = desired.memory(&observed.hasher, &observed.uid, &actual.id);
            observed.actual = Some(Arc::new(actual));
        }
        Step::Webhook { action, .. } => {
            let webhook = observed.webhook.as_mut().unwrap();
            webhook.ours = match action {
                Action::Install => Some("7".to_owned()),
                Action::Remove => None,
            };
        }
        Step::Delete { .. } => observed.actual = None,
    }
}

fn converge(metadata: &ObjectMeta, observed: &mut Observed) -> (Vec<Step>, Plan<Step>) {
    let mut all = Vec::new();
    for _ in 0..4 {
        let plan = plan("Repository", metadata, observed);
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

#[test]
fn an_entity_is_made_once() {
    let (steps, plan) = converge(&metadata(false), &mut living());
    assert!(matches!(steps[..], [Step::Create(_)]));
    assert_eq!(plan.verdict, Verdict::Ready);
}

#[test]
fn a_webhook_is_installed_after_the_entity_and_removed_before_it() {
    let mut observed = living();
    observed.webhook = Some(Webhook {
        wanted: true,
        ..Webhook::default()
    });
    let (steps, plan) = converge(&metadata(false), &mut observed);
    assert!(matches!(
        steps[..],
        [
            Step::Create(_),
            Step::Webhook {
                action: Action::Install,
                ..
            }
        ]
    ));
    assert_eq!(plan.verdict, Verdict::Ready);
    let webhook = observed.webhook.clone();
    let mut going = Observed {
        webhook,
        ..going(Some(entity()))
    };
    let (steps, plan) = converge(&metadata(true), &mut going);
    assert!(matches!(
        steps[..],
        [
            Step::Webhook {
                action: Action::Remove,
                ..
            },
            Step::Delete { .. }
        ]
    ));
    assert!(plan.release);
}

#[test]
fn one_that_exists_gets_its_secret_by_one_update() {
    let mut observed = living();
    observed.actual = Some(Arc::new(entity()));
    let (steps, _) = converge(&metadata(false), &mut observed);
    let [Step::Update { update, .. }] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert!(update.webhook_secret.is_some() && update.pool_balancer_type.is_none());
}

#[test]
fn who_is_not_the_owner_writes_nothing_in_life_and_just_goes_in_death() {
    for claim in [
        Claim::Conflict {
            owner: "a/tools".to_owned(),
        },
        Claim::HandOver {
            to: "a/tools".to_owned(),
        },
    ] {
        for actual in [None, Some(entity())] {
            let mut observed = living();
            observed.claim = claim.clone();
            observed.actual = actual.clone().map(Arc::new);
            let (steps, plan) = converge(&metadata(false), &mut observed);
            assert!(steps.is_empty());
            let Verdict::Waiting { reason, message } = plan.verdict else {
                panic!("{:?}", plan.verdict)
            };
            assert_eq!(reason, reasons::NAME_CONFLICT);
            assert!(message.contains("a/tools"));

            let mut observed = going(actual);
            observed.claim = claim.clone();
            let (steps, plan) = converge(&metadata(true), &mut observed);
            assert!(steps.is_empty() && plan.release);
        }
    }
}

#[test]
fn a_missing_reference_is_a_wait_that_names_it() {
    let mut credentials = living();
    credentials.credentials = Some(Reference::Missing("no credentials".to_owned()));
    let mut secret = living();
    secret.secret = Some(Reference::Missing("no secret".to_owned()));
    for (mut observed, reason) in [(credentials, CREDENTIALS.missing), (secret, SECRET.missing)] {
        observed.actual = Some(Arc::new(entity()));
        observed.desired = None;
        let (steps, plan) = converge(&metadata(false), &mut observed);
        assert!(steps.is_empty(), "what is in GARM stays as it is");
        assert!(matches!(plan.verdict, Verdict::Waiting { reason: found, .. } if found == reason));
    }
}

#[test]
fn another_endpoint_is_refused_and_not_sent() {
    let mut observed = living();
    observed.actual = Some(Arc::new(Entity {
        endpoint: "github.com".to_owned(),
        ..entity()
    }));
    let (steps, plan) = converge(&metadata(false), &mut observed);
    assert!(steps.is_empty());
    assert!(matches!(plan.verdict, Verdict::Invalid { .. }));
}

#[test]
fn a_manager_that_stands_still_is_no_reason_to_write() {
    let mut observed = living();
    let (_, _) = converge(&metadata(false), &mut observed);
    let mut standing = (**observed.actual.as_ref().unwrap()).clone();
    standing.manager.is_running = false;
    observed.actual = Some(Arc::new(standing));
    let (steps, plan) = converge(&metadata(false), &mut observed);
    assert!(steps.is_empty());
    assert!(
        matches!(plan.verdict, Verdict::Waiting { reason, .. } if reason == reasons::POOL_MANAGER_FAILURE)
    );
}

#[test]
fn deletion_waits_for_pools_and_ends_without_an_entity() {
    let mut observed = going(Some(entity()));
    observed.dependants = vec!["Pool ns/a".to_owned()];
    let (steps, plan) = converge(&metadata(true), &mut observed);
    assert!(steps.is_empty() && !plan.release);
    assert!(
        matches!(&plan.verdict, Verdict::Waiting { message, .. } if message.contains("Pool ns/a"))
    );
    let (steps, plan) = converge(&metadata(true), &mut going(Some(entity())));
    assert!(matches!(&steps[..], [Step::Delete { id }] if id == "1"));
    assert!(plan.release);
    let (steps, plan) = converge(&metadata(true), &mut going(None));
    assert!(steps.is_empty() && plan.release);
}

proptest! {
    #[test]
    fn the_plan_after_its_own_effect_is_empty(exists: bool, balancer in "|roundrobin|pack", stored in "|roundrobin|pack", credentials in "pat|PAT|other", known: bool) {
        let mut observed = living();
        observed.desired = Some(desired(&balancer));
        if exists {
            observed.actual = Some(Arc::new(Entity { pool_balancing_type: stored, credentials_name: credentials, ..entity() }));
        }
        if known {
            observed.pushed = desired(&balancer).memory(&hasher(), "uid", "1");
        }
        let (steps, plan) = converge(&metadata(false), &mut observed);
        prop_assert!(steps.len() <= 1);
        prop_assert_eq!(plan.verdict, Verdict::Ready);
    }
}
