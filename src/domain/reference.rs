//! References between objects: the values under which objects are found by them, and what is said of one that leads nowhere.

use crate::api::meta::GROUP;
use crate::api::refs::{SecretKeyRef, TypedRef};
use crate::domain::field::FieldError;

/// Index value under which objects of all namespaces are found by name.
pub fn name_index(name: &str) -> String {
    format!("name:{}", name.to_lowercase())
}

/// Index value under which objects are found by their id in GARM.
pub fn id_index(id: &str) -> String {
    format!("id:{id}")
}

/// Index value under which objects are found by their uid.
pub fn uid_index(uid: &str) -> String {
    format!("uid:{uid}")
}

/// Index value under which objects are found by what they refer to in their own namespace.
pub fn reference_index(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}:{namespace}/{name}")
}

/// Says that an object that is referred to is not there. `key` is its namespace and name.
pub fn missing(kind: &str, key: impl std::fmt::Display) -> String {
    format!("{kind} {key} does not exist")
}

/// Says that a reference names another API group than ours, which is not looked at.
pub fn doubt(path: &str, reference: &TypedRef) -> Option<String> {
    let group = reference.api_group.as_deref().unwrap_or(GROUP);
    (!group.is_empty() && group != GROUP)
        .then(|| format!("{path}.apiGroup: {group:?} is taken for {GROUP}"))
}

/// Asks for name and key of a reference to a Secret.
pub fn secret_faults(path: &str, reference: &SecretKeyRef) -> Vec<FieldError> {
    [("name", &reference.name), ("key", &reference.key)]
        .into_iter()
        .filter(|(_, value)| value.is_empty())
        .map(|(field, _)| FieldError::required(format!("{path}.{field}"), ""))
        .collect()
}
