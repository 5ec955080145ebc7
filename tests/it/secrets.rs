//! Secrets: sent when they change and never otherwise, and shown nowhere.

use crate::world::secret;

/// A Secret with the key of a GitHub App.
pub fn app_key(name: &str) -> String {
    let pem = include_str!("../data/app-key.pem");
    secret(name, "key", &serde_json::json!(pem).to_string())
}
