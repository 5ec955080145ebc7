//! Who wakes whom: turns changes of objects and of GARM into keys of queues. This is the only place that knows it.
//!
//! An object wakes itself by its generation, finalizers, deletion and our annotations; it wakes those that refer to it, those that it refers
//! to while they wait to be deleted, and its rivals of the same name. What is indexed is found without a scan.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::api::v1beta1::{
    Enterprise, GitHubCredential, GitHubEndpoint, Organization, Pool, Repository, Runner,
};
use crate::controllers::driver::Object;
use crate::controllers::references::{id_index, name_index, reference_index, uid_index};
use crate::controllers::runner::{Names, instance_index};
use crate::controllers::scope::{ScopeObject, full_name};
use crate::controllers::{Context, Hubs};
use crate::domain::scope::{Scope, kind_of_reference};
use crate::garm::wire::EntityKind;
use crate::garm::{Changed, Collection};
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

/// Index values of a Pool.
pub fn index_pool(object: &Pool) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let scope = &object.spec.github_scope_ref;
    let id = object
        .status
        .as_ref()
        .map(|status| status.id.as_str())
        .filter(|id| !id.is_empty());
    [
        uid_index(&object.uid().unwrap_or_default()),
        reference_index("image", &namespace, &object.spec.image_name),
        reference_index(&scope.kind, &namespace, &scope.name),
    ]
    .into_iter()
    .chain(id.map(id_index))
    .collect()
}

/// Index values of a Runner.
pub fn index_runner(object: &Runner) -> Vec<String> {
    let namespace = object.namespace().unwrap_or_default();
    let name = object
        .status
        .as_ref()
        .and_then(|status| status.name.as_deref());
    let owners = object.owner_references().iter();
    let pool = owners
        .filter(|owner| owner.kind == Pool::kind(&()))
        .map(|owner| reference_index("pool", &namespace, &owner.name));
    name.into_iter()
        .flat_map(|name| [instance_index(&namespace, name), instance_name_index(name)])
        .chain(pool)
        .collect()
}

/// Index value under which Runners of all namespaces are found by the name of their instance.
fn instance_name_index(instance: &str) -> String {
    format!("instance-name:{instance}")
}

/// Turns changes into keys until cancelled.
pub struct Wiring {
    context: Arc<Context>,
    queues: Queues,
    names: Arc<Names>,
}

impl Wiring {
    /// Makes the wiring; `names` is shared with the runner controller.
    pub fn new(context: Arc<Context>, queues: Queues, names: Arc<Names>) -> Self {
        Self {
            context,
            queues,
            names,
        }
    }

    /// Follows every watch and the mirror.
    pub async fn run(&self, token: CancellationToken) {
        let hubs = &self.context.hubs;
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
            hubs.images.follow(&token, |event| wake_referrers(
                "image",
                &event,
                &hubs.pools,
                &self.queues.pools
            )),
            hubs.pools.follow(&token, |event| self.pool(&event)),
            hubs.runners
                .follow(&token, |event| wake_self(&self.queues.runners, &event)),
            hubs.server_configs
                .follow(&token, |event| self.server_config(&event)),
            hubs.secrets.follow(&token, |event| self.secret(&event)),
            self.mirror(&token),
        );
    }

    fn endpoint(&self, event: &HubEvent) {
        wake_self(&self.queues.endpoints, event);
        let hubs = &self.context.hubs;
        wake(
            &self.queues.endpoints,
            &hubs.endpoints.by(&name_index(&event.key.name)),
        );
        wake_referrers(
            "endpoint",
            event,
            &hubs.credentials,
            &self.queues.credentials,
        );
    }

    fn credential(&self, event: &HubEvent) {
        wake_self(&self.queues.credentials, event);
        let hubs = &self.context.hubs;
        wake(
            &self.queues.credentials,
            &hubs.credentials.by(&name_index(&event.key.name)),
        );
        wake_referrers(
            "credential",
            event,
            &hubs.repositories,
            &self.queues.repositories,
        );
        wake_referrers(
            "credential",
            event,
            &hubs.organizations,
            &self.queues.organizations,
        );
        wake_referrers(
            "credential",
            event,
            &hubs.enterprises,
            &self.queues.enterprises,
        );
        if let Some(object) = hubs.credentials.valid(&event.key) {
            self.queues.endpoints.add(ObjectKey::new(
                &event.key.namespace,
                &object.spec.endpoint_ref.name,
            ));
        }
    }

    fn scope<K: ScopeObject>(&self, queue: &Queue, event: &HubEvent) {
        wake_self(queue, event);
        let hubs = &self.context.hubs;
        let hub = K::hub(hubs);
        if let Some(object) = hub.valid(&event.key) {
            wake(queue, &hub.by(&name_index(&full_name(&*object))));
            self.queues.credentials.add(ObjectKey::new(
                &event.key.namespace,
                &object.view().credentials.name,
            ));
        }
        if event.gone {
            // Its rivals cannot be found by an object that is not there any more.
            wake(queue, &hub.all());
        }
        wake_referrers(K::NAME, event, &hubs.pools, &self.queues.pools);
    }

    fn pool(&self, event: &HubEvent) {
        wake_self(&self.queues.pools, event);
        let hubs = &self.context.hubs;
        if event.gone || event.trigger {
            // A Runner that waits to be deleted waits no longer when its Pool goes, whatever GARM has of it.
            wake_referrers("pool", event, &hubs.runners, &self.queues.runners);
        }
        let Some(object) = hubs.pools.valid(&event.key) else {
            return;
        };
        let scope = ObjectKey::new(&event.key.namespace, &object.spec.github_scope_ref.name);
        if let Some(kind) = kind_of_reference(&object.spec.github_scope_ref.kind) {
            self.scope_queue(kind).add(scope);
        }
        if let Some(status) = object
            .status
            .as_ref()
            .filter(|status| !status.id.is_empty())
        {
            wake(&self.queues.pools, &hubs.pools.by(&id_index(&status.id)));
            if event.trigger || hubs.runners.valid_in(&event.key.namespace).is_empty() {
                self.instances_of(&status.id);
            }
        }
    }

    fn server_config(&self, event: &HubEvent) {
        wake_self(&self.queues.server_configs, event);
        if event.gone {
            wake(
                &self.queues.server_configs,
                &self.context.hubs.server_configs.all(),
            );
        }
    }

    /// A Secret wakes its referrers whatever changed in it: they compare what they last sent.
    fn secret(&self, event: &HubEvent) {
        let hubs = &self.context.hubs;
        wake_referrers("secret", event, &hubs.endpoints, &self.queues.endpoints);
        wake_referrers("secret", event, &hubs.credentials, &self.queues.credentials);
        wake_referrers(
            "secret",
            event,
            &hubs.repositories,
            &self.queues.repositories,
        );
        wake_referrers(
            "secret",
            event,
            &hubs.organizations,
            &self.queues.organizations,
        );
        wake_referrers("secret", event, &hubs.enterprises, &self.queues.enterprises);
    }

    /// Follows the mirror. Falling behind wakes everything, which reads the mirror as it is now.
    async fn mirror(&self, token: &CancellationToken) {
        let mut changes = self.context.garm.subscribe();
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
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn changed(&self, change: &Changed) {
        let Hubs {
            endpoints,
            credentials,
            pools,
            ..
        } = &self.context.hubs;
        match change {
            Changed::Availability => self.wake_all(Queue::add_fresh),
            Changed::Controller => wake(
                &self.queues.server_configs,
                &self.context.hubs.server_configs.all(),
            ),
            Changed::Endpoint(name) => {
                wake(&self.queues.endpoints, &endpoints.by(&name_index(name)));
                for endpoint in endpoints.by(&name_index(name)) {
                    let namespace = endpoint.namespace().unwrap_or_default();
                    let users = credentials.by(&reference_index(
                        "endpoint",
                        &namespace,
                        &endpoint.name_any(),
                    ));
                    wake(&self.queues.credentials, &users);
                }
            }
            Changed::Credential(_) => {
                wake(&self.queues.credentials, &credentials.all());
                wake(&self.queues.endpoints, &endpoints.all());
                self.wake_scopes(Queue::add);
            }
            Changed::Entity(kind, id) => self.entity(*kind, id),
            Changed::Pool(id) => {
                let claimants = pools.by(&id_index(id));
                wake(&self.queues.pools, &claimants);
                for pool in &claimants {
                    self.wake_scope_of(pool);
                }
                if claimants.is_empty() {
                    self.wake_scopes_that_wait();
                }
            }
            Changed::Instance { name, pool_id } => self.instance(name, pool_id),
            Changed::Resynced(collection) => self.resynced(*collection),
        }
    }

    fn entity(&self, kind: EntityKind, id: &str) {
        let hubs = &self.context.hubs;
        match kind {
            EntityKind::Repository => wake_entity(
                &self.queues,
                &self.queues.repositories,
                hubs,
                &hubs.repositories,
                id,
            ),
            EntityKind::Organization => wake_entity(
                &self.queues,
                &self.queues.organizations,
                hubs,
                &hubs.organizations,
                id,
            ),
            EntityKind::Enterprise => wake_entity(
                &self.queues,
                &self.queues.enterprises,
                hubs,
                &hubs.enterprises,
                id,
            ),
        }
        wake(&self.queues.credentials, &hubs.credentials.all());
    }

    fn instance(&self, name: &str, pool_id: &str) {
        let hubs = &self.context.hubs;
        let pools = hubs.pools.by(&id_index(pool_id));
        wake(&self.queues.pools, &pools);
        let mut known = false;
        for runner in hubs.runners.by(&instance_name_index(name)) {
            known = true;
            self.queues.runners.add(ObjectKey::of(&runner.metadata));
        }
        if !known {
            for pool in &pools {
                let namespace = pool.namespace().unwrap_or_default();
                self.queues
                    .runners
                    .add(self.names.key(&self.context, &namespace, name));
            }
        }
    }

    /// Wakes the runners of one pool's instances.
    fn instances_of(&self, pool_id: &str) {
        for instance in self.context.garm.instances_of(pool_id) {
            self.instance(&instance.name, pool_id);
        }
    }

    fn resynced(&self, collection: Collection) {
        if collection == Collection::Instances {
            wake(&self.queues.runners, &self.context.hubs.runners.all());
            for pool in self.context.hubs.pools.all() {
                if let Some(status) = &pool.status {
                    self.instances_of(&status.id);
                }
            }
            return;
        }
        self.wake_all(Queue::add);
    }

    fn scope_queue(&self, kind: EntityKind) -> &Queue {
        match kind {
            EntityKind::Repository => &self.queues.repositories,
            EntityKind::Organization => &self.queues.organizations,
            EntityKind::Enterprise => &self.queues.enterprises,
        }
    }

    fn wake_scope_of(&self, pool: &Pool) {
        let scope = &pool.spec.github_scope_ref;
        if let Some(kind) = kind_of_reference(&scope.kind) {
            let namespace = pool.namespace().unwrap_or_default();
            self.scope_queue(kind)
                .add(ObjectKey::new(namespace, &scope.name));
        }
    }

    /// A pool that no object claims may be the last one that keeps a terminating scope.
    fn wake_scopes_that_wait(&self) {
        let hubs = &self.context.hubs;
        wake_terminating(&self.queues.repositories, &hubs.repositories);
        wake_terminating(&self.queues.organizations, &hubs.organizations);
        wake_terminating(&self.queues.enterprises, &hubs.enterprises);
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
        wake_with(add, &self.queues.runners, &hubs.runners.all());
    }
}

/// Wakes the objects of another kind that refer to this one by namespace and name.
fn wake_referrers<K: Object>(kind: &str, event: &HubEvent, hub: &Hub<K>, queue: &Queue) {
    wake(
        queue,
        &hub.by(&reference_index(
            kind,
            &event.key.namespace,
            &event.key.name,
        )),
    );
}

/// How a key is added: as noise, or as news that ends every back-off.
type Add = fn(&Queue, ObjectKey);

/// Wakes an object by a change of its own, if it is one that counts. A change by the user does not wait for a back-off.
fn wake_self(queue: &Queue, event: &HubEvent) {
    if event.gone {
        queue.forget(&event.key);
        queue.add(event.key.clone());
    } else if event.trigger {
        queue.add_fresh(event.key.clone());
    }
}

fn wake<K: Object>(queue: &Queue, objects: &[Arc<K>]) {
    wake_with(Queue::add, queue, objects);
}

fn wake_with<K: Object>(add: Add, queue: &Queue, objects: &[Arc<K>]) {
    for object in objects {
        add(queue, ObjectKey::of(object.meta()));
    }
}

fn wake_terminating<K: ScopeObject>(queue: &Queue, hub: &Hub<K>) {
    let mut waiting = hub.all();
    waiting.retain(|object| object.meta().deletion_timestamp.is_some());
    wake(queue, &waiting);
}

/// Wakes the objects that stand for an entity, and the Pools in it; all of the kind when none has its id yet.
fn wake_entity<K: ScopeObject>(
    queues: &Queues,
    queue: &Queue,
    hubs: &Hubs,
    hub: &Hub<K>,
    id: &str,
) {
    let mut objects = hub.by(&id_index(id));
    if objects.is_empty() {
        objects = hub.all();
    }
    for object in &objects {
        let key = ObjectKey::of(object.meta());
        let pools = hubs
            .pools
            .by(&reference_index(K::NAME, &key.namespace, &key.name));
        wake(&queues.pools, &pools);
    }
    wake(queue, &objects);
}
