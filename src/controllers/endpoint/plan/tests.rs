use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;

use super::*;
use crate::controllers::references::Reference;
use crate::garm::wire::Endpoint;

fn object(is_terminating: bool) -> GitHubEndpoint {
    GitHubEndpoint {
        metadata: ObjectMeta {
            deletion_timestamp: is_terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        },
        ..GitHubEndpoint::default()
    }
}

fn wanted(base_url: &str, ca_bundle: Option<&str>) -> DesiredEndpoint {
    DesiredEndpoint {
        name: "ghes".to_owned(),
        description: String::new(),
        api_base_url: "https://ghes/api".to_owned(),
        upload_base_url: "https://ghes/up".to_owned(),
        base_url: base_url.to_owned(),
        ca_bundle: ca_bundle.map(|pem| pem.as_bytes().to_vec()),
    }
}

fn stored() -> Endpoint {
    Endpoint {
        name: "ghes".to_owned(),
        api_base_url: "https://ghes/api/".to_owned(),
        upload_base_url: "https://ghes/up".to_owned(),
        base_url: "https://ghes".to_owned(),
        ..Endpoint::default()
    }
}

fn living(desired: DesiredEndpoint, actual: Option<Endpoint>) -> Observed {
    Observed {
        name: "ghes".to_owned(),
        claim: Claim::Owner,
        desired: Some(desired),
        ca_bundle: None,
        actual: actual.map(Arc::new),
        dependants: Vec::new(),
    }
}

fn going(name: &str, actual: Option<Endpoint>) -> Observed {
    Observed {
        name: name.to_owned(),
        desired: None,
        ..living(wanted("", None), actual)
    }
}

/// What a step does to what the next plan sees.
fn effect(observed: &mut Observed, step: &Step) {
    match step {
        Step::Create(desired) => {
            observed.actual = Some(Arc::new(Endpoint {
                base_url: desired.base_url.clone(),
                ca_cert_bundle: desired.ca_bundle.clone().unwrap_or_default(),
                ..stored()
            }));
        }
        Step::Update(update) => {
            let mut made = (**observed.actual.as_ref().unwrap()).clone();
            if let Some(url) = &update.base_url {
                made.base_url.clone_from(url);
            }
            if let Some(bundle) = &update.ca_cert_bundle {
                made.ca_cert_bundle.clone_from(bundle);
            }
            observed.actual = Some(Arc::new(made));
        }
        Step::Delete => observed.actual = None,
    }
}

fn converge(object: &GitHubEndpoint, observed: &mut Observed) -> (Vec<Step>, Plan<Step>) {
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
fn an_endpoint_needs_its_urls_to_be_made_but_not_to_be_described() {
    let none = DesiredEndpoint {
        api_base_url: String::new(),
        ..wanted("", None)
    };
    let (steps, plan) = converge(&object(false), &mut living(none.clone(), None));
    assert!(steps.is_empty());
    let Verdict::Invalid { message } = plan.verdict else {
        panic!("{:?}", plan.verdict)
    };
    assert!(message.contains("spec.apiBaseUrl") && message.contains("spec.baseUrl"));
    let (steps, plan) = converge(&object(false), &mut living(none, Some(stored())));
    assert!(steps.is_empty());
    assert_eq!(plan.verdict, Verdict::Ready);
}

#[test]
fn a_bundle_that_is_missing_is_awaited() {
    let mut observed = living(wanted("https://new", None), Some(stored()));
    observed.ca_bundle = Some(Reference::Missing("no secret".to_owned()));
    let (steps, plan) = converge(&object(false), &mut observed);
    assert!(steps.is_empty());
    assert!(matches!(plan.verdict, Verdict::Waiting { reason, .. } if reason == CA_SECRET.missing));
}

#[test]
fn who_is_not_the_owner_writes_nothing_in_life_and_just_goes_in_death() {
    let claims = [
        Claim::Conflict {
            owner: "a/ghes".to_owned(),
        },
        Claim::HandOver {
            to: "a/ghes".to_owned(),
        },
    ];
    for claim in claims {
        let mut observed = living(wanted("https://new", None), Some(stored()));
        observed.claim = claim.clone();
        let (steps, plan) = converge(&object(false), &mut observed);
        assert!(steps.is_empty());
        assert!(
            matches!(plan.verdict, Verdict::Waiting { reason, .. } if reason == reasons::NAME_CONFLICT)
        );
        let mut observed = going("ghes", Some(stored()));
        observed.claim = claim;
        let (steps, plan) = converge(&object(true), &mut observed);
        assert!(steps.is_empty() && plan.release);
    }
}

#[test]
fn deletion_waits_for_users_and_never_takes_the_built_in_one() {
    let mut used = going("ghes", Some(stored()));
    used.dependants = vec!["GitHubCredential ns/pat".to_owned()];
    let (steps, plan) = converge(&object(true), &mut used);
    assert!(steps.is_empty() && !plan.release);
    let (steps, plan) = converge(&object(true), &mut going("ghes", Some(stored())));
    assert!(matches!(steps[..], [Step::Delete]));
    assert!(plan.release);
    for mut gone in [
        going("ghes", None),
        going("github.com", Some(stored())),
        going("GitHub.com", Some(stored())),
    ] {
        let (steps, plan) = converge(&object(true), &mut gone);
        assert!(steps.is_empty() && plan.release);
    }
}

proptest! {
    #[test]
    fn the_plan_after_its_own_effect_is_empty(exists: bool, url in "https://(a|b)/?", bundle in prop::option::of("AAAA|BBBB"), before in "|AAAA|BBBB") {
        let pem = |body: &String| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let bundle = bundle.as_ref().map(pem);
        let before = if before.is_empty() { before } else { pem(&before) };
        let actual = exists.then(|| Endpoint { ca_cert_bundle: before.into_bytes(), ..stored() });
        let mut observed = living(wanted(&url, bundle.as_deref()), actual);
        let (steps, plan) = converge(&object(false), &mut observed);
        prop_assert!(steps.len() <= 1);
        prop_assert_eq!(plan.verdict, Verdict::Ready);
    }
}
