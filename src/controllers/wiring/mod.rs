//! Who wakes whom: turns changes of objects and of GARM into keys of queues. This is the only place that knows it.
//!
//! An object wakes itself by its generation, finalizers, deletion and our annotations; it wakes those that refer to it, those that it refers
//! to while they wait to be deleted, and its rivals of the same name. What is indexed is found without a scan.

mod index;
mod pool_ids;
mod queues;
mod twins;

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

pub use index::{
    index_credential, index_endpoint, index_image, index_pool, index_runner, index_scope,
};
use pool_ids::{KnownIds, PoolIds};
pub use queues::Queues;
use queues::{
    Add, wake, wake_if_terminating, wake_keys, wake_others, wake_referrers, wake_self,
    wake_terminating, wake_with, with_rivals,
};
use twins::Twins;

use crate::api::meta;
use crate::api::v1beta1::{Enterprise, Organization, Pool, Repository};
use crate::controllers::Context;
use crate::controllers::runner::{Names, instance_index, instance_name};
use crate::controllers::scope::{ScopeObject, full_name};
use crate::domain::pool::adoption::adopt_index;
use crate::domain::reference::{id_index, name_index, reference_index};
use crate::domain::scope::kind_of_reference;
use crate::garm::wire::EntityKind;
use crate::garm::{Changed, Collection};
use crate::runtime::ObjectKey;
use crate::runtime::hub::HubEvent;
use crate::runtime::queue::Queue;

/// Turns changes into keys until cancelled.
pub struct Wiring {
    context: Arc<Context>,
    queues: Queues,
    names: Arc<Names>,
    /// What Pools stood for when they were last seen: a new id makes its instances somebody's.
    pool_ids: KnownIds,
    twins: Twins,
}

impl Wiring {
    /// Makes the wiring; `names` is shared with the runner controller.
    pub fn new(context: Arc<Context>, queues: Queues, names: Arc<Names>) -> Self {
        Self {
            context,
            queues,
            names,
            pool_ids: KnownIds::default(),
            twins: Twins::default(),
        }
    }

    /// Follows every watch and the mirror.
    pub async fn run(&self, token: CancellationToken) {
        let hubs = &self.context.hubs;
        // Before the stores are gone through, so that no change falls between.
        let changes = self.context.garm.subscribe();
        futures::join!(
            hubs.endpoints.follow(&token, |event| self.endpoint(&event)),
            hubs.credentials
                .follow(&token, |event| self.credential(&event)),
            hubs.repositories.follow(&token, |event| self
                .scope::<Repository>(&self.queues.repositories, &event)),
            hubs.organizations.follow(&token, |event| self
                .scope::<Organization>(&self.queues.organizations, &event)),
            hubs.enterprises.follow(&token, |event| self
                .scope::<Enterprise>(&self.queues.enterprises, &event)),
            hubs.images.follow(&token, |event| self.image(&event)),
            hubs.pools.follow(&token, |event| self.pool(&event)),
            hubs.runners
                .follow(&token, |event| wake_self(&self.queues.runners, &event)),
            hubs.server_configs
                .follow(&token, |event| self.server_config(&event)),
            hubs.secrets.follow(&token, |event| self.secret(&event)),
            self.mirror(changes, &token),
        );
    }

    /// Whoever owns a name in GARM now, all that refer to an object of that name may go on, or have to wait.
    fn endpoint(&self, event: &HubEvent) {
        wake_self(&self.queues.endpoints, event);
        if !event.trigger {
            return;
        }
        let hubs = &self.context.hubs;
        let rivals = hubs.endpoints.by(&name_index(&event.key.name));
        wake_others(&self.queues.endpoints, &rivals, &event.key);
        for key in with_rivals(&event.key, &rivals) {
            wake_referrers(
                "endpoint",
                &key,
                &hubs.credentials,
                &self.queues.credentials,
            );
        }
    }

    fn credential(&self, event: &HubEvent) {
        wake_self(&self.queues.credentials, event);
        if !event.trigger {
            return;
        }
        let hubs = &self.context.hubs;
        let rivals = hubs.credentials.by(&name_index(&event.key.name));
        wake_others(&self.queues.credentials, &rivals, &event.key);
        for key in with_rivals(&event.key, &rivals) {
            self.wake_scopes_with("credential", &key, Queue::add);
        }
        if let Some(object) = hubs.credentials.valid(&event.key) {
            self.queues.endpoints.add(ObjectKey::new(
                &event.key.namespace,
                &object.spec.endpoint_ref.name,
            ));
        }
    }

    /// A status that changes counts too: it brings the id that Pools wait for.
    fn scope<K: ScopeObject>(&self, queue: &Queue, event: &HubEvent) {
        wake_self(queue, event);
        let hubs = &self.context.hubs;
        wake_referrers(K::NAME, &event.key, &hubs.pools, &self.queues.pools);
        if !event.trigger {
            return;
        }
        let hub = K::hub(hubs);
        if event.gone {
            // Its rivals cannot be found by an object that is not there any more.
            wake(queue, &hub.all());
        }
        if let Some(object) = hub.valid(&event.key) {
            let rivals = hub.by(&name_index(&full_name(&*object)));
            wake_others(queue, &rivals, &event.key);
            self.queues.credentials.add(ObjectKey::new(
                &event.key.namespace,
                &object.view().credentials.name,
            ));
        }
    }

    fn image(&self, event: &HubEvent) {
        let add: Add = if event.trigger {
            Queue::add_fresh
        } else {
            Queue::add
        };
        let hubs = &self.context.hubs;
        let users = reference_index("image", &event.key.namespace, &event.key.name);
        wake_with(add, &self.queues.pools, &hubs.pools.by(&users));
        wake(&self.queues.pools, &self.twins.of_image(hubs, event));
    }

    fn pool(&self, event: &HubEvent) {
        wake_self(&self.queues.pools, event);
        let hubs = &self.context.hubs;
        wake(&self.queues.pools, &self.twins.of_pool(hubs, event));
        let object = hubs.pools.valid(&event.key);
        let ids = object.as_deref().map(PoolIds::of).unwrap_or_default();
        let before = self.pool_ids.note(&event.key, &ids);
        if event.trigger {
            // A Runner that waits to be deleted waits no longer when its Pool goes, whatever GARM has of it.
            let index = reference_index("pool", &event.key.namespace, &event.key.name);
            let mut waiting = hubs.runners.by(&index);
            waiting.retain(|runner| meta::is_terminating(&runner.metadata));
            wake(&self.queues.runners, &waiting);
        }
        // The store is ahead of its events: one that tells of nothing may be the first to find the Pool gone.
        if event.trigger || before != ids {
            self.wake_adopters(&event.key, [&before, &ids]);
        }
        let Some(object) = &object else {
            return;
        };
        if let Some(id) = &ids.own
            && (event.trigger || ids.own != before.own)
        {
            let rivals = hubs.pools.by(&id_index(id));
            wake_others(&self.queues.pools, &rivals, &event.key);
            self.instances_of(id);
        }
        if event.trigger {
            self.wake_scope_of(object);
        }
    }

    /// Wakes the Pools that ask for a pool that this one has, asks for, or did: it may be theirs now.
    fn wake_adopters(&self, key: &ObjectKey, ids: [&PoolIds; 2]) {
        let concerned = ids.into_iter().flat_map(|ids| [&ids.own, &ids.wanted]);
        let concerned: BTreeSet<&String> = concerned.flatten().collect();
        for id in concerned {
            let adopters = self.context.hubs.pools.by(&adopt_index(id));
            wake_others(&self.queues.pools, &adopters, key);
        }
    }

    fn server_config(&self, event: &HubEvent) {
        wake_self(&self.queues.server_configs, event);
        if event.trigger {
            let all = self.context.hubs.server_configs.all();
            wake_others(&self.queues.server_configs, &all, &event.key);
        }
    }

    /// A Secret wakes its referrers whatever changed in it: they compare what they last sent. It is as much the user's word as a spec is, so
    /// it does not wait for a back-off either.
    fn secret(&self, event: &HubEvent) {
        let hubs = &self.context.hubs;
        if event.gone {
            self.context.secrets.forget(&event.key);
        }
        let users = reference_index("secret", &event.key.namespace, &event.key.name);
        let add: Add = Queue::add_fresh;
        wake_with(add, &self.queues.endpoints, &hubs.endpoints.by(&users));
        wake_with(add, &self.queues.credentials, &hubs.credentials.by(&users));
        self.wake_scopes_with("secret", &event.key, add);
    }

    /// Follows the mirror. Falling behind wakes everything, which reads the mirror as it is now.
    async fn mirror(&self, mut changes: Receiver<Changed>, token: &CancellationToken) {
        loop {
            let change = tokio::select! {
                () = token.cancelled() => return,
                change = changes.recv() => change,
            };
            match change {
                Ok(change) => self.changed(&change),
                Err(RecvError::Lagged(_)) => {
                    changes = self.context.garm.subscribe();
                    self.wake_all(Queue::add);
                    self.unmatched_instances();
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn changed(&self, change: &Changed) {
        let hubs = &self.context.hubs;
        match change {
            // While a list was missing nothing could be decided.
            Changed::Availability | Changed::Listed => self.wake_all(Queue::add_fresh),
            Changed::Controller => wake(&self.queues.server_configs, &hubs.server_configs.all()),
            Changed::Endpoint(name) => {
                let objects = hubs.endpoints.by(&name_index(name));
                wake(&self.queues.endpoints, &objects);
                for endpoint in objects {
                    let key = ObjectKey::of(&endpoint.metadata);
                    wake_referrers(
                        "endpoint",
                        &key,
                        &hubs.credentials,
                        &self.queues.credentials,
                    );
                }
            }
            Changed::Credential(id) => self.garm_credential(*id),
            Changed::Entity(kind, id) => self.entity(*kind, id),
            Changed::Pool(id) => self.garm_pool(id),
            Changed::Instance { name, pool_id } => self.instance(name, pool_id),
            // What a list changed was told one by one. Only what waits for the proof that an instance is gone waits for the list itself.
            Changed::Resynced(Collection::Instances) => self.unmatched_instances(),
            Changed::Resynced(_) => {}
        }
    }

    /// Credentials, or who uses them, changed in GARM.
    fn garm_credential(&self, id: i64) {
        let hubs = &self.context.hubs;
        wake_terminating(&self.queues.endpoints, &hubs.endpoints);
        let Some(credential) = self.context.garm.credential(id) else {
            // Nothing tells any more whose they were.
            wake(&self.queues.credentials, &hubs.credentials.all());
            self.wake_scopes(Queue::add);
            return;
        };
        let objects = hubs.credentials.by(&name_index(&credential.name));
        wake(&self.queues.credentials, &objects);
        for object in objects {
            let key = ObjectKey::of(&object.metadata);
            self.wake_scopes_with("credential", &key, Queue::add);
        }
    }

    fn entity(&self, kind: EntityKind, id: &str) {
        match kind {
            EntityKind::Repository => self.wake_entity::<Repository>(&self.queues.repositories, id),
            EntityKind::Organization => {
                self.wake_entity::<Organization>(&self.queues.organizations, id);
            }
            EntityKind::Enterprise => self.wake_entity::<Enterprise>(&self.queues.enterprises, id),
        }
        // Who uses which credentials is told apart; but one that waits to be deleted may have waited for this.
        wake_terminating(&self.queues.credentials, &self.context.hubs.credentials);
    }

    /// Wakes the objects that stand for an entity, or that would take it by its name, and the Pools in them.
    fn wake_entity<K: ScopeObject>(&self, queue: &Queue, id: &str) {
        let hubs = &self.context.hubs;
        let hub = K::hub(hubs);
        let mut objects = hub.by(&id_index(id));
        if let Some(entity) = self.context.garm.entity(K::KIND, id) {
            let name = format!("{}/{}", entity.owner, entity.name);
            objects.extend(hub.by(&name_index(&name)));
        }
        for object in &objects {
            let key = ObjectKey::of(object.meta());
            wake_referrers(K::NAME, &key, &hubs.pools, &self.queues.pools);
        }
        wake(queue, &objects);
    }

    fn garm_pool(&self, id: &str) {
        let hubs = &self.context.hubs;
        let claimants = hubs.pools.by(&id_index(id));
        wake(&self.queues.pools, &claimants);
        wake(&self.queues.pools, &hubs.pools.by(&adopt_index(id)));
        for pool in &claimants {
            self.wake_scope_of(pool);
        }
        if claimants.is_empty() {
            // A pool that no object claims may be the last one that keeps a terminating scope.
            wake_terminating(&self.queues.repositories, &hubs.repositories);
            wake_terminating(&self.queues.organizations, &hubs.organizations);
            wake_terminating(&self.queues.enterprises, &hubs.enterprises);
        }
    }

    fn instance(&self, name: &str, pool_id: &str) {
        let hubs = &self.context.hubs;
        let pools = hubs.pools.by(&id_index(pool_id));
        wake(&self.queues.pools, &pools);
        self.runner_of(name, &pools);
    }

    /// Wakes the object of an instance, or what makes it.
    fn runner_of(&self, name: &str, pools: &[Arc<Pool>]) {
        let known = self.context.hubs.runners.keys_by(&instance_index(name));
        wake_keys(Queue::add, &self.queues.runners, &known);
        if !known.is_empty() || !self.context.runner_reconciliation {
            return;
        }
        for pool in pools {
            let namespace = pool.namespace().unwrap_or_default();
            self.queues
                .runners
                .add(self.names.key(&self.context, &namespace, name));
        }
    }

    /// Wakes the runners of one pool's instances.
    fn instances_of(&self, pool_id: &str) {
        let pools = self.context.hubs.pools.by(&id_index(pool_id));
        for instance in self.context.garm.instances_of(pool_id) {
            self.runner_of(&instance.name, &pools);
        }
    }

    /// Wakes the Runners whose instance GARM does not show, and what makes those of instances that have none. All others have been told of
    /// their changes.
    fn unmatched_instances(&self) {
        let hubs = &self.context.hubs;
        let garm = &self.context.garm;
        for key in hubs.runners.keys() {
            let runner = hubs.runners.valid(&key);
            let name = runner.as_ref().and_then(|runner| instance_name(runner));
            if name.is_none_or(|name| garm.instance(name).is_none()) {
                self.queues.runners.add(key);
            }
        }
        for pool in hubs.pools.all() {
            let id = pool.status.as_ref().map_or("", |status| status.id.as_str());
            for instance in garm.instances_of(id) {
                let index = instance_index(&instance.name);
                if hubs.runners.keys_by(&index).is_empty() {
                    self.runner_of(&instance.name, std::slice::from_ref(&pool));
                }
            }
        }
    }

    /// Wakes the scope of a pool where that waits to be deleted; otherwise its pools are nothing to it.
    fn wake_scope_of(&self, pool: &Pool) {
        let scope = &pool.spec.github_scope_ref;
        let key = ObjectKey::new(pool.namespace().unwrap_or_default(), &scope.name);
        let hubs = &self.context.hubs;
        match kind_of_reference(&scope.kind) {
            Some(EntityKind::Repository) => {
                wake_if_terminating(&self.queues.repositories, &hubs.repositories, key);
            }
            Some(EntityKind::Organization) => {
                wake_if_terminating(&self.queues.organizations, &hubs.organizations, key);
            }
            Some(EntityKind::Enterprise) => {
                wake_if_terminating(&self.queues.enterprises, &hubs.enterprises, key);
            }
            None => {}
        }
    }

    /// Wakes the scopes that refer to an object of another kind.
    fn wake_scopes_with(&self, kind: &str, key: &ObjectKey, add: Add) {
        let hubs = &self.context.hubs;
        let index = reference_index(kind, &key.namespace, &key.name);
        wake_with(
            add,
            &self.queues.repositories,
            &hubs.repositories.by(&index),
        );
        wake_with(
            add,
            &self.queues.organizations,
            &hubs.organizations.by(&index),
        );
        wake_with(add, &self.queues.enterprises, &hubs.enterprises.by(&index));
    }

    fn wake_scopes(&self, add: Add) {
        let hubs = &self.context.hubs;
        wake_with(add, &self.queues.repositories, &hubs.repositories.all());
        wake_with(add, &self.queues.organizations, &hubs.organizations.all());
        wake_with(add, &self.queues.enterprises, &hubs.enterprises.all());
    }

    fn wake_all(&self, add: Add) {
        let hubs = &self.context.hubs;
        wake_with(add, &self.queues.server_configs, &hubs.server_configs.all());
        wake_with(add, &self.queues.endpoints, &hubs.endpoints.all());
        wake_with(add, &self.queues.credentials, &hubs.credentials.all());
        self.wake_scopes(add);
        wake_with(add, &self.queues.pools, &hubs.pools.all());
        wake_keys(add, &self.queues.runners, &hubs.runners.keys());
    }
}

#[cfg(test)]
mod tests;
