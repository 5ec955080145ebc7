//! What the user applies: one object of each kind, and a Pool for each of two scopes.

use garm_operator_ground::documents::{object, reference, secret};
use serde_json::{Value, json};

use crate::stage::Stage;

/// What no log, object or event may show.
pub const SECRETS: [&str; 2] = ["ghp_swept-token", "swept-webhook-secret"];

/// An object that GARM has one of, too.
pub struct Kept {
    pub kind: &'static str,
    pub name: &'static str,
    /// GARM's list of its kind.
    pub list: &'static str,
    /// What in that list holds our name.
    pub named_by: &'static str,
    /// What of it the user changes, in GARM's words: before, and after.
    pub changed: (&'static str, fn() -> [Value; 2]),
}

/// GARM gives an organization and an enterprise of one name on one endpoint a single place for their pool managers: the second has
/// none. So their names differ.
pub const KEPT: [Kept; 7] = [
    Kept {
        kind: "GitHubEndpoint",
        name: "swept",
        list: "/github/endpoints",
        named_by: "name",
        changed: ("description", descriptions),
    },
    Kept {
        kind: "GitHubCredential",
        name: "swept",
        list: "/github/credentials",
        named_by: "name",
        changed: ("description", descriptions),
    },
    entity("Repository", "swept", "/repositories"),
    entity("Organization", "swept", "/organizations"),
    entity("Enterprise", "swept-too", "/enterprises"),
    pool("of-repository"),
    pool("of-organization"),
];

const fn entity(kind: &'static str, name: &'static str, list: &'static str) -> Kept {
    Kept {
        kind,
        name,
        list,
        named_by: "name",
        changed: ("pool_balancing_type", balancers),
    }
}

const fn pool(name: &'static str) -> Kept {
    Kept {
        kind: "Pool",
        name,
        list: "/pools",
        named_by: "flavor",
        changed: ("max_runners", sizes),
    }
}

fn descriptions() -> [Value; 2] {
    ["first".into(), "second".into()]
}

fn balancers() -> [Value; 2] {
    ["roundrobin".into(), "pack".into()]
}

fn sizes() -> [Value; 2] {
    [4.into(), 5.into()]
}

/// The tag of the Image, before and after.
pub const TAGS: [&str; 2] = ["runner:1", "runner:2"];

/// Where hooks are sent to, before and after.
pub fn webhook_urls(stage: &Stage<'_>) -> [String; 2] {
    let garm = stage.garm.direct_url();
    [format!("{garm}/webhooks"), format!("{garm}/webhooks/moved")]
}

/// The Secrets that the objects refer to.
pub fn secrets() -> Vec<Value> {
    vec![
        secret("token", &json!({"token": SECRETS[0]})),
        secret("webhook", &json!({"secret": SECRETS[1]})),
    ]
}

/// All objects, as first made (0) or as changed (1): that raises each generation by one.
pub fn objects(stage: &Stage<'_>, version: usize) -> Vec<Value> {
    let (github, garm) = (stage.garm.github().url(), stage.garm.direct_url());
    let mut all = vec![
        object(
            "GarmServerConfig",
            "swept",
            &json!({
                "metadataUrl": format!("{garm}/api/v1/metadata"), "callbackUrl": format!("{garm}/api/v1/callbacks"),
                "webhookUrl": webhook_urls(stage)[version],
            }),
        ),
        object("Image", "swept", &json!({"tag": TAGS[version]})),
    ];
    all.extend(KEPT.iter().map(|kept| {
        let value = kept.changed.1()[version].clone();
        object(kept.kind, kept.name, &spec(kept, &value, &github))
    }));
    all
}

fn spec(kept: &Kept, changed: &Value, github: &str) -> Value {
    let scope = match kept.name {
        "of-organization" => "Organization",
        _ => "Repository",
    };
    match kept.kind {
        "GitHubEndpoint" => {
            json!({"description": changed, "apiBaseUrl": github, "uploadBaseUrl": github, "baseUrl": github})
        }
        "GitHubCredential" => json!({
            "description": changed, "authType": "pat",
            "endpointRef": reference("GitHubEndpoint", "swept"), "secretRef": {"name": "token", "key": "token"},
        }),
        "Pool" => json!({
            "githubScopeRef": reference(scope, "swept"), "providerName": "fake", "imageName": "swept", "flavor": kept.name,
            "osType": "linux", "osArch": "amd64", "tags": [kept.name], "enabled": true,
            "minIdleRunners": 0, "maxRunners": changed, "runnerBootstrapTimeout": 20,
        }),
        kind => {
            let mut spec = json!({
                "credentialsRef": reference("GitHubCredential", "swept"),
                "webhookSecretRef": {"name": "webhook", "key": "secret"}, "poolBalancerType": changed,
            });
            if kind == "Repository" {
                spec["owner"] = "acme".into();
            }
            spec
        }
    }
}
