//! Step 4: renders the status. Pure.

use crate::api::condition::Conditions;
use crate::api::v1beta1::{GitHubCredential, GitHubCredentialStatus};
use crate::garm::wire::EntityKind;

use super::observe::Observed;
use super::{ENDPOINT, SECRET};

/// Renders the status but for `Ready`. Without credentials in GARM the last known facts stay.
pub fn status(
    object: &GitHubCredential,
    observed: &Observed,
    conditions: &mut Conditions,
) -> GitHubCredentialStatus {
    if let Some(endpoint) = &observed.endpoint {
        let message = format!(
            "GitHubEndpoint {} exists in GARM",
            object.spec.endpoint_ref.name
        );
        endpoint.show(conditions, ENDPOINT, &message);
    }
    if let Some(secret) = &observed.secret {
        secret.show(conditions, SECRET, "");
    }
    let Some(actual) = &observed.actual else {
        return object.status.clone().unwrap_or_default();
    };
    let users = |kind: EntityKind| {
        let of_kind = observed.users.iter().filter(|(k, _)| *k == kind);
        of_kind.map(|(_, name)| name.clone()).collect()
    };
    GitHubCredentialStatus {
        id: actual.id,
        api_base_url: actual.api_base_url.clone(),
        upload_base_url: actual.upload_base_url.clone(),
        base_url: actual.base_url.clone(),
        repositories: users(EntityKind::Repository),
        organizations: users(EntityKind::Organization),
        enterprises: users(EntityKind::Enterprise),
        conditions: Vec::new(),
    }
}
