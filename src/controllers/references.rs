//! What one object needs of another: looked up by namespace and name, and found, or awaited with a sentence that says what is missing.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::condition::{Conditions, Truth};
use crate::api::refs::{SecretKeyRef, TypedRef};
use crate::api::v1beta1::{GitHubCredential, GitHubEndpoint};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::domain::ownership::{Claim, claim};
use crate::domain::reference::{missing, name_index};
use crate::garm::wire;
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;
use crate::runtime::secrets::{SecretProblem, SecretValue};

/// A reference, followed.
#[derive(Clone, Debug)]
pub enum Reference<T> {
    /// What it points at.
    Found(T),
    /// It points at nothing usable yet; the message names what is awaited.
    Missing(String),
}

/// How a reference shows in conditions: type, reason when found, reason when missing.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Condition type.
    pub type_: &'static str,
    /// Reason when found.
    pub found: &'static str,
    /// Reason when missing.
    pub missing: &'static str,
}

impl<T> Reference<T> {
    /// The target, if found.
    pub fn found(&self) -> Option<&T> {
        match self {
            Self::Found(target) => Some(target),
            Self::Missing(_) => None,
        }
    }

    /// Forgets the target, where only its presence counts.
    pub fn shape(&self) -> Reference<()> {
        match self {
            Self::Found(_) => Reference::Found(()),
            Self::Missing(message) => Reference::Missing(message.clone()),
        }
    }

    /// Sets the condition of this reference.
    pub fn show(&self, conditions: &mut Conditions, shown: Shown, found_message: &str) {
        match self {
            Self::Found(_) => conditions.set(shown.type_, Truth::True, shown.found, found_message),
            Self::Missing(message) => {
                conditions.set(shown.type_, Truth::False, shown.missing, message.clone())
            }
        };
    }

    /// The verdict of an object that waits for this reference.
    pub fn awaited(&self, shown: Shown) -> Option<Verdict> {
        match self {
            Self::Found(_) => None,
            Self::Missing(message) => Some(Verdict::Waiting {
                reason: shown.missing,
                message: message.clone(),
            }),
        }
    }
}

/// Judges who owns the endpoint of this name in GARM.
pub fn endpoint_claim(context: &Context, endpoint: &GitHubEndpoint) -> Claim {
    let name = endpoint.name_any();
    let rivals = context.hubs.endpoints.by(&name_index(&name));
    claim(&endpoint.metadata, rivals.iter().map(|e| &e.metadata))
}

/// Judges who owns the credentials of this name in GARM.
pub fn credential_claim(context: &Context, credential: &GitHubCredential) -> Claim {
    let name = credential.name_any();
    let rivals = context.hubs.credentials.by(&name_index(&name));
    claim(&credential.metadata, rivals.iter().map(|c| &c.metadata))
}

/// Follows a reference to a GitHubEndpoint that is to exist in GARM.
pub fn endpoint(
    context: &Context,
    namespace: &str,
    reference: &TypedRef,
) -> Reference<Arc<wire::Endpoint>> {
    let key = ObjectKey::new(namespace, &reference.name);
    let Some(object) = context.hubs.endpoints.valid(&key) else {
        return Reference::Missing(missing("GitHubEndpoint", key));
    };
    if let Some(owner) = endpoint_claim(context, &object).other() {
        return Reference::Missing(format!(
            "GitHubEndpoint {key} does not own the endpoint in GARM: GitHubEndpoint {owner} does"
        ));
    }
    context.garm.endpoint(&reference.name).map_or_else(
        || Reference::Missing(format!("GitHubEndpoint {key} does not exist in GARM yet")),
        Reference::Found,
    )
}

/// Finds the credentials in GARM that an object stands for: by its id together with its name, else by name.
///
/// A fresh GARM gives the same numbers out again, so an id alone proves nothing.
pub fn garm_credential(
    context: &Context,
    object: &GitHubCredential,
) -> Option<Arc<wire::Credential>> {
    let name = object.name_any();
    let id = object.status.as_ref().map_or(0, |status| status.id);
    context
        .garm
        .credential(id)
        .filter(|credential| credential.name.eq_ignore_ascii_case(&name))
        .or_else(|| {
            let all = context.garm.credentials();
            all.into_iter()
                .find(|credential| credential.name.eq_ignore_ascii_case(&name))
        })
}

/// Follows a reference to a GitHubCredential that is to exist in GARM.
pub fn credential(
    context: &Context,
    namespace: &str,
    reference: &TypedRef,
) -> Reference<Arc<wire::Credential>> {
    let key = ObjectKey::new(namespace, &reference.name);
    let Some(object) = context.hubs.credentials.valid(&key) else {
        return Reference::Missing(missing("GitHubCredential", key));
    };
    if let Some(owner) = credential_claim(context, &object).other() {
        return Reference::Missing(format!(
            "GitHubCredential {key} does not own the credentials in GARM: GitHubCredential {owner} does"
        ));
    }
    garm_credential(context, &object).map_or_else(
        || Reference::Missing(format!("GitHubCredential {key} does not exist in GARM yet")),
        Reference::Found,
    )
}

/// Reads one key of a Secret.
///
/// # Errors
/// Fails when the API server cannot be asked, which says nothing about the Secret.
pub async fn secret(
    context: &Context,
    namespace: &str,
    reference: &SecretKeyRef,
) -> Result<Reference<SecretValue>, Verdict> {
    let SecretKeyRef { name, key } = reference;
    let watched = context.hubs.secrets.valid(&ObjectKey::new(namespace, name));
    let version = watched
        .as_ref()
        .and_then(|secret| secret.metadata.resource_version.as_deref());
    match context.secrets.read(namespace, name, key, version).await {
        Ok(value) => Ok(Reference::Found(value)),
        Err(SecretProblem::NotFound) => Ok(Reference::Missing(missing(
            "Secret",
            format!("{namespace}/{name}"),
        ))),
        Err(SecretProblem::KeyMissing) => Ok(Reference::Missing(format!(
            "Secret {namespace}/{name} has no key {key:?}"
        ))),
        Err(SecretProblem::Empty) => Ok(Reference::Missing(format!(
            "key {key:?} of Secret {namespace}/{name} is empty"
        ))),
        Err(SecretProblem::Kube(error)) => Err(Verdict::Failed {
            reason: crate::api::condition::reasons::RECONCILE_ERROR,
            message: format!(
                "reading Secret {namespace}/{name} failed: {}",
                explain(&error)
            ),
        }),
    }
}

/// The verdict of an object that another one keeps from writing to GARM.
pub fn conflict(kind: &str, owner: &str) -> Verdict {
    Verdict::Waiting {
        reason: crate::api::condition::reasons::NAME_CONFLICT,
        message: format!(
            "{kind} {owner} is older and owns the same object in GARM; delete one of the two"
        ),
    }
}

/// The verdict of a terminating object that others still use.
pub fn dependants(names: &[String]) -> Verdict {
    Verdict::Waiting {
        reason: crate::api::condition::reasons::WAITING_FOR_DEPENDANTS,
        message: format!(
            "still used by {}; delete that first{}",
            names.join(", "),
            if names.iter().any(|name| name.ends_with("in GARM")) {
                " with GARM's own tools, or let go of this object with the annotation force-delete"
            } else {
                ""
            }
        ),
    }
}
