//! Decoding that never fails: one bad stored object must not stop the watch of its kind.

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;
use std::borrow::Cow;

/// Annotation in which `kubectl apply` keeps a copy of the whole object.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is known of a stored object that does not decode: enough to tell its owner, and to delete it.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// `status.id` as text, where there is one: what a deletion needs to know of the status.
    pub id: Option<String>,
    /// What does not decode.
    pub error: String,
}

/// An object of kind `K`, or what is left of it when it does not decode.
///
/// Does the work of kube's `DeserializeGuard` and three things more: it keeps `status.id`, it drops what nobody
/// reads before decoding (so that nothing of it is ever allocated a second time), and it asks the API server for
/// metadata only where `K` does.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K>(pub(super) Result<K, Box<Invalid>>);

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut raw = Value::deserialize(deserializer)?;
        prune(&mut raw, K::metadata_api());
        Ok(Self(
            K::deserialize(&raw).map_err(|_| Box::new(Invalid::of::<K>(&raw))),
        ))
    }
}

impl Invalid {
    /// Decodes once more, slowly, to name the field.
    fn of<K: DeserializeOwned>(raw: &Value) -> Self {
        let error = serde_path_to_error::deserialize::<_, K>(raw).err();
        Self {
            // The API server has checked the metadata, so that the default is never taken.
            metadata: ObjectMeta::deserialize(&raw["metadata"]).unwrap_or_default(),
            id: match &raw["status"]["id"] {
                Value::String(id) => Some(id.clone()),
                Value::Number(id) => Some(id.to_string()),
                _ => None,
            },
            error: error.map(|error| error.to_string()).unwrap_or_default(),
        }
    }
}

/// Drops managed fields and the copy that `kubectl apply` leaves, half and more of an object's size. Objects held
/// as metadata only lose all annotations, because that copy repeats the data of a Secret.
fn prune(raw: &mut Value, metadata_only: bool) {
    let Some(metadata) = raw.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    if metadata_only {
        metadata.remove("annotations");
    } else if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST_APPLIED);
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0
            .as_ref()
            .map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0
            .as_mut()
            .map_or_else(|invalid| &mut invalid.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    fn decode<K: Resource + DeserializeOwned>(raw: Value) -> Guarded<K> {
        serde_json::from_value(raw).unwrap()
    }

    #[test]
    fn keeps_metadata_and_id_of_an_object_that_does_not_decode() {
        let raw = json!({"metadata": {"name": "a", "namespace": "ns"}, "data": 7, "status": {"id": "x-1"}});
        let invalid = decode::<ConfigMap>(raw).0.unwrap_err();
        assert_eq!(invalid.metadata.name.as_deref(), Some("a"));
        assert_eq!(invalid.id.as_deref(), Some("x-1"));
        assert!(
            invalid.error.starts_with("data: invalid type"),
            "{}",
            invalid.error
        );

        let raw = json!({"metadata": {"name": "a"}, "data": 7, "status": {"id": 12}});
        assert_eq!(
            decode::<ConfigMap>(raw).0.unwrap_err().id.as_deref(),
            Some("12")
        );
    }

    #[test]
    fn drops_what_nobody_reads() {
        let raw = json!({"metadata": {
            "name": "a",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "other": "1"},
        }, "data": {"k": "v"}});
        let meta = decode::<ConfigMap>(raw.clone()).0.unwrap().metadata;
        assert_eq!(meta.managed_fields, None);
        assert_eq!(
            meta.annotations,
            Some([("other".into(), "1".into())].into())
        );
        let meta = decode::<PartialObjectMeta<Secret>>(raw).0.unwrap().metadata;
        assert_eq!((meta.managed_fields, meta.annotations), (None, None));
    }

    #[test]
    fn asks_for_metadata_only_where_the_kind_does() {
        assert!(Guarded::<PartialObjectMeta<Secret>>::metadata_api());
        assert!(!Guarded::<Secret>::metadata_api());
    }
}
