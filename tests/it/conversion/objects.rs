//! Objects of one namespace, read and written in either version and untouched by any type of ours.

use anyhow::{Context as _, Result};
use garm_operator_ground::ControlPlane;
use http::Request;
use serde_json::{Value, json};

const GROUP: &str = "garm-operator.mercedes-benz.com";

/// The older version.
pub const OLD: &str = "v1alpha1";
/// The stored version.
pub const NEW: &str = "v1beta1";

/// A namespace of a control plane.
pub struct Objects<'a> {
    /// The servers.
    pub plane: &'a ControlPlane,
    /// The name of the namespace.
    pub namespace: String,
}

impl<'a> Objects<'a> {
    /// Makes a new namespace.
    pub async fn new(plane: &'a ControlPlane) -> Result<Self> {
        let namespace = plane.create_namespace("convert").await?;
        Ok(Self { plane, namespace })
    }

    /// Reads an object, or with an empty name a list.
    pub async fn get(&self, version: &str, plural: &str, name: &str) -> Result<Value> {
        self.send("GET", version, &format!("{plural}/{name}"), &Value::Null)
            .await
    }

    /// Creates an object of this metadata and spec.
    pub async fn create(
        &self,
        version: &str,
        kind: (&str, &str),
        metadata: Value,
        spec: Value,
    ) -> Result<Value> {
        let (kind, plural) = kind;
        let object = json!({
            "apiVersion": format!("{GROUP}/{version}"),
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        });
        self.send("POST", version, plural, &object).await
    }

    /// Writes a whole object back, or with `/status` after its name its status.
    pub async fn put(&self, version: &str, path: &str, object: &Value) -> Result<Value> {
        self.send("PUT", version, path, object).await
    }

    async fn send(&self, method: &str, version: &str, path: &str, body: &Value) -> Result<Value> {
        let path = path.trim_end_matches('/');
        let uri = format!(
            "/apis/{GROUP}/{version}/namespaces/{}/{path}",
            self.namespace
        );
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let request = Request::builder()
            .method(method)
            .uri(&uri)
            .header("content-type", "application/json")
            .body(body)?;
        let client = self.plane.client();
        client
            .request(request)
            .await
            .with_context(|| format!("{method} {uri}"))
    }

    /// Runs kubectl in the namespace; fails when it does.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        self.plane.kubectl_ok(&all, input).await
    }

    /// Runs kubectl in the namespace and answers what it warned of; fails when it does.
    pub async fn warnings(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        let output = self.plane.kubectl_with_input(&all, input).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "kubectl {arguments:?}: {said}");
        Ok(said)
    }
}

/// The object without what each write changes: version numbers, and who wrote what when.
pub fn timeless(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    object
}
