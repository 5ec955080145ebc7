//! What conversion costs who lists Pools in the other version.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use garm_operator::generate::crds;
use garm_operator_ground::{ConversionEndpoint, Ground, poll::Patience};
use serde_json::Value;

use crate::{
    figures::{Figure, Goal, percentile},
    objects::{foundation, pool, pool_name},
    options::Sizes,
    serving::Serving,
    stage::Stage,
};

const POOLS: usize = 1000;
const REPOSITORIES: usize = 20;
/// How often each list is made.
const LISTS: usize = 20;
/// How often each single Pool is read.
const READS: usize = 200;

const NEW: &str = "v1beta1";
const OLD: &str = "v1alpha1";

/// Lists of v1alpha1 Pools that are stored as v1beta1.
pub async fn run(ground: &Ground, sizes: &Sizes) -> Result<Vec<Figure>> {
    let pools = sizes.pools.unwrap_or(POOLS);
    let stage = Stage::new(ground, sizes).await?;
    let mut objects = foundation(&stage.garm.github().url(), REPOSITORIES);
    objects.extend((0..pools).map(|n| pool(n, REPOSITORIES, 0)));
    stage.create(&stage.namespace, &objects).await?;
    let serving = Serving::start(&stage).await?;
    let endpoint = ConversionEndpoint {
        url: format!("https://{}/convert", serving.operator.webhook_address()),
        ca_pem: serving.certificates.ca_pem.clone(),
    };
    stage
        .plane
        .install_crds(crds::definitions(), Some(&endpoint))
        .await?;
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for _ in 0..LISTS {
        new.push(list(&stage, NEW, pools).await?);
        old.push(list(&stage, OLD, pools).await?);
    }
    let (mut one_new, mut one_old) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        one_new.push(read(&stage, NEW).await?);
        one_old.push(read(&stage, OLD).await?);
    }
    let metrics = serving.operator.metrics().await?;
    stage.stop(serving.operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("list of v1alpha1 p50", "ms", percentile(&old, 50.0))
            .beside(percentile(&new, 50.0))
            .goal(Goal::Speed(0.7)),
        Figure::new("one v1alpha1 Pool p50", "ms", percentile(&one_old, 50.0))
            .beside(percentile(&one_new, 50.0)),
        Figure::new(
            "conversions answered",
            "",
            total(&metrics, "webhook_latency_seconds_count"),
        ),
        Figure::new("conversion in the operator, mean", "ms", {
            1000.0 * total(&metrics, "webhook_latency_seconds_sum")
                / total(&metrics, "webhook_latency_seconds_count")
        }),
    ])
}

/// How long a list takes; fails when it is not complete.
async fn list(stage: &Stage<'_>, version: &str, pools: usize) -> Result<f64> {
    let path = format!(
        "/apis/garm-operator.mercedes-benz.com/{version}/namespaces/{}/pools",
        stage.namespace
    );
    let patience = Patience::new(Duration::from_secs(60), format!("a list of {version}"));
    loop {
        let request = http::Request::get(&path).body(Vec::new())?;
        let begun = Instant::now();
        let answer = stage.plane.client().request_text(request).await;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        let seen = match answer {
            Ok(text) => {
                let list: Value = serde_json::from_str(&text)?;
                let items = list["items"].as_array().context("no list")?;
                let right = items.iter().filter(|item| {
                    item["apiVersion"]
                        .as_str()
                        .is_some_and(|of| of.ends_with(version))
                });
                let right = right.count();
                if right == pools {
                    return Ok(took);
                }
                format!("{right} Pools")
            }
            Err(error) => error.to_string(),
        };
        patience.pause(seen).await?;
    }
}

/// How long it takes to read a Pool. Lists come from the API server's cache, which holds what it has converted before; this does not.
async fn read(stage: &Stage<'_>, version: &str) -> Result<f64> {
    let path = format!(
        "/apis/garm-operator.mercedes-benz.com/{version}/namespaces/{}/pools/{}",
        stage.namespace,
        pool_name(0)
    );
    let request = http::Request::get(path).body(Vec::new())?;
    let begun = Instant::now();
    stage.plane.client().request_text(request).await?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

/// The value of one of the metrics of conversions.
fn total(metrics: &str, name: &str) -> f64 {
    let begin = format!("controller_runtime_{name}{{");
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(&begin) && line.contains("\"/convert\""));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
