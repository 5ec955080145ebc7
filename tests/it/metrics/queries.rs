//! What the shipped alerts and dashboard ask for.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../manifests/monitoring/dashboard.json");
const RULES: &str = include_str!("../../../manifests/monitoring/prometheus-rules.yaml");

/// How the names begin that the operator gives to its metrics.
const BEGINNINGS: [&str; 7] = [
    "certwatcher_",
    "controller_runtime_",
    "garm_operator_",
    "leader_election_",
    "process_",
    "rest_client_",
    "workqueue_",
];

/// Fails when a query names what is not among these families.
pub fn ensure_exposed(families: &BTreeSet<String>) -> Result<()> {
    let mut names = BTreeSet::new();
    expressions(&serde_json::from_str(DASHBOARD)?, &mut names);
    let of_dashboard = names.len();
    expressions(&serde_saphyr::from_str(RULES)?, &mut names);
    ensure!(of_dashboard > 20, "only {of_dashboard} in the dashboard");
    ensure!(names.len() > of_dashboard, "no other in the alerts");
    let unknown: Vec<&String> = names
        .iter()
        .filter(|name| !families.contains(family(name)))
        .collect();
    ensure!(unknown.is_empty(), "nobody exposes {unknown:?}");
    Ok(())
}

/// Collects the names of metrics in all fields that hold a query, at any depth.
fn expressions(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(query) if field == "expr" => {
                        spelled_out(query).for_each(|query| names.extend(words(&query)));
                    }
                    other => expressions(other, names),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, names)),
        _ => {}
    }
}

/// One query for each name that `__name__=~"a_(b|c)_d"` stands for.
fn spelled_out(query: &str) -> impl Iterator<Item = String> {
    let pattern = query
        .split_once("__name__=~\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let spelled = pattern.and_then(|(pattern, _)| {
        let (before, rest) = pattern.split_once('(')?;
        let (choice, after) = rest.split_once(')')?;
        let names = choice.split('|');
        Some(names.map(|one| format!("{before}{one}{after}")).collect())
    });
    spelled
        .unwrap_or_else(|| vec![query.to_owned()])
        .into_iter()
}

fn words(query: &str) -> impl Iterator<Item = String> {
    let of_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == ':';
    let words = query.split(move |char| !of_name(char));
    let ours = words.filter(|word| BEGINNINGS.iter().any(|start| word.starts_with(start)));
    ours.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The family that a series of a histogram belongs to.
fn family(name: &str) -> &str {
    let parts = ["_bucket", "_sum", "_count"];
    let found = parts.iter().find_map(|part| name.strip_suffix(part));
    found.unwrap_or(name)
}

/// Checks the reading of queries itself, which would find nothing wrong if it found nothing.
pub fn ensure_reads() -> Result<()> {
    let names: Vec<String> = spelled_out("{__name__=~\"garm_operator_(a|b)_c\", x=\"y\"} > 1")
        .flat_map(|query| words(&query).collect::<Vec<_>>())
        .collect();
    ensure!(
        names == ["garm_operator_a_c", "garm_operator_b_c"],
        "{names:?}"
    );
    let query = "sum by (le) (rate(workqueue_depth_bucket{a=\"b\"}[5m]))";
    let first = words(query).next().context("no name")?;
    ensure!(family(&first) == "workqueue_depth", "{first}");
    Ok(())
}
