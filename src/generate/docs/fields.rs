//! Fields and columns of a kind, as its CRD describes them.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionVersion, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use serde_json::{Value, json};

use super::{super::crds, rendered};
use crate::api::meta::VERSION;
use crate::domain::defaults::PoolDefaults;

/// Renders the fields of `spec` or `status`; `None` where the kind has none.
pub(super) fn table(kind: &str, part: &str) -> Option<String> {
    let schema = version(kind)?.schema?.open_api_v3_schema?;
    let part_schema = schema.properties?.remove(part)?;
    let filled_in = match (kind, part) {
        ("Pool", "spec") => defaults(),
        _ => Value::Null,
    };
    let mut rows = Vec::new();
    walk("", &part_schema, &filled_in, &mut rows);
    let head = match part {
        "spec" => &["field", "type", "required", "what it is"][..],
        _ => &["field", "type", "what it is"],
    };
    if part != "spec" {
        for row in &mut rows {
            row.remove(2);
        }
    }
    let rules = part_schema.x_kubernetes_validations.unwrap_or_default();
    let rules = rules.into_iter().filter_map(|rule| rule.message);
    let rules: Vec<String> = rules
        .map(|rule| format!("\nRule of the schema: {rule}.\n"))
        .collect();
    (!rows.is_empty()).then(|| rendered(head, &rows) + &rules.concat())
}

/// Renders what `kubectl get` shows, and with `-o wide`.
pub(super) fn columns(kind: &str) -> Option<String> {
    let columns = version(kind)?.additional_printer_columns?;
    let row = |name: &str, path: &str, is_wide: bool| {
        let wide = if is_wide { "`-o wide`" } else { "" };
        vec![format!("`{name}`"), format!("`{path}`"), wide.to_owned()]
    };
    let rows: Vec<Vec<String>> = columns
        .iter()
        .map(|column| {
            let is_wide = column.priority.unwrap_or_default() > 0;
            row(&column.name, &column.json_path, is_wide)
        })
        .collect();
    Some(rendered(&["column", "shows", ""], &rows))
}

fn version(kind: &str) -> Option<CustomResourceDefinitionVersion> {
    let mut all = crds::definitions().into_iter();
    let crd = all.find(|crd| crd.spec.names.kind == kind)?;
    let mut versions = crd.spec.versions.into_iter();
    versions.find(|version| version.name == VERSION)
}

/// What admission fills in where a Pool says nothing, as long as nobody configured anything else.
fn defaults() -> Value {
    let mut pool = json!({"spec": {}});
    PoolDefaults::default().fill(&mut pool);
    pool["spec"].take()
}

fn walk(above: &str, schema: &JSONSchemaProps, filled_in: &Value, rows: &mut Vec<Vec<String>>) {
    let required = schema.required.clone().unwrap_or_default();
    let properties: &BTreeMap<_, _> = match &schema.properties {
        Some(properties) => properties,
        None => return,
    };
    for (name, field) in properties {
        let path = format!("{above}{name}");
        let by_admission = &filled_in[name];
        let is_required =
            required.contains(name) && by_admission.is_null() && field.default.is_none();
        rows.push(vec![
            format!("`{path}`"),
            type_of(field),
            if is_required { "yes" } else { "" }.to_owned(),
            sentences(field, by_admission),
        ]);
        if name == "conditions" {
            continue;
        }
        let below = match &field.items {
            Some(JSONSchemaPropsOrArray::Schema(items)) => (format!("{path}[]."), &**items),
            _ => (format!("{path}."), field),
        };
        walk(&below.0, below.1, &Value::Null, rows);
    }
}

fn type_of(field: &JSONSchemaProps) -> String {
    let of = |field: &JSONSchemaProps| field.type_.clone().unwrap_or_default();
    match &field.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => format!("list of {}s", of(items)),
        _ => of(field),
    }
}

/// The description, the default, and what bounds a value.
fn sentences(field: &JSONSchemaProps, by_admission: &Value) -> String {
    let mut all = vec![
        field
            .description
            .clone()
            .unwrap_or_default()
            .replace('\n', " "),
    ];
    let of_schema = field.default.as_ref().map(|value| &value.0);
    let default = of_schema.filter(|value| !value.is_null());
    match (default, by_admission) {
        (Some(value), _) => all.push(format!("Default: `{value}`.")),
        (None, Value::Null) => {}
        (None, value) => all.push(format!("Default: `{}`.", plain(value))),
    }
    let bounds = [("At least", field.minimum), ("At most", field.maximum)];
    let bounds = bounds
        .into_iter()
        .filter_map(|(word, bound)| Some(format!("{word} {}.", bound?)));
    all.extend(bounds);
    if let Some(values) = &field.enum_ {
        let values: Vec<String> = values
            .iter()
            .map(|value| format!("`{}`", plain(&value.0)))
            .collect();
        all.push(format!("One of {}.", values.join(", ")));
    }
    all.join(" ")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_type_need_and_default_of_each_field() {
        let pool = table("Pool", "spec").unwrap();
        for row in [
            "| `githubScopeRef.kind` | string | yes | Kind of the object referred to. |",
            "| `osType` | string |  | Operating system of the runners: `linux` or `windows`. Default: `linux`. |",
            "| `tags` | list of strings | yes | Labels of the runners; a job runs where all its labels are. |",
            "| `minIdleRunners` | integer |  | Number of idle runners kept ready. Default: `0`. |",
            "Rule of the schema: minIdleRunners must be less than or equal to maxRunners.",
        ] {
            assert!(pool.contains(row), "no {row} in\n{pool}");
        }
        let status = table("Pool", "status").unwrap();
        assert!(status.contains("| `runners.idle` | integer | Runners that wait for a job. |"));
        assert!(status.contains("| `conditions` | list of objects |"));
        assert!(!status.contains("conditions[]"));
        let runner = table("Runner", "status").unwrap();
        assert!(
            runner.contains("| `addresses[].address` | string |"),
            "{runner}"
        );
        assert_eq!(table("Runner", "spec"), None);
    }

    #[test]
    fn columns_tell_which_are_wide() {
        let pool = columns("Pool").unwrap();
        assert!(pool.contains("| `Idle` | `.status.runners.idle` |  |"));
        assert!(pool.contains("| `Flavor` | `.spec.flavor` | `-o wide` |"));
    }
}
