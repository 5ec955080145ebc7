//! The one way in which a status is written: what differs, once, and only if it differs.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::{ObjectMeta, Request},
};
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};

/// How long a write is remembered for a cache that has not seen it yet. Watches lag by milliseconds; a longer lag
/// costs one more write of the same.
const REMEMBERED: Duration = Duration::from_secs(5);

/// What became of a status.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// Nothing was sent: the stored status is as desired, or as near to it as the installed CRD allows.
    Unchanged,
    /// The differing fields were sent and stored; these are the object's metadata since.
    Sent(Box<ObjectMeta>),
    /// The object no longer exists.
    Gone,
}

/// Writes the status of objects of one kind; one value per controller, as it remembers what it wrote.
#[derive(Debug, Default)]
pub struct StatusWriter {
    memory: Mutex<Memory>,
}

/// Status as JSON: the top-level fields.
type Fields = Map<String, Value>;

#[derive(Debug, Default)]
struct Memory {
    /// Stored status after our last write, by uid, for a cache that still shows the version before.
    recent: HashMap<String, Recent>,
    /// The same uids by age.
    order: VecDeque<(Instant, String)>,
    /// Fields that an older CRD cut or changed, by uid, as we sent them.
    refused: HashMap<String, Fields>,
}

#[derive(Debug)]
struct Recent {
    at: Instant,
    /// Version on which the write was decided.
    base: Option<String>,
    stored: Fields,
}

impl StatusWriter {
    /// Makes a writer that remembers nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Brings the status of the object with metadata `meta` from `cached` to `desired`, as a merge patch of the
    /// top-level fields that differ; a field that `desired` no longer has is removed. Conditions that differ in
    /// nothing but their time count as equal.
    ///
    /// `meta` is the newest known: after a patch of metadata in the same pass, the one that patch answered.
    /// A patch that changes `id` carries its resource version: the API server answers 409 when somebody else
    /// wrote meanwhile, and the caller decides again. What the API server did not keep is not sent again.
    pub async fn write<K, S>(
        &self,
        api: &Api<K>,
        meta: &ObjectMeta,
        cached: Option<&S>,
        desired: &S,
    ) -> kube::Result<Written>
    where
        K: Resource + Clone,
        S: Serialize,
    {
        let desired = fields(desired)?;
        let uid = meta.uid.clone().unwrap_or_default();
        let cached = match cached {
            Some(cached) => Some(fields(cached)?),
            None => None,
        };
        let (base, refused) = {
            let mut memory = self.lock();
            memory.expire(Instant::now());
            let recent = memory
                .recent
                .get(&uid)
                .filter(|recent| recent.base == meta.resource_version);
            let base = recent.map(|recent| recent.stored.clone()).or(cached);
            (base, memory.refused.get(&uid).cloned().unwrap_or_default())
        };
        let Some(patch) = difference(base.as_ref(), &desired, &refused) else {
            return Ok(Written::Unchanged);
        };
        let name = meta.name.as_deref().unwrap_or_default();
        let version = meta.resource_version.as_deref();
        let answer = match send(api, name, version, &patch).await {
            // The stored status lacks fields that the schema demands, as one from before an upgrade of the CRD may.
            Err(kube::Error::Api(status)) if status.code == 422 && patch.len() < desired.len() => {
                let mut whole = desired.clone();
                whole.extend(
                    patch
                        .iter()
                        .filter(|(_, value)| value.is_null())
                        .map(|(name, _)| (name.clone(), Value::Null)),
                );
                send(api, name, version, &whole).await
            }
            answer => answer,
        };
        let answer = match answer {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Written::Gone),
            answer => answer?,
        };
        self.remember(uid, meta, &desired, &patch, &answer);
        let stored = ObjectMeta::deserialize(&answer["metadata"]);
        stored
            .map(|stored| Written::Sent(Box::new(stored)))
            .map_err(kube::Error::SerdeError)
    }

    /// Drops what is remembered of the object with this uid: it is gone.
    pub fn forget(&self, uid: &str) {
        let mut memory = self.lock();
        memory.recent.remove(uid);
        memory.refused.remove(uid);
    }

    fn remember(
        &self,
        uid: String,
        meta: &ObjectMeta,
        desired: &Fields,
        patch: &Fields,
        answer: &Value,
    ) {
        let stored = answer["status"].as_object().cloned().unwrap_or_default();
        let mut memory = self.lock();
        let refused = memory.refused.entry(uid.clone()).or_default();
        refused.retain(|name, value| desired.get(name) == Some(value));
        refused.extend(not_kept(patch, &stored));
        if refused.is_empty() {
            memory.refused.remove(&uid);
        } else {
            let fields = refused.keys().cloned().collect::<Vec<_>>().join(", ");
            let name = meta.name.as_deref().unwrap_or_default();
            tracing::debug!(
                object.name = name,
                fields,
                "the installed CRD does not keep all status fields"
            );
        }
        let at = Instant::now();
        memory.order.push_back((at, uid.clone()));
        let base = meta.resource_version.clone();
        memory.recent.insert(uid, Recent { at, base, stored });
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn expire(&mut self, now: Instant) {
        while let Some((at, uid)) = self.order.front() {
            if now.saturating_duration_since(*at) < REMEMBERED {
                return;
            }
            // A later write of the same object has its own place in the order.
            if self.recent.get(uid).is_some_and(|recent| recent.at == *at) {
                self.recent.remove(uid);
            }
            self.order.pop_front();
        }
    }
}

async fn send<K>(
    api: &Api<K>,
    name: &str,
    version: Option<&str>,
    patch: &Fields,
) -> kube::Result<Value>
where
    K: Resource + Clone,
{
    let mut body = json!({ "status": patch });
    if patch.contains_key("id") {
        body["metadata"] = json!({ "resourceVersion": version });
    }
    // The answer is read as plain JSON: through the type of the kind, a cut field would look like its default.
    let request = Request::new(api.resource_url())
        .patch_subresource(
            "status",
            name,
            &PatchParams::default(),
            &Patch::Merge(&body),
        )
        .map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request(request).await
}

/// Turns a status into its top-level fields; those without a value are absent.
fn fields(status: &impl Serialize) -> kube::Result<Fields> {
    match serde_json::to_value(status).map_err(kube::Error::SerdeError)? {
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Ok(fields)
        }
        _ => Ok(Fields::new()),
    }
}

/// Gives the merge patch from `stored` to `desired`, leaving out what `refused` shows to be in vain; `None` when
/// there is nothing to send.
fn difference(stored: Option<&Fields>, desired: &Fields, refused: &Fields) -> Option<Fields> {
    let empty = Fields::new();
    let first = stored.is_none();
    let stored = stored.unwrap_or(&empty);
    let mut patch: Fields = desired
        .iter()
        .filter(|&(name, value)| refused.get(name) != Some(value))
        .filter(|&(name, value)| {
            !stored
                .get(name)
                .is_some_and(|stored| same(name, stored, value))
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let gone = stored.keys().filter(|&name| !desired.contains_key(name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    // A first status carries all fields: the schema demands some of them.
    if first && !patch.is_empty() {
        patch.clone_from(desired);
    }
    (!patch.is_empty()).then_some(patch)
}

/// Compares one field. Conditions are equal when they differ in the time of their last transition alone: that time
/// only moves together with the status, so that a differing one was computed from an older cache.
fn same(name: &str, stored: &Value, desired: &Value) -> bool {
    if name != "conditions" {
        return stored == desired;
    }
    let (Some(stored), Some(desired)) = (stored.as_array(), desired.as_array()) else {
        return stored == desired;
    };
    let timeless = |condition: &Value| {
        let mut condition = condition.clone();
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastTransitionTime");
        }
        condition
    };
    stored.len() == desired.len()
        && stored
            .iter()
            .zip(desired)
            .all(|(stored, desired)| timeless(stored) == timeless(desired))
}

/// Lists the fields of `patch` that the answer shows otherwise than they were sent.
fn not_kept(patch: &Fields, stored: &Fields) -> Fields {
    patch
        .iter()
        .filter(|&(name, value)| !value.is_null() && stored.get(name) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
