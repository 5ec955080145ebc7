//! What manifests come to: kustomize as kubectl has it, and Helm. Neither talks to a server.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::servers::{Server, Servers};

/// Renders a folder with a kustomization.
pub fn kustomize(servers: &Servers, folder: &Path) -> Result<String> {
    run(Command::new(servers.path(Server::Kubectl)?)
        .arg("kustomize")
        .arg(folder))
}

/// Runs Helm, which finds nothing of its user's.
pub fn helm(servers: &Servers, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(servers.path(Server::Helm)?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HELM_") {
            command.env_remove(name);
        }
    }
    run(command.args(arguments).env("KUBECONFIG", ""))
}

fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("run {name}"))?;
    if !output.status.success() {
        bail!(
            "{name}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what {name} printed"))
}

/// Reads the objects of a YAML stream; empty documents are none.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for document in format!("\n{text}").split("\n---") {
        let object: Value = serde_saphyr::from_str(document)
            .with_context(|| format!("read this document:\n{document}"))?;
        if !object.is_null() {
            all.push(object);
        }
    }
    Ok(all)
}
