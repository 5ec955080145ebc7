//! Metadata of an object, as far as the API server would refuse what is written.

use serde_json::Value;

use crate::domain::field::FieldError;

/// Fields that hold one text.
const TEXTS: [&str; 3] = ["name", "generateName", "namespace"];
/// Fields that hold texts by name.
const MAPS: [&str; 2] = ["labels", "annotations"];
/// Fields that people have no business with, but that `kubectl get -o yaml` prints.
const OTHERS: [&str; 10] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Names what is wrong with metadata: types, names, fields that do not exist.
pub fn faults(metadata: &Value) -> Vec<FieldError> {
    let fields = match metadata {
        Value::Null => return Vec::new(),
        Value::Object(fields) => fields,
        _ => return vec![FieldError::wrong_type("metadata", "must be of type object")],
    };
    let mut faults = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("metadata.{name}");
        if TEXTS.contains(&name.as_str()) {
            faults.extend(text_fault(&path, name, value));
        } else if MAPS.contains(&name.as_str()) {
            faults.extend(map_faults(&path, value));
        } else if !OTHERS.contains(&name.as_str()) {
            faults.push(FieldError::forbidden(path, "there is no such field"));
        }
    }
    faults
}

fn text_fault(path: &str, field: &str, value: &Value) -> Option<FieldError> {
    let Some(text) = value.as_str() else {
        return Some(FieldError::wrong_type(path, "must be of type string"));
    };
    let (is_good, detail) = match field {
        "namespace" => (
            text.is_empty() || (text.len() <= 63 && !text.contains('.') && is_subdomain(text)),
            "must be up to 63 lower-case letters, digits and '-'",
        ),
        // What the API server adds ends with a letter or digit.
        "generateName" => (
            text.is_empty() || is_subdomain(&format!("{text}x")),
            "must be lower-case letters, digits, '-' and '.', and start with a letter or digit",
        ),
        _ => (
            text.is_empty() || is_subdomain(text),
            "must be up to 253 lower-case letters, digits, '-' and '.', and start and end with a letter or digit",
        ),
    };
    (!is_good).then(|| FieldError::invalid(path, text, detail))
}

fn map_faults(path: &str, value: &Value) -> Vec<FieldError> {
    let Some(fields) = value.as_object() else {
        return vec![FieldError::wrong_type(path, "must be of type object")];
    };
    let wrong = fields
        .iter()
        .filter(|(_, value)| !(value.is_string() || value.is_null()));
    wrong
        .map(|(name, _)| {
            FieldError::wrong_type(
                format!("{path}.{name}"),
                "must be of type string; put it in quotes",
            )
        })
        .collect()
}

/// Tells whether a text can name an object (an RFC 1123 subdomain).
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let mut bytes = label.bytes();
        bytes.all(|byte| plain(byte) || byte == b'-')
            && label.bytes().next().is_some_and(plain)
            && label.bytes().next_back().is_some_and(plain)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn knows_what_can_name_an_object() {
        for name in ["a", "a-b.c0", "0"] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a.", "a..b", "a-.b", &"a".repeat(254)] {
            assert!(!is_subdomain(name), "{name}");
        }
    }

    #[test]
    fn names_wrong_types_names_and_fields() {
        let paths = |metadata: Value| -> Vec<String> {
            faults(&metadata)
                .into_iter()
                .map(|fault| fault.path)
                .collect()
        };
        assert_eq!(
            paths(
                json!({"name": "a", "generateName": "a-", "namespace": "b", "labels": {"x": "1"}, "uid": "u"})
            ),
            [""; 0]
        );
        assert_eq!(paths(json!([1])), ["metadata"]);
        assert_eq!(
            paths(
                json!({"name": 123, "generateName": "Bad_", "namespace": "a.b", "labels": {"x": 1}, "annotations": {"paused": true}, "lables": {}})
            ),
            [
                "metadata.annotations.paused",
                "metadata.generateName",
                "metadata.labels.x",
                "metadata.lables",
                "metadata.name",
                "metadata.namespace"
            ]
        );
    }
}
