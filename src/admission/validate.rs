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
use crate::api::v1beta1::{
    Enterprise, GarmServerConfigSpec, GitHubCredentialSpec, GitHubEndpointSpec, ImageSpec,
    Organization, Pool, PoolSpec, Repository,
};
use crate::domain::duplicate::DuplicatePools;
use crate::domain::field::FieldError;
use crate::domain::judgement::{Judgement, Reference};
use crate::domain::pool::adoption;
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
        "GitHubEndpoint" => judge_endpoint(admission, request),
        "GarmServerConfig" => judge_server_config(admission, request),
        _ => Ok(Outcome::allowed()),
    }
}

async fn judge_pool(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(subject) = request.subject::<PoolSpec>()? else {
        return Ok(Outcome::allowed());
    };
    let mut judged = pool::judge(subject.old.as_ref(), &subject.spec);
    let adopt_id = subject.metadata.adopt_id();
    // What was let in before keeps nobody from changing something else.
    if adopt_id != subject.was.adopt_id() {
        judged.faults.extend(adopt_id.and_then(adoption::fault));
    }
    // Only what may be stored is compared, and takes a place.
    let duplicate = if judged.faults.is_empty() {
        duplicate(admission, request, &subject).await?
    } else {
        None
    };
    Ok(admission.verdict(request, judged)?.warn(duplicate))
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
    let old = old.as_ref().map(Scope::view);
    let mut judged = entity::judge(old.as_ref(), &view);
    if let Some(old) = &old {
        let moved = moved(admission, &request.namespace, old, &view).await?;
        judged.faults.extend(moved);
    }
    admission.verdict(request, judged)
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
    admission.verdict(request, credential::judge(old.as_ref(), &spec))
}

fn judge_endpoint(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(Subject { spec, .. }) = request.subject::<GitHubEndpointSpec>()? else {
        return Ok(Outcome::allowed());
    };
    admission.verdict(request, endpoint::judge(&request.name, &spec))
}

fn judge_server_config(admission: &Admission, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(Subject { spec, .. }) = request.subject::<GarmServerConfigSpec>()? else {
        return Ok(Outcome::allowed());
    };
    admission.verdict(request, server_config::judge(&spec))
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

    /// Refuses what has faults. Else warns of the rest, and of objects that do not exist.
    fn verdict(&self, request: &Request<'_>, judged: Judgement) -> Result<Outcome, Stop> {
        let Judgement {
            faults,
            doubts,
            references,
        } = judged;
        if !faults.is_empty() {
            return Err(Outcome::invalid(faults).into());
        }
        let absent = references.iter().filter_map(|reference| {
            let key = ObjectKey::new(&*request.namespace, &*reference.name);
            let Reference { path, kind, .. } = reference;
            let is_absent = self.watches(&request.namespace) && self.is_absent(kind, &key);
            is_absent.then(|| format!("{path}: {} (yet)", missing(kind, key)))
        });
        Ok(Outcome::allowed().warn(doubts).warn(absent))
    }

    /// Says whether an object is known not to exist: a doubt waits for nothing.
    fn is_absent(&self, kind: &str, key: &ObjectKey) -> bool {
        fn lacks<K: Watched>(hub: &Hub<K>, key: &ObjectKey) -> bool {
            hub.is_loaded() && hub.get(key).is_none()
        }
        let hubs = &self.hubs;
        match kind {
            Repository::NAME => lacks(&hubs.repositories, key),
            Organization::NAME => lacks(&hubs.organizations, key),
            Enterprise::NAME => lacks(&hubs.enterprises, key),
            "Image" => lacks(&hubs.images, key),
            "GitHubCredential" => lacks(&hubs.credentials, key),
            "GitHubEndpoint" => lacks(&hubs.endpoints, key),
            _ => false,
        }
    }
}
