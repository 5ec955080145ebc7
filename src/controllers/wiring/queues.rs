//! The queues of all controllers, and the ways in which keys get into them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::meta;
use crate::controllers::driver::Object;
use crate::domain::reference::reference_index;
use crate::runtime::ObjectKey;
use crate::runtime::hub::{Hub, HubEvent};
use crate::runtime::queue::{BackOff, Queue};

/// One queue per controller.
#[derive(Clone)]
pub struct Queues {
    /// GitHubEndpoints.
    pub endpoints: Arc<Queue>,
    /// GitHubCredentials.
    pub credentials: Arc<Queue>,
    /// Repositories.
    pub repositories: Arc<Queue>,
    /// Organizations.
    pub organizations: Arc<Queue>,
    /// Enterprises.
    pub enterprises: Arc<Queue>,
    /// Pools.
    pub pools: Arc<Queue>,
    /// Runners.
    pub runners: Arc<Queue>,
    /// GarmServerConfigs.
    pub server_configs: Arc<Queue>,
}

impl Queues {
    /// Makes empty queues with one back-off for all.
    pub fn new(back_off: BackOff) -> Self {
        let queue = || Queue::new(back_off);
        Self {
            endpoints: queue(),
            credentials: queue(),
            repositories: queue(),
            organizations: queue(),
            enterprises: queue(),
            pools: queue(),
            runners: queue(),
            server_configs: queue(),
        }
    }
}

/// Wakes the objects of another kind that refer to this one by namespace and name.
pub(super) fn wake_referrers<K: Object>(kind: &str, key: &ObjectKey, hub: &Hub<K>, queue: &Queue) {
    wake(
        queue,
        &hub.by(&reference_index(kind, &key.namespace, &key.name)),
    );
}

/// How a key is added: as noise, or as news that ends every back-off.
pub(super) type Add = fn(&Queue, ObjectKey);

/// Wakes an object by a change of its own, if it is one that counts. A change by the user does not wait for a back-off.
pub(super) fn wake_self(queue: &Queue, event: &HubEvent) {
    if event.gone {
        queue.forget(&event.key);
        queue.add(event.key.clone());
    } else if event.trigger {
        queue.add_fresh(event.key.clone());
    }
}

pub(super) fn wake<K: Object>(queue: &Queue, objects: &[Arc<K>]) {
    wake_with(Queue::add, queue, objects);
}

pub(super) fn wake_keys(add: Add, queue: &Queue, keys: &[ObjectKey]) {
    for key in keys {
        add(queue, key.clone());
    }
}

pub(super) fn wake_with<K: Object>(add: Add, queue: &Queue, objects: &[Arc<K>]) {
    for object in objects {
        add(queue, ObjectKey::of(object.meta()));
    }
}

/// Wakes all but the one that the news is about: what it wrote itself is no news to it.
pub(super) fn wake_others<K: Object>(queue: &Queue, objects: &[Arc<K>], but: &ObjectKey) {
    for object in objects {
        let key = ObjectKey::of(object.meta());
        if key != *but {
            queue.add(key);
        }
    }
}

/// An object's key and those of its rivals.
pub(super) fn with_rivals<K: Object>(key: &ObjectKey, rivals: &[Arc<K>]) -> BTreeSet<ObjectKey> {
    let rivals = rivals.iter().map(|rival| ObjectKey::of(rival.meta()));
    rivals.chain([key.clone()]).collect()
}

pub(super) fn wake_terminating<K: Object>(queue: &Queue, hub: &Hub<K>) {
    let mut waiting = hub.all();
    waiting.retain(|object| meta::is_terminating(object.meta()));
    wake(queue, &waiting);
}

pub(super) fn wake_if_terminating<K: Object>(queue: &Queue, hub: &Hub<K>, key: ObjectKey) {
    let object = hub.get(&key);
    if object.is_some_and(|object| meta::is_terminating(object.meta())) {
        queue.add(key);
    }
}
