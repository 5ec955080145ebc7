//! What conversion costs who lists Pools in the other version.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use garm_operator::generate::crds;
use garm_operator_ground::{ConversionEndpoint, Ground, poll::Patience};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    figures::{Figure, Goal, count, percentile},
    objects::{foundation, pool},
    options::Sizes,
    serving::Serving,
    stage::Stage,
};

const POOLS: usize = 1000;
const REPOSITORIES: usize = 20;
/// How often each list is made.
const LISTS: usize = 20;
/// How often the API server has to read everything anew.
const COLD: usize = 5;

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
    let (mut cold_new, mut cold_old) = (Vec::new(), Vec::new());
    for round in 0..COLD {
        renew(&stage, round).await?;
        cold_new.push(list(&stage, NEW, pools).await?);
        cold_old.push(list(&stage, OLD, pools).await?);
    }
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for _ in 0..LISTS {
        new.push(list(&stage, NEW, pools).await?);
        old.push(list(&stage, OLD, pools).await?);
    }
    let metrics = serving.operator.metrics().await?;
    stage.stop(serving.operator).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("list of v1alpha1 p50", "ms", percentile(&old, 50.0))
            .beside(percentile(&new, 50.0))
            .goal(Goal::Speed(0.7)),
        Figure::new(
            "first list of v1alpha1 p50",
            "ms",
            percentile(&cold_old, 50.0),
        )
        .beside(percentile(&cold_new, 50.0))
        .goal(Goal::Speed(0.7)),
        Figure::new("conversion requests", "", conversions(&metrics)),
        Figure::new("lists", "", count(2 * (COLD + LISTS))),
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

/// Changes the definition, so that the API server reads all objects anew, and waits until it has noticed.
async fn renew(stage: &Stage<'_>, round: usize) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.plane.client());
    let short = json!({"spec": {"names": {"shortNames": [format!("p{round}")]}}});
    let name = "pools.garm-operator.mercedes-benz.com";
    definitions
        .patch(name, &PatchParams::default(), &Patch::Merge(short))
        .await?;
    // It says nowhere when it has.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// How many requests for conversions the operator has answered.
fn conversions(metrics: &str) -> f64 {
    let name = "controller_runtime_webhook_requests_total{";
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(name) && line.contains("\"/convert\""));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}
