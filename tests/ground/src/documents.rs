//! Objects for the API server, and how what it answers is read.

use serde_json::{Value, json};

const GROUP: &str = "garm-operator.mercedes-benz.com";
const VERSION: &str = "garm-operator.mercedes-benz.com/v1beta1";

/// An object of the operator's kinds.
pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A reference to such an object, as in `credentialsRef`.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": kind, "name": name})
}

/// A Secret with these keys.
pub fn secret(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
}

/// A condition of an object, or null.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|condition| condition["type"] == type_)
        .unwrap_or(&Value::Null)
}

/// Whether an object says that it is Ready.
pub fn is_ready(object: &Value) -> bool {
    condition(object, "Ready")["status"] == "True"
}
