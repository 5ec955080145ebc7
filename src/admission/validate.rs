//! Judges objects: which rules of `domain` apply to a kind, and what only the other objects tell.

use std::time::Instant;

use kube::ResourceExt as _;
use kube::core::object::HasSpec;
use serde::de::DeserializeOwned;

use super::Admission;
use super::duplicates::Asked;
use super::hooks::Operation;
use super::outcome::{Outcome, Stop};
use super::review::{Request, Subject};
use crate::api::meta::is_terminating;
use crate::api::refs::TypedRef;
use crate::api::v1beta1::{
    Enterprise, GarmServerConfigSpec, GitHubCredentialSpec, GitHubEndpointSpec, ImageSpec,
    Organization, Pool, PoolSpec, Repository,
};
use crate::domain::duplicate::DuplicatePools;
use crate::domain::field::FieldError;
use crate::domain::reference::{missing, reference_index};
use crate::domain::scope::{Scope, ScopeView};
use crate::domain::{credential, endpoint, entity, pool, server_config};
use crate::runtime::ObjectKey;
use crate::runtime::hub::{Hub, Watched};

/// Names of Pools that a refusal lists.
const LISTED: usize = 10;

/// Judges a request by the kind of its object. What is not judged is allowed.
pub async fn judge(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    match &*request.kind.kind {
        "Pool" if request.operation == Operation::Delete => Ok(notice_pool(admission, request)),
        "Pool" => judge_pool(admission, request).await,
        "Image" => judge_image(admission, request).await,
        Repository::NAME => judge_scope::<Repository>(admission, request).await,
        Organization::NAME => judge_scope::<Organization>(admission, request).await,
        Enterprise::NAME => judge_scope::<Enterprise>(admission, request).await,
        "GitHubCredential" => judge_credential(admission, request),
        "GitHubEndpoint" => judge_endpoint(request),
        "GarmServerConfig" => judge_server_config(request),
        _ => Ok(Outcome::allowed()),
    }
}

async fn judge_pool(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(subject) = request.subject::<PoolSpec>()? else {
        return Ok(Outcome::allowed());
    };
    let (spec, old) = (&subject.spec, subject.old.as_ref());
    let mut errors = pool::faults_when_written(spec);
    errors.extend(changed(old, spec, pool::faults_of_update));
    refuse(errors)?;
    let duplicate = duplicate(admission, request, &subject).await?;
    Ok(Outcome::allowed()
        .warn(duplicate)
        .warn(pool::doubts(spec))
        .warn(absent_for_pool(admission, &request.namespace, spec)))
}

/// Refuses a Pool that equals another one, or says so.
async fn duplicate(
    admission: &Admission,
    request: &Request<'_>,
    subject: &Subject<PoolSpec>,
) -> Result<Option<String>, Stop> {
    let (hubs, mode) = (&admission.hubs, admission.duplicates.mode());
    if mode == DuplicatePools::Allow || !admission.watches(&request.namespace) {
        return Ok(None);
    }
    futures::try_join!(
        admission.loaded(&hubs.pools),
        admission.loaded(&hubs.images)
    )?;
    let name = subject.metadata.name.as_deref().unwrap_or(&request.name);
    let asked = Asked {
        key: &ObjectKey::new(&*request.namespace, name),
        spec: &subject.spec,
        old: subject.old.as_ref(),
        is_for_good: !request.is_dry_run(),
    };
    let duplicate = admission.duplicates.check(asked, Instant::now());
    match duplicate {
        Some(sentence) if mode == DuplicatePools::Deny => {
            let fault = FieldError::duplicate("spec", &sentence);
            Err(Outcome::invalid(vec![fault]).into())
        }
        other => Ok(other),
    }
}

fn absent_for_pool(admission: &Admission, namespace: &str, spec: &PoolSpec) -> Vec<String> {
    let hubs = &admission.hubs;
    let TypedRef { kind, name, .. } = &spec.github_scope_ref;
    let path = "spec.githubScopeRef";
    let scope = match kind.as_str() {
        Repository::NAME => admission.absent(&hubs.repositories, path, namespace, name),
        Organization::NAME => admission.absent(&hubs.organizations, path, namespace, name),
        Enterprise::NAME => admission.absent(&hubs.enterprises, path, namespace, name),
        _ => None,
    };
    let image = admission.absent(&hubs.images, "spec.imageName", namespace, &spec.image_name);
    scope.into_iter().chain(image).collect()
}

/// Takes note of a Pool whose deletion begins, which the watch shows only after its Image may have been deleted too.
fn notice_pool(admission: &Admission, request: &Request<'_>) -> Outcome {
    let (metadata, _) = request.deleted::<PoolSpec>();
    if let Some(uid) = metadata.uid
        && !request.is_dry_run()
    {
        admission.leaving.note(uid, Instant::now());
    }
    Outcome::allowed()
}

/// An Image may go unless a living Pool of its namespace is known to use it. A Pool that is going as well keeps nothing.
async fn judge_image(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let hubs = &admission.hubs;
    if request.operation != Operation::Delete || !admission.watches(&request.namespace) {
        return Ok(Outcome::allowed());
    }
    admission.loaded(&hubs.pools).await?;
    let (metadata, spec) = request.deleted::<ImageSpec>();
    // When a collection is deleted, the request itself bears no name.
    let name = metadata.name.as_deref().unwrap_or(&request.name);
    let now = Instant::now();
    let stays = |pool: &Pool| {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        !is_terminating(&pool.metadata) && !admission.leaving.has(uid, now)
    };
    let index = reference_index("image", &request.namespace, name);
    // As many as are named, and one to tell whether there are more: an Image may have thousands.
    let users = hubs.pools.first_by(&index, LISTED + 1, stays);
    if users.is_empty() {
        return Ok(Outcome::allowed());
    }
    let users: Vec<String> = users.iter().map(|pool| pool.name_any()).collect();
    let tag = spec.tag.unwrap_or_default();
    let image = ObjectKey::new(&*request.namespace, name);
    Ok(Outcome::forbidden(format!(
        "Image {image} (tag {tag:?}) is used by {}; delete them first, or let them use another Image",
        list(&users)
    )))
}

fn list(pools: &[String]) -> String {
    let (shown, more) = pools.split_at(pools.len().min(LISTED));
    let word = if pools.len() == 1 { "Pool" } else { "Pools" };
    let rest = if more.is_empty() { "" } else { " and more" };
    format!("{word} {}{rest}", shown.join(", "))
}

async fn judge_scope<K>(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop>
where
    K: Scope + HasSpec + Default,
    K::Spec: DeserializeOwned + Default,
{
    let Some(Subject { spec, old, .. }) = request.subject::<K::Spec>()? else {
        return Ok(Outcome::allowed());
    };
    let with_spec = |spec| {
        let mut object = K::default();
        *object.spec_mut() = spec;
        object
    };
    let (new, old) = (with_spec(spec), old.map(with_spec));
    let view = new.view();
    let mut errors = entity::faults(&view);
    if let Some(old) = old.as_ref().map(Scope::view) {
        errors.extend(entity::faults_of_update(&old, &view));
        errors.extend(moved(admission, &request.namespace, &old, &view).await?);
    }
    refuse(errors)?;
    let hubs = &admission.hubs;
    let name = &view.credentials.name;
    let path = "spec.credentialsRef";
    let absent = admission.absent(&hubs.credentials, path, &request.namespace, name);
    Ok(Outcome::allowed().warn(entity::doubts(&view)).warn(absent))
}

/// Refuses credentials on another endpoint, where both credentials are known.
async fn moved(
    admission: &Admission,
    namespace: &str,
    old: &ScopeView<'_>,
    new: &ScopeView<'_>,
) -> Result<Option<FieldError>, Stop> {
    let hubs = &admission.hubs;
    let (was, is) = (&old.credentials.name, &new.credentials.name);
    if was == is || !admission.watches(namespace) {
        return Ok(None);
    }
    let hub = &hubs.credentials;
    admission.loaded(hub).await?;
    let find = |name: &str| hub.valid(&ObjectKey::new(namespace, name));
    Ok(find(was).zip(find(is)).and_then(|(old, new)| {
        let endpoint = |credential: &crate::api::v1beta1::GitHubCredential| {
            credential.spec.endpoint_ref.name.clone()
        };
        entity::endpoint_fault(is, &endpoint(&old), &endpoint(&new))
    }))
}

fn judge_credential(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(Subject { spec, old, .. }) = request.subject::<GitHubCredentialSpec>()? else {
        return Ok(Outcome::allowed());
    };
    let mut errors = credential::faults(&spec);
    errors.extend(changed(old.as_ref(), &spec, credential::faults_of_update));
    refuse(errors)?;
    let hubs = &admission.hubs;
    let name = &spec.endpoint_ref.name;
    let path = "spec.endpointRef";
    let absent = admission.absent(&hubs.endpoints, path, &request.namespace, name);
    Ok(Outcome::allowed()
        .warn(credential::doubts(&spec))
        .warn(absent))
}

fn judge_endpoint(request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(Subject { spec, .. }) = request.subject::<GitHubEndpointSpec>()? else {
        return Ok(Outcome::allowed());
    };
    refuse(endpoint::faults(&spec))?;
    Ok(Outcome::allowed().warn(endpoint::doubts(&request.name, &spec)))
}

fn judge_server_config(request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(Subject { spec, .. }) = request.subject::<GarmServerConfigSpec>()? else {
        return Ok(Outcome::allowed());
    };
    refuse(server_config::faults(&spec))?;
    Ok(Outcome::allowed().warn(server_config::doubts(&spec)))
}

impl Admission {
    /// Waits until all objects of a kind are known, but not for long.
    ///
    /// # Errors
    /// There is no verdict without them.
    async fn loaded<K: Watched>(&self, hub: &Hub<K>) -> Result<(), Stop> {
        if hub.is_loaded() {
            return Ok(());
        }
        tokio::time::timeout(self.settings.wait, hub.loaded())
            .await
            .map_err(|_| Stop::NotReady(hub.kind().to_owned()))
    }

    /// Says that an object that the field at `path` refers to does not exist, as far as that is known: a doubt waits for nothing.
    fn absent<K: Watched>(
        &self,
        hub: &Hub<K>,
        path: &str,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        let key = ObjectKey::new(namespace, name);
        let is_absent = self.watches(namespace) && hub.is_loaded() && hub.get(&key).is_none();
        is_absent.then(|| format!("{path}: {} (yet)", missing(hub.kind(), key)))
    }
}

/// Applies a rule about changes, where something was there before.
fn changed<S>(old: Option<&S>, new: &S, rule: fn(&S, &S) -> Vec<FieldError>) -> Vec<FieldError> {
    old.map_or_else(Vec::new, |old| rule(old, new))
}

/// Ends the judgement when there are faults.
fn refuse(errors: Vec<FieldError>) -> Result<(), Stop> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Outcome::invalid(errors).into())
    }
}
