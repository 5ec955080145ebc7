//! Step 1: reads the stores, the mirror and the webhook secret.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use secrecy::SecretString;

use crate::api::meta;
use crate::api::refs::TypedRef;
use crate::api::v1beta1::{Enterprise, Organization, Repository};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::controllers::references::{self, Reference};
use crate::domain::entity::DesiredEntity;
use crate::domain::field::FieldError;
use crate::domain::ownership::{Claim, claim};
use crate::domain::pushed::{Hasher, Pushed};
use crate::domain::reference::{id_index, missing, name_index, reference_index};
use crate::domain::scope::{EntityKey, Scope, kind_referred_to};
use crate::garm;
use crate::garm::wire::{Entity, EntityKind};
use crate::runtime::ObjectKey;

use super::ScopeObject;
use super::webhook::{Tries, Webhook};

/// What a pass knows.
pub struct Observed {
    /// The object's uid.
    pub uid: String,
    /// Who owns the entity in GARM.
    pub claim: Claim,
    /// The credentials; `None` in deletion, which follows no reference.
    pub credentials: Option<Reference<()>>,
    /// The webhook secret; `None` in deletion.
    pub secret: Option<Reference<()>>,
    /// What the object wants; `None` while a reference is missing.
    pub desired: Option<DesiredEntity>,
    /// What makes the entity the same one, as far as its endpoint is known.
    pub key: Option<EntityKey>,
    /// GARM's entity.
    pub actual: Option<Arc<Entity>>,
    /// Whether that was found by its key: the object does not know its id yet.
    pub is_new_to_us: bool,
    /// What is known to have been sent.
    pub pushed: Pushed,
    /// Makes the keyed hashes.
    pub hasher: Hasher,
    /// The webhook on GitHub; `None` for a kind that has none.
    pub webhook: Option<Webhook>,
    /// Pools that keep GARM from deleting it.
    pub dependants: Vec<String>,
}

/// Reads what a plan needs. Deletion reads no Secret and follows no reference.
pub async fn observe<K: ScopeObject>(
    context: &Context,
    tries: &Tries,
    object: &K,
) -> Result<Observed, Verdict> {
    let namespace = object.namespace().unwrap_or_default();
    let view = object.view();
    let key = entity_key(context, object);
    let claim = scope_claim(context, object, key.as_ref());
    let mut actual = find(context, object, key.as_ref(), &claim);
    if actual.is_none() && claim == Claim::Owner && meta::is_terminating(object.meta()) {
        actual = find_live(context, object, key.as_ref()).await?;
    }
    let is_new_to_us = actual
        .as_ref()
        .is_some_and(|actual| actual.id != stored_id(object));
    let mut observed = Observed {
        uid: object.uid().unwrap_or_default(),
        claim,
        credentials: None,
        secret: None,
        desired: None,
        key,
        pushed: Pushed::parse(meta::annotation(object.meta(), meta::PUSHED)),
        hasher: context.hasher.clone(),
        webhook: view
            .install_webhook
            .map(|wanted| webhook(object, wanted, tries)),
        dependants: Vec::new(),
        actual,
        is_new_to_us,
    };
    if meta::is_terminating(object.meta()) {
        if let Some(actual) = &observed.actual {
            observed.dependants = dependants(context, K::KIND, K::NAME, object.meta(), actual);
        }
        return Ok(observed);
    }
    let credentials = references::credential(context, &namespace, view.credentials);
    let secret = references::secret(context, &namespace, view.webhook_secret).await?;
    if let (Reference::Found(credentials), Reference::Found(secret)) = (&credentials, &secret) {
        observed.desired = Some(DesiredEntity {
            owner: view.owner.map(str::to_owned),
            name: object.name_any(),
            credentials: credentials.name.clone(),
            endpoint: credentials.endpoint.clone(),
            webhook_secret: SecretString::from(
                String::from_utf8_lossy(secret.bytes()).into_owned(),
            ),
            balancer: view.balancer.to_owned(),
        });
    }
    observed.credentials = Some(credentials.shape());
    observed.secret = Some(secret.shape());
    Ok(observed)
}

fn webhook<K: ScopeObject>(object: &K, wanted: bool, tries: &Tries) -> Webhook {
    let conditions = object
        .entity_status()
        .map(|status| status.conditions.as_slice());
    let retry = tries.wait(&object.uid().unwrap_or_default());
    Webhook::read(wanted, object.meta(), conditions.unwrap_or_default(), retry)
}

/// The key of the entity, once the credentials object tells the endpoint.
fn entity_key<K: ScopeObject>(context: &Context, object: &K) -> Option<EntityKey> {
    let view = object.view();
    let key = ObjectKey::new(
        object.namespace().unwrap_or_default(),
        &view.credentials.name,
    );
    let credentials = context.hubs.credentials.valid(&key)?;
    let endpoint = &credentials.spec.endpoint_ref.name;
    Some(EntityKey::new(
        K::KIND,
        view.owner.unwrap_or_default(),
        &object.name_any(),
        endpoint,
    ))
}

/// Judges who owns the entity: rivals are objects with the same stored id or the same key.
fn scope_claim<K: ScopeObject>(context: &Context, object: &K, key: Option<&EntityKey>) -> Claim {
    let hub = K::hub(&context.hubs);
    let mut rivals = hub.by(&name_index(&full_name(object)));
    rivals.retain(|rival| key.is_some() && entity_key(context, &**rival).as_ref() == key);
    let id = stored_id(object);
    if !id.is_empty() {
        let mut holders = hub.by(&id_index(id));
        if meta::is_terminating(object.meta()) {
            // Handed over is what another object claims by its name, not what a copied id points at.
            holders.retain(|holder| full_name(&**holder) == full_name(object));
        }
        rivals.extend(holders);
    }
    claim(object.meta(), rivals.iter().map(|rival| rival.meta()))
}

/// Name under which rivals are found: with the owner, where the kind has one.
pub fn full_name<K: Scope + ResourceExt>(object: &K) -> String {
    let owner = object.view().owner.unwrap_or_default();
    format!("{owner}/{}", object.name_any())
}

fn stored_id<K: Scope>(object: &K) -> &str {
    object
        .entity_status()
        .map_or("", |status| status.id.as_str())
}

/// Finds the entity by the stored id, which counts only together with the name: a status may have been copied.
fn by_id<K: ScopeObject>(context: &Context, object: &K) -> Option<Arc<Entity>> {
    let entity = context.garm.entity(K::KIND, stored_id(object))?;
    is_named(object, &entity).then_some(entity)
}

fn is_named<K: ScopeObject>(object: &K, entity: &Entity) -> bool {
    let name = format!("{}/{}", entity.owner, entity.name);
    name.to_lowercase() == full_name(object).to_lowercase()
}

/// Finds the entity: the stored id has priority over any look-up, unless somebody else owns it.
fn find<K: ScopeObject>(
    context: &Context,
    object: &K,
    key: Option<&EntityKey>,
    claim: &Claim,
) -> Option<Arc<Entity>> {
    if matches!(claim, Claim::Conflict { .. }) {
        return None;
    }
    by_id(context, object).or_else(|| {
        let key = key?;
        let all = context.garm.entities(K::KIND);
        all.into_iter()
            .find(|entity| EntityKey::of(K::KIND, entity) == *key)
    })
}

/// Looks in GARM itself for what the mirror does not have, before an object goes for want of it: an answer may have been lost.
async fn find_live<K: ScopeObject>(
    context: &Context,
    object: &K,
    key: Option<&EntityKey>,
) -> Result<Option<Arc<Entity>>, Verdict> {
    let id = stored_id(object);
    if !id.is_empty() {
        match context.garm.read_entity(K::KIND, id).await {
            Ok(entity) if is_named(object, &entity) => return Ok(Some(Arc::new(entity))),
            Ok(_) | Err(garm::Error::NotFound) => {}
            Err(error) => return Err(Verdict::garm(&error)),
        }
    }
    let Some(key) = key else {
        return Ok(None);
    };
    let all = context
        .garm
        .list_entities(K::KIND)
        .await
        .map_err(|error| Verdict::garm(&error))?;
    let found = all
        .into_iter()
        .find(|entity| EntityKey::of(K::KIND, entity) == *key);
    Ok(found.map(Arc::new))
}

/// Names the pools of the entity: the objects that stand for them, or GARM's own ids.
fn dependants(
    context: &Context,
    kind: EntityKind,
    word: &str,
    metadata: &ObjectMeta,
    actual: &Entity,
) -> Vec<String> {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    let objects = context
        .hubs
        .pools
        .by(&reference_index(word, namespace, name));
    let pools = context.garm.pools_of(kind, &actual.id);
    let mut names: Vec<String> = pools
        .iter()
        .map(|pool| {
            let object = objects
                .iter()
                .find(|p| p.status.as_ref().is_some_and(|s| s.id == pool.id));
            object.map_or_else(
                || format!("pool {} in GARM", pool.id),
                |p| format!("Pool {namespace}/{}", p.name_any()),
            )
        })
        .collect();
    names.sort();
    names
}

/// What a Pool's reference to a scope leads to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Kind of the entity.
    pub kind: EntityKind,
    /// Its id in GARM.
    pub id: String,
    /// Whether the scope object is terminating: its pools are kept, but none is made.
    pub is_terminating: bool,
}

/// Follows a Pool's reference to its scope: the object has to exist, to own its entity, and that entity has to be in GARM.
pub fn target(
    context: &Context,
    namespace: &str,
    reference: &TypedRef,
) -> Result<Reference<Target>, FieldError> {
    let key = ObjectKey::new(namespace, &reference.name);
    let hubs = &context.hubs;
    Ok(match kind_referred_to("spec.githubScopeRef", reference)? {
        EntityKind::Repository => {
            follow::<Repository>(context, &key, hubs.repositories.valid(&key).as_deref())
        }
        EntityKind::Organization => {
            follow::<Organization>(context, &key, hubs.organizations.valid(&key).as_deref())
        }
        EntityKind::Enterprise => {
            follow::<Enterprise>(context, &key, hubs.enterprises.valid(&key).as_deref())
        }
    })
}

/// Says whether there is an object that a reference names.
pub fn is_there(context: &Context, namespace: &str, reference: &TypedRef) -> bool {
    let key = ObjectKey::new(namespace, &reference.name);
    let hubs = &context.hubs;
    match kind_referred_to("", reference) {
        Ok(EntityKind::Repository) => hubs.repositories.valid(&key).is_some(),
        Ok(EntityKind::Organization) => hubs.organizations.valid(&key).is_some(),
        Ok(EntityKind::Enterprise) => hubs.enterprises.valid(&key).is_some(),
        Err(_) => false,
    }
}

fn follow<K: ScopeObject>(
    context: &Context,
    key: &ObjectKey,
    object: Option<&K>,
) -> Reference<Target> {
    let Some(object) = object else {
        return Reference::Missing(missing(K::NAME, key));
    };
    let entity_key = entity_key(context, object);
    if let Claim::Conflict { owner } = scope_claim(context, object, entity_key.as_ref()) {
        return Reference::Missing(format!(
            "{} {key} does not own its entity in GARM: {} {owner} does",
            K::NAME,
            K::NAME
        ));
    }
    match by_id(context, object) {
        Some(entity) => Reference::Found(Target {
            kind: K::KIND,
            id: entity.id.clone(),
            is_terminating: meta::is_terminating(object.meta()),
        }),
        None => Reference::Missing(format!("{} {key} does not exist in GARM yet", K::NAME)),
    }
}
