//! One life of an object of each kind, during which the operator is killed once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use garm_operator_ground::{
    Operator,
    poll::{Patience, Seen, poll_until},
    proxy::{Fault, Matcher, Proxy, Release},
};
use serde_json::{Value, json};

use crate::{
    points::{Moment, Place, Point},
    stage::Stage,
};

/// Within which all has to come right after the kill: more than the longest step of a back-off that a single failure leads to.
const BOUND: Duration = Duration::from_secs(60);

/// What no log, event or condition may show.
const SECRETS: [&str; 2] = ["ghp_swept-token", "swept-webhook-secret"];

/// Kinds with an object in GARM, its name here, and GARM's list of them.
const IN_GARM: [(&str, &str, &str); 7] = [
    ("GitHubEndpoint", "swept", "/github/endpoints"),
    ("GitHubCredential", "swept", "/github/credentials"),
    ("Repository", "swept", "/repositories"),
    ("Organization", "swept", "/organizations"),
    ("Enterprise", "swept-too", "/enterprises"),
    ("Pool", "of-repository", "/pools"),
    ("Pool", "of-organization", "/pools"),
];

/// What came of a life in which nothing was violated.
#[derive(Debug)]
pub struct Done {
    /// The request at which the operator was killed; nothing when there were fewer.
    pub killed_at: Option<String>,
    /// How many objects were created, changed or deleted by the user.
    pub operations: usize,
    /// How many invariants were looked at.
    pub checks: usize,
}

/// Creates, changes and deletes an object of each kind while the operator is killed at the point and started again.
pub async fn run(stage: &Stage<'_>, point: Point) -> Result<Done> {
    let namespace = stage.plane.create_namespace("faults").await?;
    let (proxy, release) = (proxy_of(stage, point), Release::new());
    let mark = proxy.mark();
    let fault = match point.moment {
        Moment::Before => Fault::Blackhole,
        Moment::After => Fault::HoldAnswer(release.clone()),
    };
    let rule = proxy.rule(Matcher::any().skip(point.number).times(1), fault);
    let first = stage.command(&namespace).start()?;

    let over = AtomicBool::new(false);
    let user = async {
        let result = live(stage, &namespace).await;
        over.store(true, Ordering::SeqCst);
        result
    };
    let crash = async {
        let patience = Patience::new(BOUND * 4, "the life to end");
        while rule.hits() == 0 && !over.load(Ordering::SeqCst) {
            patience.pause("it goes on").await?;
        }
        if rule.hits() == 0 {
            return Ok((vec![first], false));
        }
        if point.moment == Moment::After {
            release.holding().await;
        }
        let mut first = first;
        first.kill().await?;
        let second = stage.command(&namespace).start()?;
        anyhow::Ok((vec![first, second], true))
    };
    let (lived, operators) = tokio::join!(user, crash);
    rule.remove();
    release.release();
    let (mut operators, killed) = operators?;
    let at = proxy.look(mark, |requests| {
        requests.get(point.number).map(|one| one.route.clone())
    });
    let counted = lived.with_context(|| {
        let logs: Vec<String> = operators.iter().map(last_lines).collect();
        format!(
            "killed at {at:?}; the logs end so:\n{}",
            logs.join("\n---\n")
        )
    });
    let (operations, checks) = counted?;
    for operator in &operators {
        let log = operator.stderr();
        ensure!(!log.contains("panicked"), "something panicked:\n{log}");
        ensure_no_secret(stage, "the log", &log)?;
    }
    if let Some(last) = operators.last_mut() {
        last.terminate(Duration::from_secs(15)).await?;
    }
    stage
        .kubectl(&namespace, &["delete", "secret", "--all"], "")
        .await?;
    Ok(Done {
        killed_at: killed.then_some(at).flatten(),
        operations,
        checks: checks + operators.len() * 2,
    })
}

fn proxy_of<'a>(stage: &'a Stage<'_>, point: Point) -> &'a Proxy {
    match point.place {
        Place::Garm => stage.garm.proxy(),
        Place::Kubernetes => &stage.kube,
    }
}

fn last_lines(operator: &Operator) -> String {
    let log = operator.stderr();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// What the user does and sees; answers how many objects were written and how much was checked.
async fn live(stage: &Stage<'_>, namespace: &str) -> Result<(usize, usize)> {
    let made = documents(stage, false);
    apply(stage, namespace, &made).await?;
    let mut checks = check_alive(stage, namespace, 1).await.context("created")?;

    let changed = documents(stage, true);
    apply(stage, namespace, &changed).await?;
    checks += check_alive(stage, namespace, 2).await.context("changed")?;
    let pools = stage.garm.api().list("/pools").await?;
    ensure!(
        pools
            .iter()
            .all(|pool| pool["max_runners"] == 5 && pool["image"] == "runner:2"),
        "a change did not arrive: {pools:?}"
    );

    stage
        .kubectl(namespace, &["delete", "garm", "--all", "--wait=false"], "")
        .await?;
    let objects = changed.iter().filter(|one| one["kind"] != "Secret").count();
    checks += check_gone(stage, namespace).await.context("deleted")?;
    Ok((made.len() + changed.len() + objects, checks + 1))
}

async fn apply(stage: &Stage<'_>, namespace: &str, documents: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    stage
        .kubectl(namespace, &["apply", "-f", "-"], &list.to_string())
        .await
        .map(drop)
}

/// Waits until all is Ready with that generation, which no one but the user raises, and GARM holds each object exactly once.
async fn check_alive(stage: &Stage<'_>, namespace: &str, generation: i64) -> Result<usize> {
    let objects = poll_until(BOUND, "all is Ready", async || {
        let objects = stage.objects(namespace).await?;
        let waiting = objects.iter().filter_map(|object| {
            let unready = object["kind"] != "Image" && !is_ready(object, generation);
            unready.then(|| format!("{} {}", object["kind"], object["status"]))
        });
        let waiting: Vec<String> = waiting.collect();
        Ok(if waiting.is_empty() && !objects.is_empty() {
            Seen::Yes(objects)
        } else {
            Seen::NotYet(waiting.join("; "))
        })
    })
    .await?;
    for object in &objects {
        ensure!(
            object["metadata"]["generation"] == generation,
            "a spec was written: {object}"
        );
        ensure_no_secret(stage, "an object", &object.to_string())?;
    }
    let mut checks = objects.len() * 2;
    for (kind, name, path) in IN_GARM {
        let object = objects
            .iter()
            .find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
            .with_context(|| format!("{kind} {name} is gone"))?;
        let list = in_garm(stage, path).await?;
        let expected = IN_GARM
            .iter()
            .filter(|(_, _, other)| *other == path)
            .count();
        ensure!(
            list.len() == expected,
            "{path}: {expected} wanted: {list:?}"
        );
        let id = if kind == "GitHubEndpoint" {
            "name"
        } else {
            "id"
        };
        let wanted = if kind == "GitHubEndpoint" {
            &object["metadata"]["name"]
        } else {
            &object["status"]["id"]
        };
        ensure!(
            list.iter().any(|one| one[id] == *wanted),
            "{kind} {name} points to nothing: {} in {list:?}",
            object["status"]
        );
        checks += 2;
    }
    let events = stage
        .kubectl(namespace, &["get", "events", "-o", "json"], "")
        .await?;
    ensure_no_secret(stage, "an event", &events)?;
    Ok(checks + 1)
}

/// Waits until nothing of ours is left, here and in GARM.
async fn check_gone(stage: &Stage<'_>, namespace: &str) -> Result<usize> {
    poll_until(BOUND, "all is gone", async || {
        let left = stage.objects(namespace).await?;
        Ok(Seen::when(left, Vec::is_empty))
    })
    .await?;
    for (_, _, path) in IN_GARM {
        let left = in_garm(stage, path).await?;
        if !left.is_empty() {
            bail!("left behind in GARM, {path}: {left:?}");
        }
    }
    Ok(1 + IN_GARM.len())
}

/// GARM's list, without what it makes by itself.
async fn in_garm(stage: &Stage<'_>, path: &str) -> Result<Vec<Value>> {
    let mut list = stage.garm.api().list(path).await?;
    list.retain(|one| one["name"] != "github.com");
    Ok(list)
}

fn is_ready(object: &Value, generation: i64) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == generation
    })
}

fn ensure_no_secret(stage: &Stage<'_>, what: &str, text: &str) -> Result<()> {
    let mut secrets = SECRETS.iter().copied().chain([stage.garm.password()]);
    ensure!(
        !secrets.any(|secret| text.contains(secret)),
        "{what} shows a secret"
    );
    Ok(())
}

/// One object of each kind and two Pools, as first made or as changed; a change raises each generation by one.
fn documents(stage: &Stage<'_>, changed: bool) -> Vec<Value> {
    let (github, garm) = (stage.garm.github().url(), stage.garm.direct_url());
    let pick = |first: &str, second: &str| if changed { second } else { first }.to_owned();
    // GARM gives an organization and an enterprise of one name on one endpoint a single place for their pool managers: the second has none.
    let entity = |kind: &str, name: &str, owner: Value| {
        let mut spec = json!({
            "credentialsRef": reference("GitHubCredential", "swept"),
            "webhookSecretRef": {"name": "webhook", "key": "secret"},
            "poolBalancerType": pick("roundrobin", "pack"),
        });
        if !owner.is_null() {
            spec["owner"] = owner;
        }
        object(kind, name, &spec)
    };
    let pool = |name: &str, scope: Value| {
        object(
            "Pool",
            name,
            &json!({
                "githubScopeRef": scope, "providerName": "fake", "imageName": "swept", "flavor": name,
                "osType": "linux", "osArch": "amd64", "tags": [name], "enabled": true,
                "minIdleRunners": 0, "maxRunners": if changed { 5 } else { 4 }, "runnerBootstrapTimeout": 20,
            }),
        )
    };
    vec![
        secret("token", &json!({"token": SECRETS[0]})),
        secret("webhook", &json!({"secret": SECRETS[1]})),
        object(
            "GarmServerConfig",
            "swept",
            &json!({
                "metadataUrl": format!("{garm}/api/v1/metadata"), "callbackUrl": format!("{garm}/api/v1/callbacks"),
                "webhookUrl": format!("{garm}/{}", pick("webhooks", "webhooks/moved")),
            }),
        ),
        object(
            "GitHubEndpoint",
            "swept",
            &json!({"description": pick("first", "second"), "apiBaseUrl": github, "uploadBaseUrl": github, "baseUrl": github}),
        ),
        object(
            "GitHubCredential",
            "swept",
            &json!({
                "description": pick("first", "second"), "authType": "pat",
                "endpointRef": reference("GitHubEndpoint", "swept"), "secretRef": {"name": "token", "key": "token"},
            }),
        ),
        entity("Repository", "swept", "acme".into()),
        entity("Organization", "swept", Value::Null),
        entity("Enterprise", "swept-too", Value::Null),
        object(
            "Image",
            "swept",
            &json!({"tag": pick("runner:1", "runner:2")}),
        ),
        pool("of-repository", reference("Repository", "swept")),
        pool("of-organization", reference("Organization", "swept")),
    ]
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
}

fn secret(name: &str, values: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values})
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "garm-operator.mercedes-benz.com", "kind": kind, "name": name})
}
