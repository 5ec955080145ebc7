//! Rights, as the roles grant them.

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::rendered;
use crate::api::install::PREFIX;
use crate::generate::rbac;

/// Renders what one of the roles grants; `None` for an unknown one.
pub(super) fn table(of: &str) -> Option<String> {
    let rules = match of {
        "work" => rbac::watched(),
        "lease" => rbac::leader_election(),
        "ca" => rbac::webhook_ca(PREFIX),
        "bundle" => rbac::webhook_bundle(PREFIX),
        "viewer" => rbac::viewer(),
        "editor" => rbac::editor(),
        _ => return None,
    };
    let rows: Vec<Vec<String>> = rules.iter().map(row).collect();
    Some(rendered(
        &["API group", "resources", "only those named", "verbs"],
        &rows,
    ))
}

fn row(rule: &PolicyRule) -> Vec<String> {
    let words = |words: Option<&Vec<String>>| {
        let words = words.into_iter().flatten();
        let shown = words.map(|word| {
            if word.is_empty() {
                "core".to_owned()
            } else {
                format!("`{word}`")
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    vec![
        words(rule.api_groups.as_ref()),
        words(rule.resources.as_ref()),
        words(rule.resource_names.as_ref()),
        rule.verbs.join(", "),
    ]
}
