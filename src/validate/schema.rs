//! The schemas of our kinds, as far as a manifest can break them: types, required and unknown fields.
//!
//! Status is left out: the API server drops it from what people apply.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::domain::field::FieldError;
use crate::generate::crds;

/// The schemas of all kinds and versions that are served.
pub struct Schemas(Vec<Schema>);

struct Schema {
    kind: String,
    version: String,
    root: JSONSchemaProps,
}

impl Schemas {
    /// Takes them from the definitions that `generate crds` prints.
    pub fn new() -> Self {
        let mut all = Vec::new();
        for definition in crds::definitions() {
            for version in definition.spec.versions {
                if let Some(root) = version.schema.and_then(|schema| schema.open_api_v3_schema) {
                    all.push(Schema {
                        kind: definition.spec.names.kind.clone(),
                        version: version.name,
                        root,
                    });
                }
            }
        }
        Self(all)
    }

    /// Lists the versions of a kind; none for a kind that is not ours.
    pub fn versions(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.0.iter().filter(|schema| schema.kind == kind);
        of_kind.map(|schema| schema.version.as_str()).collect()
    }

    /// Names what in an object breaks the schema of its kind; `None` when there is no such kind or version.
    pub fn faults(&self, kind: &str, version: &str, object: &Value) -> Option<Vec<FieldError>> {
        let mut all = self.0.iter();
        let schema = all.find(|schema| schema.kind == kind && schema.version == version)?;
        let mut faults = Vec::new();
        let (Some(fields), Some(properties)) = (object.as_object(), &schema.root.properties) else {
            return Some(faults);
        };
        for (name, value) in fields {
            match properties.get(name) {
                None => faults.push(unknown(name)),
                Some(_) if matches!(name.as_str(), "status" | "metadata") => {}
                Some(property) => walk(name, property, value, &mut faults),
            }
        }
        // The root requires nothing; a spec whose fields are required is told field by field, as the API server does.
        if let Some(spec) = properties
            .get("spec")
            .filter(|_| !fields.contains_key("spec"))
        {
            required(
                "spec",
                spec,
                &Value::Object(serde_json::Map::new()),
                &mut faults,
            );
        }
        Some(faults)
    }
}

impl Default for Schemas {
    fn default() -> Self {
        Self::new()
    }
}

fn walk(path: &str, schema: &JSONSchemaProps, value: &Value, faults: &mut Vec<FieldError>) {
    if value.is_null() {
        // The API server drops nulls of fields that are not nullable.
        return;
    }
    let wanted = schema.type_.as_deref().unwrap_or_default();
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    if !fits {
        let detail = format!("must be of type {wanted}, not {}", type_of(value));
        faults.push(FieldError::wrong_type(path, &detail));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{name}");
                match property(schema, name) {
                    Property::Known(property) => walk(&path, property, value, faults),
                    Property::Any => {}
                    Property::Unknown => faults.push(unknown(&path)),
                }
            }
            required(path, schema, value, faults);
        }
        Value::Array(items) => {
            let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items else {
                return;
            };
            for (index, item) in items.iter().enumerate() {
                walk(&format!("{path}[{index}]"), schema, item, faults);
            }
        }
        Value::String(text) => check_length(path, schema, text, faults),
        _ => {}
    }
}

/// What a schema says of a field.
enum Property<'a> {
    Known(&'a JSONSchemaProps),
    Any,
    Unknown,
}

fn property<'a>(schema: &'a JSONSchemaProps, name: &str) -> Property<'a> {
    if let Some(known) = schema.properties.as_ref().and_then(|all| all.get(name)) {
        return Property::Known(known);
    }
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(schema)) => Property::Known(schema),
        Some(JSONSchemaPropsOrBool::Bool(true)) => Property::Any,
        _ if schema.x_kubernetes_preserve_unknown_fields == Some(true) => Property::Any,
        _ => Property::Unknown,
    }
}

fn required(path: &str, schema: &JSONSchemaProps, value: &Value, faults: &mut Vec<FieldError>) {
    for name in schema.required.iter().flatten() {
        if value.get(name).is_none_or(Value::is_null) && !has_default(schema, name) {
            faults.push(FieldError::required(format!("{path}.{name}"), ""));
        }
    }
}

fn has_default(schema: &JSONSchemaProps, name: &str) -> bool {
    let property = schema.properties.as_ref().and_then(|all| all.get(name));
    property.is_some_and(|property| property.default.is_some())
}

fn check_length(path: &str, schema: &JSONSchemaProps, text: &str, faults: &mut Vec<FieldError>) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(limit) = schema.max_length.filter(|limit| length > *limit) {
        let detail = format!("has {length} characters, more than {limit}");
        faults.push(FieldError::invalid_unshown(path, &detail));
    }
    if let Some(limit) = schema.min_length.filter(|limit| length < *limit) {
        let detail = format!("has {length} characters, fewer than {limit}");
        faults.push(FieldError::invalid_unshown(path, &detail));
    }
}

/// Writes whole numbers as such, `20.0` as 20: so the API server stores them.
pub fn with_integers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() && is_integer(value) => {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within 64 bits")]
            if let Some(whole) = value.as_f64().map(|float| float as i64) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(with_integers),
        Value::Object(fields) => fields.values_mut().for_each(with_integers),
        _ => {}
    }
}

/// A whole number that fits 64 bits, `20.0` as well: so the API server takes them.
fn is_integer(value: &Value) -> bool {
    let whole = |number: f64| number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0;
    value.is_i64() || (value.is_f64() && value.as_f64().is_some_and(whole))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn unknown(path: &str) -> FieldError {
    FieldError::forbidden(path, "there is no such field")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(kind: &str, object: &Value) -> Vec<String> {
        let faults = Schemas::new().faults(kind, "v1beta1", object).unwrap();
        faults.iter().map(ToString::to_string).collect()
    }

    fn image(spec: &Value) -> Value {
        json!({"apiVersion": "x", "kind": "Image", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn names_wrong_types_and_missing_and_unknown_fields() {
        assert_eq!(faults("Image", &image(&json!({"tag": "ubuntu"}))), [""; 0]);
        assert_eq!(
            faults("Image", &image(&json!({"tag": 1, "tga": "x"}))),
            [
                "spec.tag: Invalid value: must be of type string, not integer",
                "spec.tga: Forbidden: there is no such field"
            ]
        );
        assert_eq!(
            faults("Image", &image(&json!([]))),
            ["spec: Invalid value: must be of type object, not array"]
        );
        assert_eq!(
            faults("Organization", &json!({"kind": "Organization", "data": {}})),
            [
                "data: Forbidden: there is no such field",
                "spec.credentialsRef: Required value",
                "spec.webhookSecretRef: Required value"
            ]
        );
    }

    #[test]
    fn looks_into_lists_and_leaves_status_alone() {
        let pool = json!({
            "kind": "Pool",
            "spec": {
                "githubScopeRef": {"kind": "Repository", "name": "r", "uid": "x"},
                "providerName": "p", "flavor": "f", "imageName": "i", "osType": "linux", "osArch": "amd64",
                "enabled": "yes", "maxRunners": 1.5, "minIdleRunners": 2.0, "runnerBootstrapTimeout": 20,
                "tags": ["a", 1],
            },
            "status": {"whatever": 1},
        });
        assert_eq!(
            faults("Pool", &pool),
            [
                "spec.enabled: Invalid value: must be of type boolean, not string",
                "spec.githubScopeRef.uid: Forbidden: there is no such field",
                "spec.maxRunners: Invalid value: must be of type integer, not number",
                "spec.tags[1]: Invalid value: must be of type string, not integer",
            ]
        );
    }

    #[test]
    fn knows_only_its_own_kinds() {
        let schemas = Schemas::new();
        assert!(schemas.versions("Pool").contains(&"v1beta1"));
        assert!(schemas.versions("Deployment").is_empty());
        assert!(schemas.faults("Deployment", "v1", &json!({})).is_none());
    }
}
