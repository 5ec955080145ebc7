use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::api::v1beta1::GarmServerConfigSpec;
use crate::domain::ownership::Claim;
use crate::garm::wire::Controller;

fn observed(spec: GarmServerConfigSpec) -> Observed {
    Observed {
        claim: Claim::Owner,
        spec,
        actual: Arc::new(Controller::default()),
    }
}

/// What a PUT does in GARM.
fn effect(observed: &mut Observed, step: &Step) {
    let Step::Update(update) = step;
    let mut actual = (*observed.actual).clone();
    let set = |field: &mut String, value: &Option<String>| {
        if let Some(value) = value {
            field.clone_from(value);
        }
    };
    set(&mut actual.metadata_url, &update.metadata_url);
    set(&mut actual.callback_url, &update.callback_url);
    set(&mut actual.webhook_url, &update.webhook_url);
    if let Some(age) = update.minimum_job_age_backoff {
        actual.minimum_job_age_backoff = age;
    }
    observed.actual = Arc::new(actual);
}

#[test]
fn only_the_oldest_gives_the_settings() {
    let mut second = observed(GarmServerConfigSpec {
        metadata_url: Some("http://garm".to_owned()),
        ..GarmServerConfigSpec::default()
    });
    second.claim = Claim::Conflict {
        owner: "a/garm".to_owned(),
    };
    let plan = plan(&second);
    assert!(plan.steps.is_empty());
    assert!(
        matches!(plan.verdict, Verdict::Waiting { reason, .. } if reason == reasons::SUPERSEDED)
    );
}

#[test]
fn what_is_no_url_is_told_and_nothing_is_sent() {
    let wrong = observed(GarmServerConfigSpec {
        metadata_url: Some("garm".to_owned()),
        callback_url: Some("http://garm".to_owned()),
        ..GarmServerConfigSpec::default()
    });
    let plan = plan(&wrong);
    assert!(plan.steps.is_empty());
    assert!(
        matches!(plan.verdict, Verdict::Invalid { message } if message.contains("spec.metadataUrl"))
    );
}

proptest! {
    #[test]
    fn the_plan_after_its_own_effect_is_empty(urls in prop::array::uniform3(prop::option::of("|https?://[a-z]{1,5}/?")), age in prop::option::of(0i64..99)) {
        let [metadata_url, callback_url, webhook_url] = urls;
        let spec = GarmServerConfigSpec { metadata_url, callback_url, webhook_url, minimum_job_age_backoff: age };
        let mut observed = observed(spec);
        for step in plan(&observed).steps {
            effect(&mut observed, &step);
        }
        let plan = plan(&observed);
        prop_assert!(plan.steps.is_empty(), "{:?}", plan.steps);
        prop_assert_eq!(plan.verdict, Verdict::Ready);
    }
}
