//! Step 4: renders the status. Pure.

use jiff::Timestamp;

use crate::api::condition::{Conditions, Truth, reasons, types};
use crate::api::meta;
use crate::api::v1beta1::{Pool, PoolStatus};

use super::IMAGE;
use super::observe::Observed;
use super::plan::scaling;

/// Renders the status but for `Ready`.
pub fn status(object: &Pool, observed: &Observed, conditions: &mut Conditions) -> PoolStatus {
    let previous = object.status.clone().unwrap_or_default();
    if let Some(scope) = &observed.scope {
        let message = format!(
            "{} {} exists in GARM",
            object.spec.github_scope_ref.kind, object.spec.github_scope_ref.name
        );
        scope.show(conditions, observed.scope_shown(), &message);
    }
    if let Some(image) = &observed.image {
        let message = image
            .found()
            .map(|tag| format!("tag {tag}"))
            .unwrap_or_default();
        image.show(conditions, IMAGE, &message);
    }
    match &observed.duplicate_of {
        Some(sentence) => {
            let (type_, reason) = (types::DUPLICATE_POOL, reasons::DUPLICATE_POOL_FOUND);
            conditions.set(type_, Truth::True, reason, sentence.clone());
        }
        None => {
            conditions.remove(types::DUPLICATE_POOL);
        }
    }
    let selector = format!("{}={}", meta::POOL_UID, observed.uid);
    let Some(actual) = &observed.actual else {
        conditions.remove(types::FAILED_RUNNERS);
        return PoolStatus {
            selector,
            conditions: Vec::new(),
            ..previous
        };
    };
    failed_runners(observed, conditions);
    let mut tags = actual.tags.clone();
    tags.sort();
    PoolStatus {
        id: actual.id.clone(),
        long_running_idle_runners: scaling(observed, 0, Timestamp::now()).long_running,
        selector,
        tags,
        runners: Some(observed.counts),
        conditions: Vec::new(),
    }
}

/// Runners that the provider could not make use up idle slots, and GARM 0.2 never tries them again: that has to show.
fn failed_runners(observed: &Observed, conditions: &mut Conditions) {
    let count = observed.failed.len();
    if count == 0 {
        conditions.remove(types::FAILED_RUNNERS);
        return;
    }
    let told = observed
        .failed
        .iter()
        .filter(|failure| !failure.fault.is_empty());
    // The oldest: a cause that stands has one text.
    let fault = told.min_by_key(|failure| (failure.since, &failure.instance.name));
    let cause = fault.map_or("GARM gives no cause", |failure| failure.fault.as_str());
    let message = format!("{count} of the runners could not be made by the provider: {cause}");
    conditions.set(
        types::FAILED_RUNNERS,
        Truth::True,
        reasons::PROVIDER_FAULT,
        message,
    );
}
