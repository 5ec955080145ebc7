//! The objects to compare: those of the cluster, or those of files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::ApiResource;
use kube::{Api, CustomResourceExt as _};
use serde_json::{Value, json};

use crate::api::convert::convert;
use crate::api::meta::{API_VERSION, GROUP};
use crate::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository,
};
use crate::config::Config;
use crate::domain::defaults::PoolDefaults;
use crate::runtime::client;
use crate::telemetry::metrics::Metrics;
use crate::validate::{document, input};

/// Version of all objects on the shelf, and of what is learnt of one later.
const VERSION: &str = "1";
pub(super) const NEWER: &str = "2";

/// Stands for every value that GARM never shows. As a key it is well-formed, as a token too.
const STAND_IN: &str = "-----BEGIN RSA PRIVATE KEY-----";

/// Namespace of objects in files that name none: where kubectl would put them is not known.
const NAMESPACE: &str = "default";

/// Objects of our kinds, and the Secrets that they need.
#[derive(Debug, Default)]
pub struct Objects {
    objects: Vec<Value>,
    /// Data by namespace, name and key.
    secrets: BTreeMap<(String, String), BTreeMap<String, Vec<u8>>>,
}

/// Our kinds, but for Runners.
fn resources() -> [ApiResource; 8] {
    [
        GarmServerConfig::api_resource(),
        GitHubEndpoint::api_resource(),
        GitHubCredential::api_resource(),
        Repository::api_resource(),
        Organization::api_resource(),
        Enterprise::api_resource(),
        Image::api_resource(),
        Pool::api_resource(),
    ]
}

impl Objects {
    /// Lists the objects of the watched namespaces, and reads the Secrets with CA certificates; no other Secret is read.
    ///
    /// # Errors
    /// Fails when there is no cluster, or it refuses.
    pub async fn of_cluster(config: &Config) -> anyhow::Result<Self> {
        let metrics = Arc::new(Metrics::new());
        let deadline = config.timings.kube_call;
        let kube = client::connect(config.kubeconfig.as_deref(), deadline, &metrics).await?;
        let mut all = Self::default();
        for resource in resources() {
            for api in apis(&kube, &config.operator.watch_namespaces, &resource) {
                let list = api
                    .list(&ListParams::default())
                    .await
                    .map_err(|error| anyhow::anyhow!("{}", client::explain(&error)))
                    .with_context(|| format!("the {} cannot be listed", resource.plural))?;
                for object in list.items {
                    let mut object = serde_json::to_value(object)?;
                    object["kind"] = resource.kind.clone().into();
                    all.add(object);
                }
            }
        }
        for (namespace, name) in all.ca_bundles() {
            let api: Api<Secret> = Api::namespaced(kube.clone(), &namespace);
            let secret = api
                .get_opt(&name)
                .await
                .map_err(|error| anyhow::anyhow!("{}", client::explain(&error)))
                .with_context(|| format!("the Secret {namespace}/{name} cannot be read"))?;
            let data = secret.and_then(|secret| secret.data).unwrap_or_default();
            let data = data.into_iter().map(|(key, value)| (key, value.0));
            all.secrets.insert((namespace, name), data.collect());
        }
        all.stand_in();
        Ok(all)
    }

    /// Reads the objects of manifests; Pools get the defaults that admission would give them.
    ///
    /// # Errors
    /// Names what cannot be read.
    pub fn of_files(files: &[PathBuf], defaults: &PoolDefaults) -> anyhow::Result<Self> {
        let mut unreadable = Vec::new();
        let inputs = input::read(files, &mut unreadable);
        let mut all = Self::default();
        for input in inputs {
            let (documents, more) = document::read(&input.name, &input.text);
            unreadable.extend(more);
            for document in documents {
                let line = document.line("");
                all.take(document.object, defaults)
                    .with_context(|| format!("{}:{line}", input.name))?;
            }
        }
        if !unreadable.is_empty() {
            let told: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
            bail!("{}", told.join("; "));
        }
        all.stand_in();
        Ok(all)
    }

    /// Takes one object of a file, if it is one of ours or a Secret.
    fn take(&mut self, mut object: Value, defaults: &PoolDefaults) -> anyhow::Result<()> {
        let version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        if version == "v1" && kind == "Secret" {
            self.take_secret(&object);
            return Ok(());
        }
        let is_ours = version.starts_with(&format!("{GROUP}/"));
        if !is_ours || !resources().iter().any(|resource| resource.kind == kind) {
            return Ok(());
        }
        if object["metadata"]["name"]
            .as_str()
            .is_none_or(str::is_empty)
        {
            bail!("this {kind} has no name");
        }
        if kind == "Pool" {
            defaults.fill(&mut object);
        }
        let mut object =
            convert(object, API_VERSION).map_err(|error| anyhow::anyhow!("{error}"))?;
        // Ages as in the order of the files: of two that claim one thing the first would be applied first.
        let number = i64::try_from(self.objects.len()).unwrap_or(i64::MAX);
        let made = jiff::Timestamp::from_second(number).unwrap_or_default();
        object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012x}").into();
        object["metadata"]["creationTimestamp"] = made.to_string().into();
        object["metadata"]["generation"] = 1.into();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        self.add(object);
        Ok(())
    }

    fn take_secret(&mut self, secret: &Value) {
        let decode = |value: &Value| STANDARD.decode(value.as_str()?.trim()).ok();
        let plain = |value: &Value| Some(value.as_str()?.as_bytes().to_vec());
        let data = self.secrets.entry(place(secret)).or_default();
        for (field, read) in [
            ("data", &decode as &dyn Fn(&Value) -> Option<Vec<u8>>),
            ("stringData", &plain),
        ] {
            for (key, value) in secret[field].as_object().into_iter().flatten() {
                data.extend(read(value).map(|value| (key.clone(), value)));
            }
        }
    }

    fn add(&mut self, mut object: Value) {
        object["metadata"]["resourceVersion"] = VERSION.into();
        self.objects.push(object);
    }

    /// The Secrets in which endpoints have their CA certificates.
    fn ca_bundles(&self) -> Vec<(String, String)> {
        let endpoints = self.of_kind("GitHubEndpoint").into_iter();
        endpoints
            .filter_map(|endpoint| {
                let name = endpoint["spec"]["caCertBundleSecretRef"]["name"].as_str()?;
                Some((place(&endpoint).0, name.to_owned()))
            })
            .collect()
    }

    /// Gives every other Secret that an object names the value that stands for any.
    fn stand_in(&mut self) {
        for object in &self.objects {
            for field in ["secretRef", "webhookSecretRef"] {
                let reference = &object["spec"][field];
                let (Some(name), Some(key)) =
                    (reference["name"].as_str(), reference["key"].as_str())
                else {
                    continue;
                };
                let place = (place(object).0, name.to_owned());
                let data = self.secrets.entry(place).or_default();
                data.insert(key.to_owned(), STAND_IN.as_bytes().to_vec());
            }
        }
    }

    /// All objects of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<Value> {
        let objects = self.objects.iter();
        objects
            .filter(|object| object["kind"] == kind)
            .cloned()
            .collect()
    }

    /// What may be read by itself, by the path of its URL.
    pub(super) fn by_path(&self) -> impl Iterator<Item = (String, Value)> {
        let pools = self.of_kind("Pool").into_iter().map(|pool| {
            let (namespace, name) = place(&pool);
            let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/pools/{name}");
            (path, pool)
        });
        let secrets = self.secrets.iter().map(|((namespace, name), data)| {
            let data: BTreeMap<&String, String> = data
                .iter()
                .map(|(key, value)| (key, STANDARD.encode(value)))
                .collect();
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "data": data,
                "metadata": {"namespace": namespace, "name": name, "resourceVersion": VERSION},
            });
            (
                format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
                secret,
            )
        });
        pools.chain(secrets)
    }
}

/// Namespace and name of an object.
fn place(object: &Value) -> (String, String) {
    let text = |field: &str| {
        let value = object["metadata"][field].as_str();
        value.unwrap_or_default().to_owned()
    };
    (text("namespace"), text("name"))
}

fn apis(
    kube: &kube::Client,
    namespaces: &[String],
    resource: &ApiResource,
) -> Vec<Api<DynamicObject>> {
    if namespaces.is_empty() {
        return vec![Api::all_with(kube.clone(), resource)];
    }
    let each = namespaces.iter();
    each.map(|namespace| Api::namespaced_with(kube.clone(), namespace, resource))
        .collect()
}
