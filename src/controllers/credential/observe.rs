//! Step 1: reads the stores, the mirror and the Secret.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::meta;
use crate::api::refs::SecretKeyRef;
use crate::api::v1beta1::GitHubCredential;
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::references::{self, Reference};
use crate::domain::credential::{DesiredCredential, desired};
use crate::domain::field::FieldError;
use crate::domain::ownership::Claim;
use crate::domain::pushed::{Hasher, Pushed};
use crate::domain::reference::reference_index;
use crate::domain::scope::kind_name;
use crate::garm::wire::{self, EntityKind};

/// What a pass knows.
pub struct Observed {
    /// The object's uid.
    pub uid: String,
    /// Name in GARM.
    pub name: String,
    /// Who owns it there.
    pub claim: Claim,
    /// The endpoint; `None` in deletion, which reads no reference.
    pub endpoint: Option<Reference<()>>,
    /// The Secret; `None` in deletion.
    pub secret: Option<Reference<()>>,
    /// What the object wants, or what is wrong with it; `None` while a reference is missing.
    pub desired: Option<Result<DesiredCredential, Vec<FieldError>>>,
    /// Credentials in GARM.
    pub actual: Option<Arc<wire::Credential>>,
    /// What is known to have been sent.
    pub pushed: Pushed,
    /// Makes the keyed hashes.
    pub hasher: Hasher,
    /// Entities in GARM that use them, by kind, sorted.
    pub users: Vec<(EntityKind, String)>,
    /// What keeps GARM from deleting them, by the names of objects where there are any.
    pub dependants: Vec<String>,
}

/// Reads what a plan needs. Deletion reads no Secret and no endpoint.
pub async fn observe(context: &Context, object: &GitHubCredential) -> Result<Observed, Verdict> {
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let claim = references::credential_claim(context, object);
    let mut actual = references::garm_credential(context, object);
    if let Claim::Conflict { .. } = claim {
        // What the owner's credentials are used for is none of this object's business.
        actual = None;
    } else if actual.is_none() && claim == Claim::Owner && meta::is_terminating(&object.metadata) {
        // An answer may have been lost: the object goes only when GARM itself has none.
        let all = context.garm.list_credentials().await;
        all.map_err(|error| Verdict::garm(&error))?;
        actual = references::garm_credential(context, object);
    }
    let mut observed = Observed {
        uid: object.uid().unwrap_or_default(),
        claim,
        endpoint: None,
        secret: None,
        desired: None,
        users: actual
            .as_ref()
            .map(|actual| users(context, actual))
            .unwrap_or_default(),
        dependants: Vec::new(),
        actual,
        pushed: Pushed::parse(meta::annotation(&object.metadata, meta::PUSHED)),
        hasher: context.hasher.clone(),
        name,
    };
    if meta::is_terminating(&object.metadata) {
        observed.dependants = dependants(context, &namespace, &observed);
        return Ok(observed);
    }
    observed.endpoint =
        Some(references::endpoint(context, &namespace, &object.spec.endpoint_ref).shape());
    let unnamed = SecretKeyRef::default();
    let reference = object.spec.secret_ref.as_ref().unwrap_or(&unnamed);
    let value = if reference.name.is_empty() {
        Reference::Missing("spec.secretRef names no Secret".to_owned())
    } else {
        references::secret(context, &namespace, reference).await?
    };
    if let Reference::Found(value) = &value {
        observed.desired = Some(match value.text() {
            Some(text) => desired(&observed.name, &object.spec, text),
            None => Err(vec![FieldError::invalid_unshown(
                "spec.secretRef",
                "the value that it names is not text",
            )]),
        });
    }
    observed.secret = Some(value.shape());
    Ok(observed)
}

/// Lists the entities that use the credentials, from the mirror: no read per credential.
fn users(context: &Context, credential: &wire::Credential) -> Vec<(EntityKind, String)> {
    let entities = context.garm.entities_using(credential.id);
    let mut users: Vec<(EntityKind, String)> = entities
        .iter()
        .map(|entity| (entity.kind, entity.name.clone()))
        .collect();
    users.sort();
    users
}

/// Names the objects that use the credentials, or GARM's own entities where no object stands for them.
fn dependants(context: &Context, namespace: &str, observed: &Observed) -> Vec<String> {
    let index = reference_index("credential", namespace, &observed.name);
    let hubs = &context.hubs;
    let objects: Vec<(EntityKind, String)> =
        names(EntityKind::Repository, &hubs.repositories.by(&index))
            .chain(names(
                EntityKind::Organization,
                &hubs.organizations.by(&index),
            ))
            .chain(names(EntityKind::Enterprise, &hubs.enterprises.by(&index)))
            .collect();
    let told = |(kind, name): &(EntityKind, String)| {
        if objects.contains(&(*kind, name.clone())) {
            format!("{} {namespace}/{name}", kind_name(*kind))
        } else {
            format!("{} {name:?} in GARM", kind.word())
        }
    };
    observed.users.iter().map(told).collect()
}

fn names<K: ResourceExt>(
    kind: EntityKind,
    objects: &[Arc<K>],
) -> impl Iterator<Item = (EntityKind, String)> {
    objects.iter().map(move |object| (kind, object.name_any()))
}
