//! What somebody has made in GARM by hand.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::world::World;

/// Ids of the pools that are there.
pub struct Fleet {
    /// A pool of the repository `acme/tools`, with a runner.
    pub small: String,
    /// A pool of the organization `Umbrella` with all that a pool can have, and no runner.
    pub special: String,
}

/// Makes a fleet: two scopes with a pool each.
pub async fn make(world: &World<'_>) -> Result<Fleet> {
    let github = world.garm.github().url();
    let api = world.garm.api();
    let endpoint = json!({
        "name": "GHES", "description": "made by hand", "api_base_url": github, "upload_base_url": github, "base_url": github,
    });
    api.post("/github/endpoints", &endpoint).await?;
    let credentials = json!({
        "name": "pat", "description": "a token", "endpoint": "GHES", "auth_type": "pat", "pat": {"oauth2_token": "ghp_planted-token"},
    });
    api.post("/github/credentials", &credentials).await?;
    let scope = |owner: Value, name: &str| {
        json!({
            "owner": owner, "name": name, "credentials_name": "pat", "webhook_secret": "planted-webhook-secret", "pool_balancer_type": "pack",
        })
    };
    let repository = made(
        &api.post("/repositories", &scope(json!("acme"), "tools"))
            .await?,
    )?;
    let organization = made(
        &api.post("/organizations", &scope(Value::Null, "Umbrella"))
            .await?,
    )?;
    let small = json!({
        "provider_name": "fake", "image": "runner:1", "flavor": "small", "os_type": "linux", "os_arch": "amd64",
        "tags": ["small", "Linux"], "enabled": true, "max_runners": 3, "min_idle_runners": 1,
    });
    let small = made(
        &api.post(&format!("/repositories/{repository}/pools"), &small)
            .await?,
    )?;
    let special = json!({
        "provider_name": "fake", "image": "runner:2", "flavor": "large", "os_type": "linux", "os_arch": "arm64",
        "tags": ["special"], "enabled": false, "max_runners": 5, "min_idle_runners": 2, "runner_bootstrap_timeout": 30,
        "extra_specs": {"planted": "extra", "disk": [1, 2.5]}, "github-runner-group": "team", "runner_prefix": "team-a", "priority": 7,
    });
    let special = made(
        &api.post(&format!("/organizations/{organization}/pools"), &special)
            .await?,
    )?;
    Ok(Fleet { small, special })
}

/// The id that GARM gave to what was made.
pub(super) fn made(answer: &Value) -> Result<String> {
    let id = answer["id"].as_str();
    id.map(str::to_owned).context("GARM gave no id")
}
