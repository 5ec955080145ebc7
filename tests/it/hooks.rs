//! An operator whose webhooks the API server asks, by the shipped configurations, about the objects of a test's namespaces.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context as _, Result, anyhow};
use garm_operator::generate::webhooks::{CaBundle, objects};
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::{Certificates, Ground, Operator, OperatorCommand, webhooks_at};
use serde_json::{Value, json};

use crate::place::Place;
use crate::world::{SOON, World};

/// Starts the operator with webhooks that the API server asks about all objects of the test's namespace and of these.
pub async fn start(
    ground: &Ground,
    world: &World<'_>,
    command: &OperatorCommand,
    more: &[&str],
) -> Result<Operator> {
    let certificates = Certificates::new()?;
    let port = free_port()?;
    let command = serving(ground, command, port, &certificates)?;
    let operator = world.start(&command).await?;
    let url = format!("https://127.0.0.1:{port}");
    ask(world, &url, &certificates, more).await?;
    Ok(operator)
}

/// A port that nobody listens on.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// The command with webhooks on this port.
pub fn serving(
    ground: &Ground,
    command: &OperatorCommand,
    port: u16,
    certificates: &Certificates,
) -> Result<OperatorCommand> {
    let folder = ground.directory().join(format!("webhook-{port}"));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("tls.crt"), &certificates.certificate_pem)?;
    std::fs::write(folder.join("tls.key"), &certificates.key_pem)?;
    Ok(command
        .clone()
        .argument(format!("--operator-webhook-bind-address=127.0.0.1:{port}"))
        .argument("--operator-webhook-cert-dir")
        .argument(folder))
}

/// Lets the API server ask this URL, and waits until it does.
pub async fn ask(
    place: &Place<'_>,
    url: &str,
    certificates: &Certificates,
    more: &[&str],
) -> Result<()> {
    configure(place, url, certificates, more).await?;
    // Refused by the validating webhook, and without the mutating one by the schema.
    let wrong = json!({
        "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "GitHubEndpoint",
        "metadata": {"name": "probe"}, "spec": {"apiBaseUrl": "x"},
    });
    let short = json!({
        "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "Pool",
        "metadata": {"name": "probe"}, "spec": {
            "githubScopeRef": {"kind": "Repository", "name": "x"}, "providerName": "x", "imageName": "x",
            "flavor": "x", "tags": ["x"], "maxRunners": 1,
        },
    });
    let dry = [
        "-n",
        &place.namespace,
        "create",
        "--dry-run=server",
        "-f",
        "-",
    ];
    poll_until(SOON, "the API server asks the webhooks", async || {
        let kubectl = async |object: &Value| {
            let input = object.to_string();
            place.plane.kubectl_with_input(&dry, &input).await
        };
        let (refused, filled) = (kubectl(&wrong).await?, kubectl(&short).await?);
        let is_asked = String::from_utf8_lossy(&refused.stderr).contains("absolute");
        Ok(Seen::when(is_asked && filled.status.success(), |asked| *asked).map(|_| ()))
    })
    .await
    .context("webhooks")
}

/// Applies the shipped configurations, but for where the webhooks are and which namespaces are asked about.
pub async fn configure(
    place: &Place<'_>,
    url: &str,
    certificates: &Certificates,
    more: &[&str],
) -> Result<()> {
    let mut namespaces = vec![place.namespace.as_str()];
    namespaces.extend(more);
    for mut object in configurations(url, Some(&certificates.ca_pem), &namespaces)? {
        object["metadata"]["name"] = Value::from(place.namespace.as_str());
        place
            .kubectl(&["apply", "-f", "-"], &object.to_string())
            .await?;
    }
    Ok(())
}

/// The shipped configurations, validating and mutating, with webhooks below this URL. Only objects of `namespaces` are asked about, all if there are
/// none.
pub fn configurations(url: &str, ca_pem: Option<&str>, namespaces: &[&str]) -> Result<[Value; 2]> {
    let found = webhooks_at(url, objects(CaBundle::Open), ca_pem, namespaces)?;
    let count = found.len();
    found
        .try_into()
        .map_err(|_| anyhow!("{count} configurations are shipped"))
}
