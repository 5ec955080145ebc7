//! What is created to be measured.

use garm_operator_ground::documents::{object, reference, secret};
use serde_json::{Value, json};

/// The token of the credentials; the fake GitHub believes any.
pub const TOKEN: &str = "ghp_bench-token";
/// The webhook secret of all repositories.
pub const WEBHOOK_SECRET: &str = "bench-webhook-secret";
/// The owner of all repositories.
pub const OWNER: &str = "acme";

/// Everything that Pools need, over a number of repositories.
pub fn foundation(github: &str, repositories: usize) -> Vec<Value> {
    let mut all = vec![
        secret("token", &json!({"token": TOKEN})),
        secret("webhook", &json!({"secret": WEBHOOK_SECRET})),
        object(
            "GitHubEndpoint",
            "ghes",
            &json!({"description": "fake", "apiBaseUrl": github, "uploadBaseUrl": github, "baseUrl": github}),
        ),
        object(
            "GitHubCredential",
            "pat",
            &json!({
                "description": "token", "authType": "pat", "endpointRef": reference("GitHubEndpoint", "ghes"),
                "secretRef": {"name": "token", "key": "token"},
            }),
        ),
        object("Image", "runner", &json!({"tag": "runner:1"})),
    ];
    all.extend((0..repositories).map(repository));
    all
}

fn repository(number: usize) -> Value {
    let spec = json!({
        "owner": OWNER, "credentialsRef": reference("GitHubCredential", "pat"),
        "webhookSecretRef": {"name": "webhook", "key": "secret"},
    });
    object("Repository", &repository_name(number), &spec)
}

/// The name of a repository, and of its object.
pub fn repository_name(number: usize) -> String {
    format!("repo-{number:02}")
}

/// The name of a Pool.
pub fn pool_name(number: usize) -> String {
    format!("pool-{number:04}")
}

/// A Pool that keeps so many idle runners.
pub fn pool(number: usize, repositories: usize, idle: usize) -> Value {
    let name = pool_name(number);
    let spec = json!({
        "githubScopeRef": reference("Repository", &repository_name(number % repositories)),
        "providerName": "fake", "imageName": "runner", "flavor": name, "osType": "linux", "osArch": "amd64",
        "tags": [name, "linux"], "enabled": true, "runnerBootstrapTimeout": 20,
        "minIdleRunners": idle, "maxRunners": idle.max(1),
        "extraSpecs": json!({"disk": 40}).to_string(),
    });
    object("Pool", &name, &spec)
}
