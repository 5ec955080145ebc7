//! A whole life: everything comes up, changes, meets conflicts and losses, and goes again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::{Operator, OperatorCommand};
use http::{Method, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::overlay::NAMESPACE;
use crate::everything::{READY, documents};
use crate::world::{SOON, World};

const LEASE: &str = "b608d8b3.mercedes-benz.com";

/// Runs the operator by this command from its start to the end of all objects.
pub async fn run(world: &World<'_>, command: &OperatorCommand) -> Result<()> {
    meet_conflicts(world);
    let operator = world.start(command).await?;
    // The API server asks the webhooks as soon as it knows their CA.
    poll_until(SOON * 2, "everything is applied", async || {
        world.apply(&documents(world)).await.map(Seen::Yes)
    })
    .await?;
    for (kind, name) in READY {
        world.wait_ready(kind, name).await?;
    }
    world.wait_idle_runners(3).await?;
    judged_and_converted(world).await?;
    // Somebody makes a Runner without an instance. It goes when GARM's instances are listed next: the next leader begins with that.
    let stray = "kind: Runner\nmetadata: {name: stray}\nspec: {}\n".to_owned();
    world.apply(&[stray]).await?;
    repeated_failure(world).await?;
    damaged_ca(world).await?;
    lost_lease(world, &operator).await?;
    world.wait_gone("runner", "stray").await?;
    // GARM's settings are pushed, and when that was is noted.
    let url = world.garm.direct_url();
    let changed = json!({"spec": {"metadataUrl": format!("{url}/api/v1/other")}});
    world.change("garmserverconfig", "garm", changed).await?;
    gone(world).await?;
    world.finish(operator).await
}

/// Answers the first write to one object of each kind that it was changed meanwhile: the operator reads it and decides again.
fn meet_conflicts(world: &World<'_>) {
    let first = [
        "githubendpoints/ghes",
        "githubcredentials/pat",
        "repositories/tools",
        "organizations/acme",
        "enterprises/big",
        "pools/small",
        "runners/stray",
    ];
    let left = Arc::new(Mutex::new(BTreeSet::from(first)));
    let conflict = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
        "message": "the object has been modified",
    });
    let answer = move |path: &str| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let met = left.iter().copied().find(|end| path.ends_with(end))?;
        left.remove(met);
        Some((StatusCode::CONFLICT, conflict.to_string()))
    };
    world.kube.rule(
        Matcher::any().method(Method::PATCH),
        Fault::Answer(Arc::new(answer)),
    );
}

/// The installed configurations lead to the operator, in both directions.
async fn judged_and_converted(world: &World<'_>) -> Result<()> {
    let wrong = json!({"spec": {"tags": [""]}});
    let refused = world.patch("pool", "small", wrong).await;
    let refused = format!("{:#}", refused.err().context("a wrong Pool passed")?);
    ensure!(refused.contains("tags"), "{refused}");
    let old = "pools.v1alpha1.garm-operator.mercedes-benz.com";
    let converted = world
        .kubectl(&["get", old, "small", "-o", "name"], "")
        .await?;
    ensure!(converted.contains("small"), "{converted}");
    Ok(())
}

/// One and the same failure, several times, is one event with a count.
async fn repeated_failure(world: &World<'_>) -> Result<()> {
    let rule = world.garm.proxy().rule(
        Matcher::route("PUT /pools/{id}"),
        Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "not today"),
    );
    let more = json!({"spec": {"maxRunners": 5}});
    world.patch("pool", "small", more).await?;
    world.wait_for("three tries", || rule.hits() >= 3).await?;
    rule.remove();
    world.wait_ready("pool", "small").await.map(drop)
}

/// The CA is put back where somebody spoilt it.
async fn damaged_ca(world: &World<'_>) -> Result<()> {
    let name = "garm-operator-webhook-ca";
    let secret = async |arguments: &[&str]| {
        let place = ["-n", NAMESPACE];
        let all = [&place[..], arguments].concat();
        world.plane.kubectl_ok(&all, "").await
    };
    let key = [
        "get",
        "secret",
        name,
        "-o",
        "jsonpath={.data.current\\.key}",
    ];
    let before = secret(&key).await?;
    ensure!(!before.is_empty(), "no CA");
    let broken = r#"{"stringData":{"current.key":"nonsense"}}"#;
    secret(&["patch", "secret", name, "--type=merge", "-p", broken]).await?;
    poll_until(SOON * 3, "the Secret is as before", async || {
        let is_back = secret(&key).await? == before;
        Ok(Seen::when(is_back, |back| *back).map(drop))
    })
    .await
}

/// Another replica takes the Lease and falls silent: the operator waits for it, and leads again.
async fn lost_lease(world: &World<'_>, operator: &Operator) -> Result<()> {
    let told = operator.stderr().matches("this replica leads").count();
    let leases: Api<Lease> = Api::namespaced(world.plane.client(), NAMESPACE);
    let (now, mark) = (jiff::Timestamp::now(), world.mark());
    let taken = json!({"spec": {
        "holderIdentity": "another", "leaseDurationSeconds": 3, "renewTime": format!("{now:.6}"),
    }});
    leases
        .patch(LEASE, &PatchParams::default(), &Patch::Merge(taken))
        .await?;
    poll_until(SOON, "it leads again", async || {
        let log = operator.stderr();
        let again = log.matches("this replica leads").count() > told;
        Ok(Seen::when(again, |again| *again).map(drop))
    })
    .await?;
    // In the same words as when it began to lead: one event, counted.
    let place = format!("/namespaces/{NAMESPACE}/");
    let counted = || {
        let requests = world.kube_requests(mark);
        requests
            .iter()
            .any(|one| one.method == Method::PATCH && one.is_event() && one.path.contains(&place))
    };
    world.wait_for("the event is counted", counted).await
}

async fn gone(world: &World<'_>) -> Result<()> {
    // The Image may go when no Pool uses it any more.
    world
        .kubectl(&["delete", "pools", "--all", "--wait=false"], "")
        .await?;
    let (pools, others): (Vec<_>, Vec<_>) =
        READY.into_iter().partition(|(kind, _)| *kind == "pool");
    for (kind, name) in pools {
        world.wait_gone(kind, name).await?;
    }
    let all = crate::world::join(&documents(world));
    let delete = ["delete", "-f", "-", "--wait=false", "--ignore-not-found"];
    world.kubectl(&delete, &all).await?;
    for (kind, name) in others {
        world.wait_gone(kind, name).await?;
    }
    let left = world.list("runners").await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
