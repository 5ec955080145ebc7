//! Old manifests are applied to objects that others have given fields of v1beta1.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use serde_json::{Value, json};

use super::endpoint::converting;
use super::objects::{NEW, OLD, Objects};

const OLD_MANIFEST: &str = "apiVersion: garm-operator.mercedes-benz.com/v1alpha1
kind: Repository
metadata: {name: tools}
spec:
  owner: acme
  credentialsName: pat
  webhookSecretRef: {name: webhook, key: secret}
";

const NEW_MANIFEST: &str = "apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Repository
metadata: {name: tools}
spec:
  owner: acme
  credentialsRef: {kind: GitHubCredentials, name: pat}
  webhookSecretRef: {name: webhook, key: secret}
  poolBalancerType: pack
  installWebhook: true
";

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("an_old_manifest_goes_on_applying", applies_on);
    suite.test(
        "an_old_manifest_goes_on_applying_server_side",
        applies_on_server_side,
    );
    suite.test("v1alpha1_is_shown_and_warned_of", shown_and_warned_of);
}

/// What others set in v1beta1 while the manifest stays old.
async fn set_by_others(objects: &Objects<'_>) -> Result<()> {
    let patch = json!({"spec": {"poolBalancerType": "pack", "installWebhook": true}}).to_string();
    objects
        .kubectl(
            &["patch", "repository", "tools", "--type=merge", "-p", &patch],
            "",
        )
        .await?;
    Ok(())
}

async fn ensure_spec(objects: &Objects<'_>, key: &str) -> Result<Value> {
    let new = objects.get(NEW, "repositories", "tools").await?;
    let expected = json!({
        "owner": "acme",
        "credentialsRef": {"apiGroup": "garm-operator.mercedes-benz.com", "kind": "GitHubCredential", "name": "pat"},
        "webhookSecretRef": {"name": "webhook", "key": key},
        "poolBalancerType": "pack",
        "installWebhook": true,
    });
    ensure!(new["spec"] == expected, "{}", new["spec"]);
    let mut names = new["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    ensure!(
        names.all(|(name, _)| !name.starts_with("garm-operator.mercedes-benz.com/")),
        "{new}"
    );
    Ok(new)
}

async fn applies_on(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let apply = ["apply", "-f", "-"];
    objects.kubectl(&apply, OLD_MANIFEST).await?;
    set_by_others(&objects).await?;
    let before = ensure_spec(&objects, "secret").await?;

    let said = objects.kubectl(&apply, OLD_MANIFEST).await?;
    ensure!(said.contains("unchanged"), "{said}");
    let after = ensure_spec(&objects, "secret").await?;
    ensure!(after == before, "{after}\nis not\n{before}");
    objects
        .kubectl(&apply, &OLD_MANIFEST.replace("key: secret", "key: other"))
        .await?;
    ensure_spec(&objects, "other").await?;

    // What was read as v1alpha1 is a manifest as well, and the old one can follow it.
    let read = objects
        .kubectl(
            &[
                "get",
                "repositories.v1alpha1.garm-operator.mercedes-benz.com",
                "tools",
                "-o",
                "yaml",
            ],
            "",
        )
        .await?;
    let is_kept = |line: &&str| !line.trim_start().starts_with("resourceVersion");
    let read: Vec<&str> = read.lines().filter(is_kept).collect();
    let read = read.join("\n");
    objects.kubectl(&apply, &read).await?;
    ensure_spec(&objects, "other").await?;

    // And the manifest moves on to v1beta1.
    objects.kubectl(&apply, NEW_MANIFEST).await?;
    let new = objects.get(NEW, "repositories", "tools").await?;
    ensure!(
        new["spec"]["credentialsRef"]["kind"] == "GitHubCredentials",
        "{new}"
    );
    Ok(())
}

async fn applies_on_server_side(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let apply = ["apply", "--server-side", "--field-manager=old", "-f", "-"];
    objects.kubectl(&apply, OLD_MANIFEST).await?;
    let other = "apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Repository
metadata: {name: tools}
spec: {poolBalancerType: pack, installWebhook: true}
";
    let apply_other = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    // The required fields are another manager's.
    objects.kubectl(&apply_other, other).await?;
    let before = ensure_spec(&objects, "secret").await?;
    for _ in 0..2 {
        objects.kubectl(&apply, OLD_MANIFEST).await?;
        objects.kubectl(&apply_other, other).await?;
    }
    let after = ensure_spec(&objects, "secret").await?;
    ensure!(after == before, "{after}\nis not\n{before}");

    objects
        .kubectl(&apply, &OLD_MANIFEST.replace("key: secret", "key: other"))
        .await?;
    ensure_spec(&objects, "other").await?;
    // Each takes back only what is its own.
    let less = other.replace(", installWebhook: true", "");
    objects.kubectl(&apply_other, &less).await?;
    let new = objects.get(NEW, "repositories", "tools").await?;
    ensure!(
        new["spec"]["poolBalancerType"] == "pack"
            && new["spec"].get("installWebhook").is_none()
            && new["spec"]["webhookSecretRef"]["key"] == "other",
        "{new}"
    );
    // The manifest of the first moves on to v1beta1.
    objects.kubectl(&apply, NEW_MANIFEST).await?;
    let old = objects.get(OLD, "repositories", "tools").await?;
    ensure!(old["spec"]["credentialsName"] == "pat", "{old}");
    Ok(())
}

async fn shown_and_warned_of(ground: &Ground) -> Result<()> {
    let objects = Objects::new(&converting(ground).await?.plane).await?;
    let warning = "Warning: This version is deprecated. Use v1beta1 instead.";
    let said = objects
        .warnings(&["apply", "-f", "-"], OLD_MANIFEST)
        .await?;
    ensure!(said.contains(warning), "{said}");
    for plural in [
        "enterprises",
        "images",
        "organizations",
        "pools",
        "repositories",
        "runners",
    ] {
        let resource = format!("{plural}.v1alpha1.garm-operator.mercedes-benz.com");
        let said = objects.warnings(&["get", &resource, "-A"], "").await?;
        ensure!(said.contains(warning), "{plural}: {said}");
        let said = objects.warnings(&["get", plural, "-A"], "").await?;
        ensure!(!said.contains("deprecated"), "{plural}: {said}");
    }
    let table = |version: &str| {
        let resource = format!("repositories.{version}.garm-operator.mercedes-benz.com");
        let objects = &objects;
        async move { objects.kubectl(&["get", &resource, "-o", "wide"], "").await }
    };
    let (old, new) = (table(OLD).await?, table(NEW).await?);
    let header = |table: &str| table.lines().next().map(str::to_owned);
    ensure!(header(&old) == header(&new), "{old}\n{new}");
    Ok(())
}
