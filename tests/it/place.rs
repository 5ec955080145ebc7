//! One namespace, and what tests do with the objects in it.

use anyhow::{Context as _, Result, anyhow, bail};
use garm_operator::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository, Runner,
};
use garm_operator_ground::ControlPlane;
use garm_operator_ground::poll::{Seen, poll_until};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::ApiResource;
use serde_json::Value;

use crate::documents::{condition, join};
use crate::world::SOON;

/// A namespace of a control plane.
pub struct Place<'a> {
    /// The servers that tests share.
    pub plane: &'a ControlPlane,
    /// The name of the namespace.
    pub namespace: String,
}

impl<'a> Place<'a> {
    /// Makes a new namespace.
    pub async fn new(plane: &'a ControlPlane) -> Result<Self> {
        Ok(Self {
            plane,
            namespace: plane.create_namespace("test").await?,
        })
    }

    /// Applies documents with real kubectl, in this order.
    pub async fn apply(&self, documents: &[String]) -> Result<String> {
        self.kubectl(&["apply", "-f", "-"], &join(documents)).await
    }

    /// Runs kubectl in this namespace, with an input, and fails when it does.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        self.plane.kubectl_ok(&all, input).await
    }

    /// Reads an object; `None` when it does not exist.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let object = self.api(kind)?.get_opt(name).await?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    /// Reads an object that exists.
    pub async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        self.get(kind, name)
            .await?
            .ok_or_else(|| anyhow!("{kind} {name} does not exist"))
    }

    /// Lists the objects of a kind.
    pub async fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let list = self.api(kind)?.list(&ListParams::default()).await?;
        let values = list.items.into_iter().map(serde_json::to_value);
        Ok(values.collect::<Result<_, _>>()?)
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, kind: &str, name: &str, change: Value) -> Result<Value> {
        let patch = Patch::Merge(change);
        let object = self
            .api(kind)?
            .patch(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("patch {kind} {name}"))?;
        Ok(serde_json::to_value(object)?)
    }

    /// Changes an object by a merge patch, and waits until it is Ready with that change.
    pub async fn change(&self, kind: &str, name: &str, change: Value) -> Result<Value> {
        let generation = self.patch(kind, name, change).await?["metadata"]["generation"].clone();
        self.wait(kind, name, "the new spec is Ready", |object| {
            let ready = condition(object, "Ready");
            ready["status"] == "True" && ready["observedGeneration"] == generation
        })
        .await
    }

    /// Deletes an object without waiting until it is gone.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.api(kind)?
            .delete(name, &kube::api::DeleteParams::default())
            .await
            .with_context(|| format!("delete {kind} {name}"))?;
        Ok(())
    }

    /// The Kubernetes events about an object, of this type and reason.
    pub async fn events(&self, name: &str, type_: &str, reason: &str) -> Result<Vec<Value>> {
        let mut events = self.list("event").await?;
        events.retain(|event| {
            event["regarding"]["name"] == name
                && event["type"] == type_
                && event["reason"] == reason
        });
        Ok(events)
    }

    /// Waits until there are exactly that many events about an object, of this type and reason; answers them. They come after what they tell.
    pub async fn wait_events(
        &self,
        name: &str,
        type_: &str,
        reason: &str,
        count: usize,
    ) -> Result<Vec<Value>> {
        let what = format!("{count} events {type_} {reason} about {name}");
        poll_until(SOON, &what, async || {
            let events = self.events(name, type_, reason).await?;
            Ok(Seen::when(events, |events| events.len() == count))
        })
        .await
    }

    fn api(&self, kind: &str) -> Result<Api<DynamicObject>> {
        let resource = match kind.trim_end_matches('s') {
            "githubendpoint" => ApiResource::erase::<GitHubEndpoint>(&()),
            "githubcredential" => ApiResource::erase::<GitHubCredential>(&()),
            "repository" => ApiResource::erase::<Repository>(&()),
            "organization" => ApiResource::erase::<Organization>(&()),
            "enterprise" => ApiResource::erase::<Enterprise>(&()),
            "image" => ApiResource::erase::<Image>(&()),
            "pool" => ApiResource::erase::<Pool>(&()),
            "runner" => ApiResource::erase::<Runner>(&()),
            "garmserverconfig" => ApiResource::erase::<GarmServerConfig>(&()),
            "secret" => ApiResource::erase::<Secret>(&()),
            "event" => ApiResource::erase::<Event>(&()),
            other => bail!("the tests do not know the kind {other}"),
        };
        Ok(Api::namespaced_with(
            self.plane.client(),
            &self.namespace,
            &resource,
        ))
    }

    /// Waits until an object is as wanted; answers it.
    pub async fn wait(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        poll_until(SOON, &format!("{kind} {name}: {what}"), async || {
            Ok(match self.get(kind, name).await? {
                Some(object) if wanted(&object) => Seen::Yes(object),
                Some(object) => Seen::NotYet(object["status"].to_string()),
                None => Seen::NotYet("no object".to_owned()),
            })
        })
        .await
    }

    /// The id that an object has in GARM, as its status tells.
    pub async fn id(&self, kind: &str, name: &str) -> Result<String> {
        let object = self.object(kind, name).await?;
        Ok(match &object["status"]["id"] {
            Value::String(id) => id.clone(),
            other => other.to_string(),
        })
    }

    /// Waits until a condition of an object is as wanted; answers the object.
    pub async fn wait_condition(
        &self,
        kind: &str,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> Result<Value> {
        let what = format!("{type_}={status} {reason}");
        self.wait(kind, name, &what, |object| {
            let condition = condition(object, type_);
            condition["status"] == status && (reason.is_empty() || condition["reason"] == reason)
        })
        .await
    }

    /// Waits until an object is Ready; answers it.
    pub async fn wait_ready(&self, kind: &str, name: &str) -> Result<Value> {
        self.wait_condition(kind, name, "Ready", "True", "").await
    }

    /// Waits until an object is gone.
    pub async fn wait_gone(&self, kind: &str, name: &str) -> Result<()> {
        poll_until(SOON, &format!("{kind} {name} to go"), async || {
            Ok(match self.get(kind, name).await? {
                None => Seen::Yes(()),
                Some(object) => Seen::NotYet(condition(&object, "Ready").to_string()),
            })
        })
        .await
    }
}
