//! Values under which objects are found besides their names: what they refer to, and what they stand for in GARM.

use kube::{Resource, ResourceExt};

use crate::api::meta;
use crate::api::v1beta1::{GitHubCredential, GitHubEndpoint, Image, Pool, Runner};
use crate::controllers::duplicates::{likeness_index, tag_index};
use crate::controllers::runner::{instance_index, instance_name};
use crate::controllers::scope::full_name;
use crate::domain::duplicate::{Likeness, tag};
use crate::domain::pool::adoption::{self, adopt_index};
use crate::domain::reference::{id_index, name_index, reference_index, uid_index};
use crate::domain::scope::Scope;

/// Index values of a GitHubEndpoint.
pub fn index_endpoint(object: &GitHubEndpoint) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let secret = object.spec.ca_cert_bundle_secret_ref.as_ref();
    let secret = secret.map(|reference| reference_index("secret", &namespace, &reference.name));
    [name_index(&object.name_any())]
        .into_iter()
        .chain(secret)
        .collect()
}

/// Index values of a GitHubCredential.
pub fn index_credential(object: &GitHubCredential) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let secret = object.spec.secret_ref.as_ref();
    let secret = secret.map(|reference| reference_index("secret", &namespace, &reference.name));
    let endpoint = reference_index("endpoint", &namespace, &object.spec.endpoint_ref.name);
    [name_index(&object.name_any()), endpoint]
        .into_iter()
        .chain(secret)
        .collect()
}

/// Index values of a Repository, Organization or Enterprise.
pub fn index_scope<K: Scope + ResourceExt>(object: &K) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let view = object.view();
    let id = object
        .entity_status()
        .map(|status| status.id.as_str())
        .filter(|id| !id.is_empty());
    [
        name_index(&full_name(object)),
        reference_index("secret", &namespace, &view.webhook_secret.name),
        reference_index("credential", &namespace, &view.credentials.name),
    ]
    .into_iter()
    .chain(id.map(id_index))
    .collect()
}

/// Index values of an Image.
pub fn index_image(object: &Image) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let tag = tag(object).map(|tag| tag_index(&namespace, tag));
    tag.into_iter().collect()
}

/// Index values of a Pool. One that terminates is nobody's duplicate.
pub fn index_pool(object: &Pool) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let scope = &object.spec.github_scope_ref;
    let id = object
        .status
        .as_ref()
        .map(|status| status.id.as_str())
        .filter(|id| !id.is_empty());
    let is_living = !meta::is_terminating(&object.metadata);
    let likeness = is_living.then(|| {
        let likeness = Likeness::of(&object.spec);
        likeness_index(&namespace, &likeness.image, &likeness)
    });
    [
        uid_index(&object.uid().unwrap_or_default()),
        reference_index("image", &namespace, &object.spec.image_name),
        reference_index(&scope.kind, &namespace, &scope.name),
    ]
    .into_iter()
    .chain(id.map(id_index))
    .chain(likeness)
    .chain(adoption::wanted(&object.metadata).map(|id| adopt_index(&id)))
    .collect()
}

/// Index values of a Runner.
pub fn index_runner(object: &Runner) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let name = instance_name(object);
    let owners = object.owner_references().iter();
    let pool = owners
        .filter(|owner| owner.kind == Pool::kind(&()))
        .map(|owner| reference_index("pool", &namespace, &owner.name));
    name.into_iter().map(instance_index).chain(pool).collect()
}
