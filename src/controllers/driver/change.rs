//! What a step would change in GARM, for people who look before it is done.

use serde::Serialize;
use serde_json::{Map, Value};

/// Fields whose values are not shown: they are long, or people keep secrets there.
const HIDDEN: [&str; 2] = ["extra_specs", "ca_cert_bundle"];

/// One change of GARM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// What the object describes is made.
    Make,
    /// What GARM holds already becomes the object's, and is not changed by that.
    Take,
    /// Fields change.
    Update(Vec<FieldChange>),
    /// Something is removed.
    Remove(String),
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Name of the field, as objects spell it.
    pub field: String,
    /// Its value in GARM, as JSON.
    pub from: String,
    /// Its value by the object, as JSON.
    pub to: String,
}

/// Lists what an update changes: `before` holds all fields as they are, `after` those that change.
///
/// Neither may hold a secret.
pub fn update(before: &impl Serialize, after: &impl Serialize) -> Vec<Change> {
    let (before, after) = (fields(before), fields(after));
    let changes: Vec<FieldChange> = after
        .into_iter()
        .map(|(name, to)| {
            let from = before.get(&name).unwrap_or(&Value::Null);
            let is_hidden = HIDDEN.contains(&name.as_str());
            let shown = |value: &Value| {
                if is_hidden {
                    "(not shown)".to_owned()
                } else {
                    value.to_string()
                }
            };
            FieldChange {
                from: shown(from),
                to: shown(&to),
                field: camel(&name),
            }
        })
        .collect();
    if changes.is_empty() {
        Vec::new()
    } else {
        vec![Change::Update(changes)]
    }
}

fn fields(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Spells GARM's name of a field as objects do.
fn camel(name: &str) -> String {
    let mut words = name.split(['_', '-']);
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_what_changes_and_no_extra_specs() {
        let before = json!({"max_runners": 4, "github-runner-group": "a", "extra_specs": {"token": "hunter2"}});
        let after = json!({"max_runners": 6, "github-runner-group": "", "extra_specs": {"token": "hunter3"}});
        let changes = update(&before, &after);
        let [Change::Update(fields)] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        let told: Vec<String> = fields
            .iter()
            .map(|change| format!("{}: {} -> {}", change.field, change.from, change.to))
            .collect();
        assert_eq!(
            told,
            [
                "extraSpecs: (not shown) -> (not shown)",
                "githubRunnerGroup: \"a\" -> \"\"",
                "maxRunners: 4 -> 6",
            ]
        );
        assert!(update(&before, &json!({})).is_empty());
    }
}
