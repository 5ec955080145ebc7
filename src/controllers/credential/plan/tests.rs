use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;
use secrecy::SecretString;

use super::*;
use crate::api::refs::TypedRef;
use crate::api::v1beta1::GitHubCredentialSpec;
use crate::domain::credential::desired;
use crate::domain::pushed::{Hasher, Pushed};

fn object(is_terminating: bool) -> GitHubCredential {
    GitHubCredential {
        metadata: ObjectMeta {
            deletion_timestamp: is_terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        },
        ..GitHubCredential::default()
    }
}

fn wanted(description: &str, token: &str) -> DesiredCredential {
    let spec = GitHubCredentialSpec {
        description: description.to_owned(),
        auth_type: "pat".to_owned(),
        endpoint_ref: TypedRef {
            name: "ghes".to_owned(),
            ..TypedRef::default()
        },
        ..GitHubCredentialSpec::default()
    };
    desired("pat", &spec, token).unwrap()
}

fn stored() -> Credential {
    Credential {
        id: 3,
        name: "pat".to_owned(),
        endpoint: "ghes".to_owned(),
        auth_type: "pat".to_owned(),
        ..Credential::default()
    }
}

fn living() -> Observed {
    Observed {
        uid: "uid".to_owned(),
        name: "pat".to_owned(),
        claim: Claim::Owner,
        endpoint: Some(Reference::Found(())),
        secret: Some(Reference::Found(())),
        desired: Some(Ok(wanted("", "token"))),
        actual: None,
        pushed: Pushed::default(),
        hasher: Hasher::new(&SecretString::from("p".to_owned())),
        users: Vec::new(),
        dependants: Vec::new(),
    }
}

fn going(actual: Option<Credential>) -> Observed {
    Observed {
        endpoint: None,
        secret: None,
        desired: None,
        actual: actual.map(Arc::new),
        ..living()
    }
}

/// What a step does to what the next plan sees; each write moves GARM's time of change.
fn effect(observed: &mut Observed, step: &Step) {
    let now = |second| jiff::Timestamp::from_second(second).ok();
    let (desired, made) = match step {
        Step::Create(desired) => {
            let made = Credential {
                updated_at: now(1),
                description: desired.description.clone(),
                ..stored()
            };
            (desired, made)
        }
        Step::Update {
            update, desired, ..
        } => {
            let mut made = (**observed.actual.as_ref().unwrap()).clone();
            made.updated_at = now(2);
            if let Some(description) = &update.description {
                made.description.clone_from(description);
            }
            (desired, made)
        }
        Step::Delete { .. } => {
            observed.actual = None;
            return;
        }
    };
    observed.pushed = desired.memory(&observed.hasher, &observed.uid, &made);
    observed.actual = Some(Arc::new(made));
}

fn converge(object: &GitHubCredential, observed: &mut Observed) -> (Vec<Step>, Plan<Step>) {
    let mut all = Vec::new();
    for _ in 0..4 {
        let plan = plan(object, observed);
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
fn credentials_are_made_once_and_a_rotated_token_is_sent_once() {
    let mut observed = living();
    let (steps, plan) = converge(&object(false), &mut observed);
    assert!(matches!(steps[..], [Step::Create(_)]));
    assert_eq!(plan.verdict, Verdict::Ready);
    observed.desired = Some(Ok(wanted("", "rotated")));
    let (steps, _) = converge(&object(false), &mut observed);
    let [Step::Update { update, .. }] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert!(update.secret.is_some() && update.description.is_none());
}

#[test]
fn who_is_not_the_owner_writes_nothing_in_life_and_just_goes_in_death() {
    let claims = [
        Claim::Conflict {
            owner: "a/pat".to_owned(),
        },
        Claim::HandOver {
            to: "a/pat".to_owned(),
        },
    ];
    for claim in claims {
        let mut observed = living();
        observed.claim = claim.clone();
        let (steps, plan) = converge(&object(false), &mut observed);
        assert!(steps.is_empty());
        assert!(
            matches!(plan.verdict, Verdict::Waiting { reason, .. } if reason == reasons::NAME_CONFLICT)
        );
        let mut observed = going(Some(stored()));
        observed.claim = claim;
        observed.dependants = vec!["repository ns/tools".to_owned()];
        let (steps, plan) = converge(&object(true), &mut observed);
        assert!(steps.is_empty() && plan.release);
    }
}

#[test]
fn missing_references_wait_and_wrong_specs_say_so() {
    let mut endpoint = living();
    endpoint.endpoint = Some(Reference::Missing("no endpoint".to_owned()));
    let mut secret = living();
    secret.secret = Some(Reference::Missing("no secret".to_owned()));
    for (mut observed, reason) in [(endpoint, ENDPOINT.missing), (secret, SECRET.missing)] {
        observed.actual = Some(Arc::new(stored()));
        let (steps, plan) = converge(&object(false), &mut observed);
        assert!(steps.is_empty());
        assert!(matches!(plan.verdict, Verdict::Waiting { reason: found, .. } if found == reason));
    }
    let mut elsewhere = living();
    elsewhere.actual = Some(Arc::new(Credential {
        endpoint: "github.com".to_owned(),
        auth_type: "app".to_owned(),
        ..stored()
    }));
    let (steps, plan) = converge(&object(false), &mut elsewhere);
    assert!(steps.is_empty());
    let Verdict::Invalid { message } = plan.verdict else {
        panic!("{:?}", plan.verdict)
    };
    assert!(message.contains("spec.endpointRef") && message.contains("spec.authType"));
}

#[test]
fn deletion_waits_for_users_and_ends_without_credentials() {
    let mut observed = going(Some(stored()));
    observed.dependants = vec!["repository ns/tools".to_owned()];
    let (steps, plan) = converge(&object(true), &mut observed);
    assert!(steps.is_empty() && !plan.release);
    let (steps, plan) = converge(&object(true), &mut going(Some(stored())));
    assert!(matches!(steps[..], [Step::Delete { id: 3 }]));
    assert!(plan.release);
    let (steps, plan) = converge(&object(true), &mut going(None));
    assert!(steps.is_empty() && plan.release);
}

proptest! {
    #[test]
    fn the_plan_after_its_own_effect_is_empty(exists: bool, known: bool, moved: bool, description in "a|b", stored_description in "a|b") {
        let mut observed = living();
        let desired = wanted(&description, "token");
        if known {
            observed.pushed = desired.memory(&observed.hasher, "uid", &stored());
            observed.pushed.updated_at = moved.then(|| jiff::Timestamp::from_second(9).unwrap());
        }
        observed.desired = Some(Ok(desired));
        if exists {
            observed.actual = Some(Arc::new(Credential { description: stored_description, ..stored() }));
        }
        let (steps, plan) = converge(&object(false), &mut observed);
        prop_assert!(steps.len() <= 1);
        prop_assert_eq!(plan.verdict, Verdict::Ready);
    }
}
