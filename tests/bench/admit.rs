//! How long reviews take, over the number of Pools.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use garm_operator_ground::{Ground, poll::Patience};
use serde_json::{Value, json};

use crate::{
    figures::{Figure, Goal, count, percentile},
    objects::{foundation, pool, pool_name},
    options::Settings,
    process,
    reviews::{Body, Load},
    serving::Serving,
    stage::Stage,
};

const SIZES: [usize; 3] = [100, 1000, 5000];
const REPOSITORIES: usize = 20;
/// How many reviews one client asks for, one after the other.
const REVIEWS: usize = 5000;
/// How many clients there are at once else, how often each asks, and how often a second.
const CLIENTS: usize = 16;
const EACH: usize = 250;
const PACE: Duration = Duration::from_millis(20);

const POOL: &str = "/validate-garm-operator-mercedes-benz-com-v1beta1-pool";
const IMAGE: &str = "/validate-garm-operator-mercedes-benz-com-v1beta1-image";
/// Nothing is served there: what TLS and HTTP alone take.
const NOTHING: &str = "/nothing";

/// Reviews of new Pools, and of the deletion of an Image that all use, at some sizes.
pub async fn run(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let chosen = settings
        .pools
        .map_or_else(|| SIZES.to_vec(), |one| vec![one]);
    let stage = Stage::new(ground, settings).await?;
    let objects = foundation(&stage.garm.github().url(), REPOSITORIES);
    stage.create(&stage.namespace, &objects).await?;
    let serving = Serving::start(&stage).await?;
    let mut figures = Vec::new();
    let (mut there, mut medians) = (0, Vec::new());
    for pools in chosen {
        let more: Vec<Value> = (there..pools).map(|n| pool(n, REPOSITORIES, 0)).collect();
        stage.create(&stage.namespace, &more).await?;
        there = pools;
        wait_known(&stage, &serving, pools - 1).await?;
        let (median, more) = at(&stage, &serving, pools).await?;
        medians.push(median);
        figures.extend(more);
    }
    if let [first, .., last] = medians[..] {
        let growth = last / first;
        figures.push(
            Figure::new("p50 at most by at fewest Pools", "", growth).goal(Goal::AtMost(1.5)),
        );
    }
    stage.stop(serving.operator).await?;
    stage.end().await?;
    Ok(figures)
}

async fn at(stage: &Stage<'_>, serving: &Serving, pools: usize) -> Result<(f64, Vec<Figure>)> {
    let pid = serving.operator.pid();
    let new = new_pools(&stage.namespace, pools);
    let one = load(serving, POOL, &new);
    // Threads, connections and caches get warm.
    one.clone().run().await?;
    let cpu_since = |before: f64, reviews: usize| -> Result<f64> {
        Ok((process::cpu(pid)? - before) * 1000.0 / count(reviews))
    };
    let before = process::cpu(pid)?;
    let (alone, answer) = one.run().await?;
    let cpu = cpu_since(before, alone.len())?;
    ensure!(is_allowed(&answer), "refused: {answer}");
    let many = Load {
        clients: CLIENTS,
        each: EACH,
        pace: PACE,
        ..load(serving, POOL, &new)
    };
    let (together, answer) = many.clone().run().await?;
    ensure!(is_allowed(&answer), "refused: {answer}");
    let (deletions, answer) = load(serving, IMAGE, &deletion(&stage.namespace))
        .run()
        .await?;
    ensure!(
        !is_allowed(&answer),
        "an Image that is used may go: {answer}"
    );
    let nothing = |load: Load| Load {
        path: NOTHING,
        status: 404,
        ..load
    };
    let before = process::cpu(pid)?;
    let (floor, _) = nothing(load(serving, POOL, &new)).run().await?;
    let floor_cpu = cpu_since(before, floor.len())?;
    let (floor_many, _) = nothing(many).run().await?;
    let mut figures = Vec::new();
    for (what, times, floor) in [
        ("1 client", &alone, &floor),
        ("16 clients", &together, &floor_many),
        ("Image deletion", &deletions, &floor),
    ] {
        for (percent, limit) in [(50.0, 0.2), (99.0, 0.5)] {
            let name = format!("{pools} Pools, {what}: p{percent}");
            let figure = Figure::new(name, "ms", percentile(times, percent))
                .beside(percentile(floor, percent))
                .goal(Goal::AtMost(limit));
            figures.push(figure);
        }
    }
    let name = format!("{pools} Pools: processor per review");
    let figure = Figure::new(name, "ms", cpu).beside(floor_cpu);
    figures.push(figure.goal(Goal::AtMost(0.08)));
    Ok((percentile(&alone, 50.0), figures))
}

fn load(serving: &Serving, path: &'static str, body: &Body) -> Load {
    Load {
        address: serving.operator.webhook_address(),
        certificates: serving.certificates.clone(),
        path,
        status: 200,
        body: Arc::clone(body),
        clients: 1,
        each: REVIEWS,
        pace: Duration::ZERO,
    }
}

fn is_allowed(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    answer["response"]["allowed"] == true
}

/// Waits until the operator knows a Pool: it then refuses another that is equal.
async fn wait_known(stage: &Stage<'_>, serving: &Serving, number: usize) -> Result<()> {
    let patience = Patience::new(Duration::from_secs(120), "the operator knows the Pools");
    let namespace = stage.namespace.clone();
    let equal: Body = Arc::new(move |_| {
        let mut twin = pool(number, REPOSITORIES, 0);
        twin["metadata"]["name"] = "twin".into();
        // Nothing is kept for one that is only tried.
        review("Pool", "CREATE", &namespace, "object", twin, true)
    });
    loop {
        let one = Load {
            each: 1,
            ..load(serving, POOL, &equal)
        };
        let (_, answer) = one.run().await?;
        if !is_allowed(&answer) {
            ensure!(answer.contains(&pool_name(number)), "{answer}");
            return Ok(());
        }
        patience.pause(answer).await?;
    }
}

/// Pools that equal none that are there.
fn new_pools(namespace: &str, pools: usize) -> Body {
    let namespace = namespace.to_owned();
    Arc::new(move |number| {
        let object = pool(100_000 + pools * 10 + number, REPOSITORIES, 0);
        review("Pool", "CREATE", &namespace, "object", object, false)
    })
}

fn deletion(namespace: &str) -> Body {
    let namespace = namespace.to_owned();
    Arc::new(move |_| {
        let image = json!({
            "apiVersion": "garm-operator.mercedes-benz.com/v1beta1", "kind": "Image",
            "metadata": {"name": "runner"}, "spec": {"tag": "runner:1"},
        });
        review("Image", "DELETE", &namespace, "oldObject", image, false)
    })
}

/// A review as the API server writes it.
fn review(
    kind: &str,
    operation: &str,
    namespace: &str,
    holds: &str,
    mut object: Value,
    dry_run: bool,
) -> String {
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["uid"] = "2f4c7f0e-0f6f-4c0a-8f0e-1f2a3b4c5d6e".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    let of =
        json!({"group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "kind": kind});
    let resource = json!({
        "group": "garm-operator.mercedes-benz.com", "version": "v1beta1",
        "resource": format!("{}s", kind.to_lowercase()),
    });
    let mut review = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "7d5a1c2e-54d3-4a6e-9d57-0b1f6a0d3c11",
            "kind": of, "resource": resource, "requestKind": of, "requestResource": resource,
            "name": object["metadata"]["name"], "namespace": namespace, "operation": operation,
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "object": null, "oldObject": null, "dryRun": dry_run,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    review["request"][holds] = object;
    review.to_string()
}
