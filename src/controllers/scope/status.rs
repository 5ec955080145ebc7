//! Step 4: renders the status. Pure.

use crate::api::condition::{Conditions, Truth, reasons, types};
use crate::api::v1beta1::EntityStatus;
use crate::domain::entity::manager_failure;

use super::observe::Observed;
use super::{CREDENTIALS, SECRET};

/// Renders the status but for `Ready`.
pub fn status(
    previous: Option<&EntityStatus>,
    observed: &Observed,
    conditions: &mut Conditions,
) -> EntityStatus {
    if let Some(credentials) = &observed.credentials {
        credentials.show(conditions, CREDENTIALS, "");
    }
    if let Some(secret) = &observed.secret {
        secret.show(conditions, SECRET, "");
    }
    match observed.actual.as_deref() {
        None => {
            conditions.remove(types::POOL_MANAGER);
        }
        Some(actual) => match manager_failure(actual) {
            None => {
                conditions.set(
                    types::POOL_MANAGER,
                    Truth::True,
                    reasons::POOL_MANAGER_RUNNING,
                    "",
                );
            }
            Some(message) => {
                conditions.set(
                    types::POOL_MANAGER,
                    Truth::False,
                    reasons::POOL_MANAGER_FAILURE,
                    message,
                );
            }
        },
    }
    if let Some(webhook) = &observed.webhook {
        webhook.show(conditions);
    }
    let id = match &observed.actual {
        Some(actual) => actual.id.clone(),
        // Unknown is not absent: what a pass could not find or make stays as it was known.
        None => previous.map(|status| status.id.clone()).unwrap_or_default(),
    };
    EntityStatus {
        id,
        conditions: Vec::new(),
    }
}
