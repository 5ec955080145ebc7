//! A GARM, counting proxies and an operator to be killed.

use std::path::Path;

use anyhow::{Context, Result};
use garm_operator_ground::{
    ControlPlane, Garm, Ground, OperatorCommand, proxy::Proxy, servers::GarmVersion,
};
use serde_json::Value;

/// One lane's servers; each life has a namespace of its own.
pub struct Stage<'a> {
    pub plane: &'a ControlPlane,
    pub garm: Garm,
    /// What stands between the operator and the API server.
    pub kube: Proxy,
    command: OperatorCommand,
}

impl<'a> Stage<'a> {
    pub async fn new(
        ground: &'a Ground,
        plane: &'a ControlPlane,
        version: GarmVersion,
        operator: &Path,
    ) -> Result<Self> {
        let garm = ground.garm(version).await?;
        let kube = plane.proxy().await?;
        let command = ground.operator(operator).kubernetes(&kube).garm(&garm);
        Ok(Self {
            plane,
            garm,
            kube,
            command,
        })
    }

    /// The command that runs the operator on a namespace.
    pub fn command(&self, namespace: &str) -> OperatorCommand {
        self.command.clone().namespace(namespace)
    }

    /// Runs kubectl in a namespace, and fails when it does.
    pub async fn kubectl(
        &self,
        namespace: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<String> {
        let all = [&["-n", namespace], arguments].concat();
        self.plane.kubectl_ok(&all, input).await
    }

    /// All objects of ours in a namespace.
    pub async fn objects(&self, namespace: &str) -> Result<Vec<Value>> {
        let text = self
            .kubectl(namespace, &["get", "garm", "-o", "json"], "")
            .await?;
        let list: Value = serde_json::from_str(&text).context("read what kubectl lists")?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }
}
