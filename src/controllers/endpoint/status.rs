//! Step 4: renders the status. Pure.

use crate::api::condition::{Conditions, Truth, types};
use crate::api::v1beta1::GitHubEndpointStatus;

use super::CA_SECRET;
use super::observe::Observed;

/// Condition that tells of a bundle which the object no longer names but GARM cannot clear.
const LEFT_BEHIND: &str = "CaBundleLeftInGarm";

/// Sets the conditions but `Ready`; an endpoint has no other status.
pub fn status(observed: &Observed, conditions: &mut Conditions) -> GitHubEndpointStatus {
    if observed.desired.is_some() || observed.ca_bundle.is_some() {
        match &observed.ca_bundle {
            Some(reference) => reference.show(conditions, CA_SECRET, ""),
            None => {
                conditions.remove(types::WEBHOOK_SECRET_REFERENCE);
            }
        }
    }
    let left = match (&observed.desired, &observed.actual) {
        (Some(desired), Some(actual)) => desired.leaves_bundle(actual),
        _ => false,
    };
    if left {
        conditions.set(
            LEFT_BEHIND,
            Truth::True,
            LEFT_BEHIND,
            "GARM still uses the CA bundle of before and cannot clear it; delete and make the endpoint anew, or name a bundle again",
        );
    } else {
        conditions.remove(LEFT_BEHIND);
    }
    GitHubEndpointStatus::default()
}
