//! Settings by what they are about.

use super::rendered;
use crate::config::settings::{Kind, SETTINGS, Setting};

/// Renders the settings of one group; `None` for an unknown one.
pub(super) fn table(group: &str) -> Option<String> {
    let of_group = SETTINGS
        .iter()
        .filter(|setting| self::group(setting.key) == group);
    let rows: Vec<Vec<String>> = of_group.map(row).collect();
    (!rows.is_empty()).then(|| rendered(&["setting", "value", "default", "what it does"], &rows))
}

/// Says what a setting is about. Every setting has a group, so that none is missing in the pages that name all groups.
fn group(key: &str) -> &'static str {
    let starts = [
        ("garm.", "garm"),
        ("operator.poolDefaults.", "defaults"),
        ("operator.duplicatePools", "webhooks"),
        ("operator.webhook", "webhooks"),
        ("operator.lease", "election"),
        ("operator.leaderElection", "election"),
        ("operator.log", "ports"),
        ("operator.metrics", "ports"),
        ("operator.health", "ports"),
        ("operator.stateMetrics", "ports"),
        ("operator.stuckAfter", "ports"),
    ];
    let found = starts.iter().find(|(start, _)| key.starts_with(start));
    found.map_or("work", |(_, group)| group)
}

fn row(setting: &Setting) -> Vec<String> {
    let Setting {
        key,
        flag,
        env,
        kind,
        default,
        help,
        aliases,
    } = setting;
    let mut names = format!("<a id=\"{flag}\"></a>`{key}`<br>`--{flag}`<br>`{env}`");
    let shown = aliases.iter().filter(|alias| alias.shown);
    names.extend(shown.map(|alias| format!("<br>also `--{}`", alias.flag)));
    let value = match kind {
        Kind::Text => "text",
        Kind::Secret => "text, never shown",
        Kind::File => "path",
        Kind::Bool => "yes or no",
        Kind::Number => "number",
        Kind::Duration => "duration",
    };
    let default = if default.is_empty() {
        String::new()
    } else {
        format!("`{default}`")
    };
    vec![names, value.to_owned(), default, (*help).to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_one_of_six_groups() {
        let tables = ["garm", "work", "ports", "election", "webhooks", "defaults"].map(table);
        let all: String = tables.into_iter().flatten().collect();
        for setting in SETTINGS {
            let name = format!("`--{}`<br>`{}`", setting.flag, setting.env);
            assert_eq!(all.matches(&name).count(), 1, "{name}");
        }
        assert!(all.contains("also `--operator-sync-runners`"));
        assert!(!all.contains("reconcilation"));
        assert_eq!(table("other"), None);
    }
}
