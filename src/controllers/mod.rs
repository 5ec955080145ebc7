//! The reconcilers: one folder per kind, always the same five files — `mod` (the names), `observe`, `plan`, `apply`, `status`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::events::EventType;
use kube::{Api, Resource};

use crate::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository, Runner,
};
use crate::config::Timings;
use crate::domain::pushed::Hasher;
use crate::garm::Garm;
use crate::runtime::hub::{Hub, Watching};
use crate::runtime::recorder::Events;
use crate::runtime::secrets::SecretReader;
use crate::runtime::status::StatusWriter;

pub mod credential;
pub mod driver;
pub mod duplicates;
pub mod endpoint;
pub mod pool;
pub mod reaper;
pub mod references;
pub mod runner;
pub mod scope;
pub mod server_config;
pub mod sweeper;
#[cfg(test)]
pub(crate) mod testing;
pub mod wiring;

/// The one watch of every kind, shared by all controllers.
#[derive(Clone)]
pub struct Hubs {
    /// GitHubEndpoints.
    pub endpoints: Arc<Hub<GitHubEndpoint>>,
    /// GitHubCredentials.
    pub credentials: Arc<Hub<GitHubCredential>>,
    /// Repositories.
    pub repositories: Arc<Hub<Repository>>,
    /// Organizations.
    pub organizations: Arc<Hub<Organization>>,
    /// Enterprises.
    pub enterprises: Arc<Hub<Enterprise>>,
    /// Images.
    pub images: Arc<Hub<Image>>,
    /// Pools.
    pub pools: Arc<Hub<Pool>>,
    /// Runners.
    pub runners: Arc<Hub<Runner>>,
    /// GarmServerConfigs.
    pub server_configs: Arc<Hub<GarmServerConfig>>,
    /// Metadata of Secrets; their data is read on demand.
    pub secrets: Arc<Hub<PartialObjectMeta<Secret>>>,
}

impl Hubs {
    /// Waits until every watch has delivered its first list.
    ///
    /// Controllers start after that: a decision on half of the objects could mistake an owner for an orphan.
    pub async fn loaded(&self) {
        futures::join!(
            self.endpoints.loaded(),
            self.credentials.loaded(),
            self.repositories.loaded(),
            self.organizations.loaded(),
            self.enterprises.loaded(),
            self.images.loaded(),
            self.pools.loaded(),
            self.runners.loaded(),
            self.server_configs.loaded(),
            self.secrets.loaded(),
        );
    }

    /// Lists all watches.
    pub fn each(&self) -> [&dyn Watching; 10] {
        [
            &*self.endpoints,
            &*self.credentials,
            &*self.repositories,
            &*self.organizations,
            &*self.enterprises,
            &*self.images,
            &*self.pools,
            &*self.runners,
            &*self.server_configs,
            &*self.secrets,
        ]
    }
}

/// The process-wide parts that controllers work with.
pub struct Context {
    /// Client of the API server.
    pub kube: kube::Client,
    /// GARM: client and mirror.
    pub garm: Garm,
    /// Watches.
    pub hubs: Hubs,
    /// Reads the data of Secrets.
    pub secrets: SecretReader,
    /// Writes statuses.
    pub status: StatusWriter,
    /// Publishes events, one recorder per reporting component.
    pub events: HashMap<&'static str, Events>,
    /// Makes the keyed hashes of the annotation `pushed`.
    pub hasher: Hasher,
    /// Every interval, age and limit.
    pub timings: Timings,
    /// Whether Runner objects are made.
    pub runner_reconciliation: bool,
    /// Age from which an idle runner above the minimum is removed.
    pub min_idle_runners_age: Duration,
    /// Age from which a runner that the provider could not make is removed, if at all.
    pub failed_runner_ttl: Option<Duration>,
}

impl Context {
    /// The API of a namespaced kind in the namespace of an object.
    pub fn api<K>(&self, metadata: &ObjectMeta) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(
            self.kube.clone(),
            metadata.namespace.as_deref().unwrap_or_default(),
        )
    }

    /// Until an object that nothing wakes is looked at again: the sync period, spread so that objects do not come in one wave.
    pub fn resync(&self) -> Duration {
        self.timings
            .resync
            .mul_f64(0.9 + rand::random::<f64>() * 0.2)
    }

    /// Until a deletion that waits for GARM is looked at again.
    pub fn deletion_pace(&self) -> Duration {
        let (min, max) = (
            self.timings.deletion_pace_min,
            self.timings.deletion_pace_max,
        );
        min + max.saturating_sub(min).mul_f64(rand::random::<f64>())
    }

    /// Publishes an event about an object, without waiting for it; a failure to do so is logged and fails nothing.
    pub fn publish<K>(
        &self,
        component: &'static str,
        metadata: &ObjectMeta,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) where
        K: Resource<DynamicType = ()>,
    {
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        };
        // Every component has a recorder from the start.
        if let Some(events) = self.events.get(component) {
            events.publish(reference, kind, reason, action, note);
        }
    }

    /// Waits until what was published has been sent, for some seconds at most.
    pub async fn flush_events(&self) {
        // All go the same way.
        if let Some(events) = self.events.values().next() {
            events.flush().await;
        }
    }
}
