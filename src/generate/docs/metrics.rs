//! Metric families.

use anyhow::Context as _;

use super::rendered;
use crate::telemetry::reference::{self, Described};

/// Labels that every series about an object has.
const OF_OBJECTS: [&str; 6] = [
    "crd_type",
    "customresource_group",
    "customresource_kind",
    "customresource_version",
    "name",
    "namespace",
];

/// Renders the families whose names begin with one of these.
pub(super) fn own(starts: &[&str]) -> anyhow::Result<String> {
    let all = reference::own().context("describe the metrics")?;
    let ours = all
        .into_iter()
        .filter(|family| starts.iter().any(|start| family.name.starts_with(start)));
    Ok(table(ours, &[]))
}

/// Renders the state of objects.
pub(super) fn state() -> anyhow::Result<String> {
    let all = reference::state().context("describe the state metrics")?;
    Ok(table(all.into_iter(), &OF_OBJECTS))
}

fn table(families: impl Iterator<Item = Described>, without: &[&str]) -> String {
    let rows: Vec<Vec<String>> = families
        .map(|family| {
            let labels = family
                .labels
                .iter()
                .filter(|label| !without.contains(&label.as_str()));
            let labels: Vec<String> = labels.map(|label| format!("`{label}`")).collect();
            vec![
                format!("`{}`", family.name),
                family.kind,
                labels.join(", "),
                family.help,
            ]
        })
        .collect();
    rendered(&["metric", "type", "labels", "what it tells"], &rows)
}
