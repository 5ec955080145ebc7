//! Which Runner object stands for which instance.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;

use crate::api::v1beta1::Runner;
use crate::controllers::Context;
use crate::domain::runner::{distinct_object_name, object_name};
use crate::runtime::ObjectKey;

/// Index value under which the Runners of all namespaces are found by the exact name of their instance.
pub fn instance_index(instance: &str) -> String {
    format!("instance:{instance}")
}

/// The name of the instance that an object stands for, once its status tells it.
pub fn instance_name(object: &Runner) -> Option<&str> {
    let name = object.status.as_ref()?.name.as_deref();
    name.filter(|name| !name.is_empty())
}

/// Remembers names that were given out; objects whose status tells the instance need no memory.
#[derive(Default)]
pub struct Names {
    given: Mutex<HashMap<ObjectKey, String>>,
}

impl Names {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, String>> {
        // A panic while the lock was held leaves a map that is still whole.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the key of the object for an instance: the one that has it in its status, else the plain name, else, where another instance has
    /// that, a distinct one.
    pub fn key(&self, context: &Context, namespace: &str, instance: &str) -> ObjectKey {
        let hub = &context.hubs.runners;
        let existing = hub.keys_by(&instance_index(instance)).into_iter();
        if let Some(key) = existing.into_iter().find(|key| key.namespace == namespace) {
            return key;
        }
        let plain = ObjectKey::new(namespace, object_name(instance));
        let mut given = self.lock();
        let taken_by_object = hub
            .valid(&plain)
            .and_then(|object| instance_name(&object).map(str::to_owned));
        let taken = taken_by_object
            .or_else(|| given.get(&plain).cloned())
            .is_some_and(|other| other != instance);
        let key = if taken {
            ObjectKey::new(namespace, distinct_object_name(instance))
        } else {
            plain
        };
        given
            .entry(key.clone())
            .or_insert_with(|| instance.to_owned());
        key
    }

    /// Gives the instance of a key: from the object's status, from memory, or by trying all instances against an object that an earlier
    /// process made and could not finish, or that the Go operator made under the lower-cased name.
    pub fn instance_of(&self, context: &Context, object: &Runner) -> Option<String> {
        if let Some(name) = instance_name(object) {
            return Some(name.to_owned());
        }
        let key = ObjectKey::of(&object.metadata);
        self.instance(&key).or_else(|| {
            let own = object.name_any();
            let all = context.garm.instances();
            let mut names = all.iter().map(|instance| &instance.name);
            names
                .find(|name| object_name(name) == own || distinct_object_name(name) == own)
                .cloned()
        })
    }

    /// Gives the instance that a key was given out for.
    pub fn instance(&self, key: &ObjectKey) -> Option<String> {
        self.lock().get(key).cloned()
    }

    /// Forgets a key whose instance and object are gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}
