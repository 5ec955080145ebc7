//! An installation of the Go operator, and ours in its place.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Recorded;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use super::fleet::made;
use crate::documents::entity;
use crate::world::{Mark, SOON, World, condition, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "in_the_place_of_the_go_operator_nothing_is_made_or_removed_and_no_runner_notices",
        in_its_place,
    );
}

const GROUP: &str = "garm-operator.mercedes-benz.com";

/// What the Go operator has brought to Ready, with the end of its finalizer.
const HELD: [(&str, &str, &str); 6] = [
    ("githubendpoint", "ghes", "endpoint"),
    ("githubcredential", "pat", "credentials"),
    ("repository", "tools", "repository"),
    ("organization", "acme", "organization"),
    ("pool", "small", "pool"),
    ("pool", "large", "pool"),
];

async fn in_its_place(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let ids = in_garm(&world).await?;
    let runner = idle_runner(&world).await?;
    in_kubernetes(&world, &ids, &runner).await?;
    let before = standing(&world).await?;
    let in_garm = world.garm.api().list("/pools").await?;

    let command = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true");
    let mut operator = world.start(&command).await?;
    taken(&world).await?;
    let writes = world.garm_writes(Mark::START);
    // GARM never shows secrets, and nobody has noted which ones it has: they are sent once.
    let mut secrets = told(&writes);
    secrets.sort();
    let expected = [
        r#"PUT /github/credentials/{id} {"pat":{"oauth2_token":"ghp_planted-token"}}"#,
        r#"PUT /organizations/{id} {"webhook_secret":"planted-webhook-secret"}"#,
        r#"PUT /repositories/{id} {"webhook_secret":"planted-webhook-secret"}"#,
    ];
    ensure!(secrets == expected, "{secrets:#?}");
    ensure!(
        world.garm.api().list("/pools").await? == in_garm,
        "a pool was touched"
    );
    ensure!(
        standing(&world).await? == before,
        "an object has another id, spec, finalizer or uid: {before:#?} {:#?}",
        standing(&world).await?
    );
    ensure!(idle_runner(&world).await? == runner, "another runner");

    operator.terminate(Duration::from_secs(15)).await?;
    let mark = world.mark();
    let operator = world.start(&command).await?;
    taken(&world).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "the second start wrote {writes:#?}");
    // What the Go operator finds when it comes back is what it left.
    ensure!(standing(&world).await? == before, "no way back");
    world.finish(operator).await
}

/// What the Go operator made in GARM; ids by the names of its objects.
async fn in_garm(world: &World<'_>) -> Result<BTreeMap<&'static str, Value>> {
    let github = world.garm.github().url();
    let api = world.garm.api();
    let endpoint = json!({
        "name": "ghes", "description": "fake", "api_base_url": github, "upload_base_url": github, "base_url": github,
    });
    api.post("/github/endpoints", &endpoint).await?;
    let credentials = json!({
        "name": "pat", "description": "token of the tests", "endpoint": "ghes", "auth_type": "pat",
        "pat": {"oauth2_token": "ghp_planted-token"},
    });
    let credentials = api.post("/github/credentials", &credentials).await?;
    let scope = |name: &str| json!({"name": name, "credentials_name": "pat", "webhook_secret": "planted-webhook-secret"});
    let mut repository = scope("tools");
    repository["owner"] = "acme".into();
    let repository = made(&api.post("/repositories", &repository).await?)?;
    let organization = made(&api.post("/organizations", &scope("acme")).await?)?;
    let mut ids = BTreeMap::from([("pat", credentials["id"].clone())]);
    for (name, least, most) in [("small", 1, 3), ("large", 0, 2)] {
        let pool = json!({
            "provider_name": "fake", "image": "runner:1", "flavor": name, "os_type": "linux", "os_arch": "amd64",
            "tags": [name, "linux"], "enabled": true, "max_runners": most, "min_idle_runners": least, "runner_bootstrap_timeout": 20,
        });
        let path = format!("/repositories/{repository}/pools");
        ids.insert(name, made(&api.post(&path, &pool).await?)?.into());
    }
    ids.extend([("tools", repository.into()), ("acme", organization.into())]);
    Ok(ids)
}

/// Waits for the idle runner of the pool `small`; answers its name.
async fn idle_runner(world: &World<'_>) -> Result<String> {
    poll_until(Duration::from_secs(60), "an idle runner", async || {
        let all = world.garm.api().list("/instances").await?;
        let idle: Vec<&Value> = all
            .iter()
            .filter(|one| one["runner_status"] == "idle")
            .collect();
        Ok(match idle.as_slice() {
            [one] if all.len() == 1 => {
                Seen::Yes(one["name"].as_str().unwrap_or_default().to_owned())
            }
            _ => Seen::NotYet(format!("{} of {}", idle.len(), all.len())),
        })
    })
    .await
}

/// Makes the objects, and leaves them as the Go operator does: its finalizers, its conditions without a generation, Runners without labels
/// and owner, and a Lease that it never gives back.
async fn in_kubernetes(world: &World<'_>, ids: &BTreeMap<&str, Value>, runner: &str) -> Result<()> {
    let controller = world.garm.api().get("/controller").await?;
    let mut documents = world.manifests();
    documents.pop();
    documents.extend([
        crate::world::pool("large", "flavor: large\n  minIdleRunners: 0\n  maxRunners: 2"),
        entity("Organization", "acme", "pat"),
        format!(
            "kind: GarmServerConfig\nmetadata: {{name: garm}}\nspec: {{metadataUrl: {}, callbackUrl: {}, webhookUrl: {}}}\n",
            controller["metadata_url"], controller["callback_url"], controller["webhook_url"]
        ),
        format!(
            "kind: Runner\nmetadata: {{name: {}, finalizers: [{GROUP}/runner]}}\nspec: {{}}\n",
            runner.to_lowercase()
        ),
        lease(&world.namespace).to_string(),
    ]);
    world.apply(&documents).await?;
    for (kind, name, finalizer) in HELD {
        let held = json!({"metadata": {"finalizers": [format!("{GROUP}/{finalizer}")]}});
        world.patch(kind, name, held).await?;
        let mut status = json!({"conditions": conditions(kind)});
        if let Some(id) = ids.get(name) {
            status["id"] = id.clone();
        }
        match kind {
            "pool" => {
                status["longRunningIdleRunners"] = 0.into();
                status["selector"] = "".into();
            }
            "githubcredential" => {
                for url in ["apiBaseUrl", "uploadBaseUrl", "baseUrl"] {
                    status[url] = world.garm.github().url().into();
                }
            }
            _ => {}
        }
        patch_status(world, kind, name, &status).await?;
    }
    let status = json!({
        "agentId": 0, "githubRunnerGroup": "", "name": runner, "poolId": "small", "status": "pending", "instanceStatus": "creating",
    });
    patch_status(world, "runner", &runner.to_lowercase(), &status).await
}

async fn patch_status(world: &World<'_>, kind: &str, name: &str, status: &Value) -> Result<()> {
    let patch = json!({"status": status}).to_string();
    let words = [
        "patch",
        kind,
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    world.kubectl(&words, "").await.map(drop)
}

/// The conditions of a kind that the Go operator has brought to Ready.
fn conditions(kind: &str) -> Value {
    let types: &[(&str, &str)] = match kind {
        "pool" => &[
            ("Ready", "ReconcileSuccess"),
            ("ImageReference", "FetchingImageRefSuccess"),
            ("ScopeReference", "FetchingScopeRefSuccess"),
        ],
        "githubendpoint" => &[("Ready", "ReconcileSuccess")],
        "githubcredential" => &[
            ("Ready", "ReconcileSuccess"),
            (
                "GithubEndpointReference",
                "FetchingGithubEndpointRefSuccess",
            ),
            ("WebhookSecretReference", "FetchingWebhookSecretRefSuccess"),
        ],
        _ => &[
            ("Ready", "ReconcileSuccess"),
            ("GithubCredentialsReference", "GithubCredentialsRefSuccess"),
            ("PoolManager", "PoolManagerRunning"),
            ("WebhookSecretReference", "FetchingWebhookSecretRefSuccess"),
        ],
    };
    let condition = |(type_, reason): &(&str, &str)| {
        json!({
            "type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    types.iter().map(condition).collect()
}

/// The Lease of a Go operator that has just been stopped.
fn lease(namespace: &str) -> Value {
    let now = format!("{:.6}", jiff::Timestamp::now());
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "b608d8b3.mercedes-benz.com", "namespace": namespace},
        "spec": {
            "holderIdentity": "garm-operator-controller-manager-6d5f_0c9d4f60-5f0a-4c26-8f39-5a0b8a4ad7a5",
            "leaseDurationSeconds": 2, "acquireTime": now, "renewTime": now, "leaseTransitions": 1,
        },
    })
}

/// Waits until our operator has looked at everything and rests.
async fn taken(world: &World<'_>) -> Result<()> {
    for (kind, name, _) in HELD {
        world
            .wait(kind, name, "it is Ready by our word", |object| {
                let ready = condition(object, "Ready");
                ready["status"] == "True"
                    && ready["observedGeneration"] == object["metadata"]["generation"]
            })
            .await?;
    }
    world.wait_ready("garmserverconfig", "garm").await?;
    world.wait_idle_runners(1).await?;
    rests(world).await
}

/// Waits until nothing but the Lease and watches has been asked for for two seconds.
async fn rests(world: &World<'_>) -> Result<()> {
    let is_work = |request: &Recorded| {
        let path = &request.path;
        !request.query.contains("watch=true") && !path.contains("/leases") && !path.contains("/ws/")
    };
    poll_until(SOON, "the operator rests", async || {
        let (garm, kube) = (
            world.garm_requests(Mark::START),
            world.kube_requests(Mark::START),
        );
        let last = garm
            .iter()
            .chain(&kube)
            .filter(|request| is_work(request))
            .max_by_key(|request| request.at);
        let time = last.map(|request| request.at.elapsed());
        Ok(Seen::when(time, |time| {
            time.is_some_and(|time| time > Duration::from_secs(2))
        })
        .map(drop))
    })
    .await
}

/// What of each object must stay: uid, generation of the spec, finalizers, id.
async fn standing(world: &World<'_>) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (kind, name, _) in HELD {
        all.push(world.object(kind, name).await?);
    }
    all.extend(world.list("runners").await?);
    let stays = |object: &Value| {
        let metadata = &object["metadata"];
        let id = match object["kind"].as_str().context("a kind")? {
            // Its id is shown by our status only.
            "Runner" => Value::Null,
            _ => object["status"]["id"].clone(),
        };
        Ok(json!([
            metadata["name"],
            metadata["uid"],
            metadata["generation"],
            metadata["finalizers"],
            id
        ]))
    };
    all.iter().map(stays).collect()
}
