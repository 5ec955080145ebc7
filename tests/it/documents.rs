//! What tests apply, and how they read what they find.

use std::fmt::Write as _;

use serde_json::Value;

/// A whole set: everything that two pools need, with GitHub at this URL.
pub fn everything(github: &str) -> Vec<String> {
    vec![
            secret("github-token", "token", "ghp_planted-token"),
            secret("webhook-secret", "secret", "planted-webhook-secret"),
            format!(
                "kind: GitHubEndpoint\nmetadata: {{name: ghes}}\nspec:\n  description: fake\n  apiBaseUrl: {github}\n  uploadBaseUrl: {github}\n  baseUrl: {github}\n"
            ),
            "kind: GitHubCredential\nmetadata: {name: pat}\nspec:\n  description: token of the tests\n  authType: pat\n  endpointRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubEndpoint, name: ghes}\n  secretRef: {name: github-token, key: token}\n".to_owned(),
            "kind: Repository\nmetadata: {name: tools}\nspec:\n  owner: acme\n  credentialsRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: pat}\n  webhookSecretRef: {name: webhook-secret, key: secret}\n".to_owned(),
            image("runner", "runner:1"),
            pool("small", "flavor: small\n  minIdleRunners: 1\n  maxRunners: 3"),
            pool("large", "flavor: large\n  minIdleRunners: 1\n  maxRunners: 2"),
        ]
}

/// A condition of an object, or null.
pub fn condition(object: &Value, type_: &str) -> Value {
    garm_operator_ground::documents::condition(object, type_).clone()
}

/// The message of a condition, empty without one.
pub fn message(object: &Value, type_: &str) -> String {
    let condition = condition(object, type_);
    condition["message"].as_str().unwrap_or_default().to_owned()
}

/// Joins documents, giving each its API version where it has none.
pub fn join(documents: &[String]) -> String {
    documents.iter().fold(String::new(), |mut all, document| {
        let version = if document.contains("apiVersion") {
            ""
        } else {
            "apiVersion: garm-operator.mercedes-benz.com/v1beta1\n"
        };
        let _ = write!(all, "---\n{version}{document}\n");
        all
    })
}

/// A Secret with one key.
pub fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{key}: {value}}}\n"
    )
}

/// An Image.
pub fn image(name: &str, tag: &str) -> String {
    format!("kind: Image\nmetadata: {{name: {name}}}\nspec: {{tag: \"{tag}\"}}\n")
}

/// A Pool of the repository `tools` with some fields of its own.
pub fn pool(name: &str, fields: &str) -> String {
    format!(
        "kind: Pool\nmetadata: {{name: {name}}}\nspec:\n  githubScopeRef: {{apiGroup: garm-operator.mercedes-benz.com, kind: Repository, name: tools}}\n  providerName: fake\n  imageName: runner\n  osType: linux\n  osArch: amd64\n  tags: [{name}, linux]\n  enabled: true\n  runnerBootstrapTimeout: 20\n  {fields}\n"
    )
}

/// The same set under other names, for a second namespace on the same GARM.
pub fn apart(documents: &[String]) -> Vec<String> {
    let other = |document: &String| {
        document
            .replace("name: ghes}", "name: ghes-b}")
            .replace("name: pat}", "name: pat-b}")
            .replace("owner: acme", "owner: umbrella")
    };
    documents.iter().map(other).collect()
}

/// An Organization or Enterprise.
pub fn entity(kind: &str, name: &str, credentials: &str) -> String {
    format!(
        "kind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  credentialsRef: {{apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: {credentials}}}\n  webhookSecretRef: {{name: webhook-secret, key: secret}}\n"
    )
}
