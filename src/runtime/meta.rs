//! Changes of an object's metadata: annotations and finalizers, in one merge patch.

use std::fmt::Debug;

use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::api::meta::has_finalizer;

/// A change of metadata; what is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaPatch<'a> {
    /// Annotations to set, or to remove where there is no value.
    pub annotations: &'a [(&'a str, Option<&'a str>)],
    /// The whole new list of finalizers.
    pub finalizers: Option<Vec<String>>,
    /// The version the change was decided on. With finalizers it is needed, as their list is replaced as a whole;
    /// a stale one is answered 409.
    pub resource_version: Option<&'a str>,
}

impl MetaPatch<'_> {
    /// Builds the merge patch.
    fn body(&self) -> Value {
        let mut metadata = Map::new();
        if !self.annotations.is_empty() {
            let annotations: Map<String, Value> = self
                .annotations
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.into()))
                .collect();
            metadata.insert("annotations".into(), annotations.into());
        }
        if let Some(finalizers) = &self.finalizers {
            metadata.insert("finalizers".into(), json!(finalizers));
        }
        if let Some(version) = self.resource_version {
            metadata.insert("resourceVersion".into(), version.into());
        }
        json!({ "metadata": metadata })
    }
}

/// Sends a change of metadata and answers the metadata as stored afterwards.
pub async fn patch_metadata<K>(
    api: &Api<K>,
    name: &str,
    change: &MetaPatch<'_>,
) -> kube::Result<ObjectMeta>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let answer = api
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(change.body()))
        .await?;
    Ok(answer.metadata)
}

/// Gives the list with `finalizer` added; `None` when it is there.
pub fn with_finalizer(meta: &ObjectMeta, finalizer: &str) -> Option<Vec<String>> {
    if has_finalizer(meta, finalizer) {
        return None;
    }
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    Some(finalizers)
}

/// Gives the list with `finalizer` removed; `None` when it is not there.
pub fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Option<Vec<String>> {
    if !has_finalizer(meta, finalizer) {
        return None;
    }
    let finalizers = meta.finalizers.iter().flatten();
    Some(
        finalizers
            .filter(|&name| name != finalizer)
            .cloned()
            .collect(),
    )
}

/// Adds `finalizer` to the object with this metadata; answers the metadata as stored. A terminating object takes no
/// new finalizer: the API server answers 422. `meta` comes from a cache, which may be behind: a conflict is decided again on what is stored,
/// unless that is another object by now.
pub async fn add_finalizer<K>(
    api: &Api<K>,
    meta: &ObjectMeta,
    finalizer: &str,
) -> kube::Result<ObjectMeta>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut current = meta.clone();
    let mut conflicts = 0;
    while let Some(finalizers) = with_finalizer(&current, finalizer) {
        match replace_finalizers(api, &current, finalizers).await {
            Err(kube::Error::Api(status)) if status.code == 409 && conflicts < CONFLICTS => {
                conflicts += 1;
                let name = meta.name.as_deref().unwrap_or_default();
                let stored = api.get_metadata(name).await?.metadata;
                if stored.uid != meta.uid {
                    return Err(kube::Error::Api(status));
                }
                current = stored;
            }
            answer => return answer,
        }
    }
    Ok(current)
}

/// Removes `finalizer` from the object with this metadata; an object that is gone has none. Answers the metadata as they are since, of an
/// object that goes with its last finalizer those that it had in the end.
///
/// A conflict is answered as such: whoever wrote meanwhile may have stored the id of what is still to be removed, so that everything has to be
/// looked at again before the object may go.
pub async fn remove_finalizer<K>(
    api: &Api<K>,
    meta: &ObjectMeta,
    finalizer: &str,
) -> kube::Result<Option<ObjectMeta>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let Some(finalizers) = without_finalizer(meta, finalizer) else {
        return Ok(Some(meta.clone()));
    };
    match replace_finalizers(api, meta, finalizers).await {
        Ok(meta) => Ok(Some(meta)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// How often the addition of a finalizer is decided again because the object has changed meanwhile.
const CONFLICTS: u32 = 3;

/// Replaces the list of finalizers of exactly this version of an object.
async fn replace_finalizers<K>(
    api: &Api<K>,
    meta: &ObjectMeta,
    finalizers: Vec<String>,
) -> kube::Result<ObjectMeta>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let patch = MetaPatch {
        finalizers: Some(finalizers),
        resource_version: meta.resource_version.as_deref(),
        ..MetaPatch::default()
    };
    patch_metadata(api, meta.name.as_deref().unwrap_or_default(), &patch).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::runtime::testing::{FakeApi, Reply};

    fn held(finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            finalizers: Some(finalizers.iter().map(|&name| name.to_owned()).collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn keeps_the_finalizers_of_others() {
        assert_eq!(with_finalizer(&held(&["a"]), "b").unwrap(), ["a", "b"]);
        assert_eq!(with_finalizer(&ObjectMeta::default(), "b").unwrap(), ["b"]);
        assert_eq!(with_finalizer(&held(&["b"]), "b"), None);
        assert_eq!(
            without_finalizer(&held(&["a", "b", "c"]), "b").unwrap(),
            ["a", "c"]
        );
        assert!(without_finalizer(&held(&["b"]), "b").unwrap().is_empty());
        assert_eq!(without_finalizer(&held(&["a"]), "b"), None);
    }

    #[test]
    fn names_only_what_changes() {
        let change = MetaPatch {
            annotations: &[("set", Some("1")), ("removed", None)],
            resource_version: Some("7"),
            ..MetaPatch::default()
        };
        assert_eq!(
            change.body(),
            json!({"metadata": {"annotations": {"set": "1", "removed": null}, "resourceVersion": "7"}})
        );
        let change = MetaPatch {
            finalizers: Some(Vec::new()),
            ..MetaPatch::default()
        };
        assert_eq!(change.body(), json!({"metadata": {"finalizers": []}}));
    }

    fn stored(uid: &str, version: &str, finalizers: &[&str]) -> Value {
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": {
                "name": "a", "namespace": "ns", "uid": uid,
                "resourceVersion": version, "finalizers": finalizers,
            },
        })
    }

    fn cached() -> ObjectMeta {
        serde_json::from_value(stored("u", "1", &["ours"])["metadata"].clone()).unwrap()
    }

    /// Answers the first patch with a conflict, later ones with success, and reads with `object`.
    fn conflicting(object: Value) -> FakeApi {
        let patches = AtomicUsize::new(0);
        FakeApi::new(move |request| match request.method.as_str() {
            "PATCH" if patches.fetch_add(1, Ordering::SeqCst) == 0 => {
                Reply::status(409, "Conflict", "changed meanwhile")
            }
            _ => Reply::json(&object),
        })
    }

    #[tokio::test]
    async fn adds_to_what_is_stored_by_then() {
        let fake = conflicting(stored("u", "2", &["other"]));
        let api: Api<ConfigMap> = Api::namespaced(fake.client(), "ns");
        add_finalizer(&api, &cached(), "new").await.unwrap();
        let requests = fake.requests();
        assert_eq!(requests.len(), 3);
        assert_eq!(
            requests[2].body["metadata"],
            json!({"finalizers": ["other", "new"], "resourceVersion": "2"})
        );
    }

    #[tokio::test]
    async fn lets_go_of_nothing_but_what_was_looked_at() {
        let fake = conflicting(stored("u", "2", &["ours"]));
        let api: Api<ConfigMap> = Api::namespaced(fake.client(), "ns");
        let error = remove_finalizer(&api, &cached(), "ours").await.unwrap_err();
        assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
        let requests = fake.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(
            requests[0].body["metadata"],
            json!({"finalizers": [], "resourceVersion": "1"})
        );
    }

    #[tokio::test]
    async fn leaves_another_object_of_the_same_name_alone() {
        let fake = conflicting(stored("another", "2", &["ours"]));
        let api: Api<ConfigMap> = Api::namespaced(fake.client(), "ns");
        let error = add_finalizer(&api, &cached(), "new").await.unwrap_err();
        assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
        assert_eq!(fake.requests().len(), 2);
    }

    #[tokio::test]
    async fn a_finalizer_of_an_object_that_is_gone_is_gone() {
        let fake = FakeApi::new(|_| Reply::status(404, "NotFound", "gone"));
        let api: Api<ConfigMap> = Api::namespaced(fake.client(), "ns");
        remove_finalizer(&api, &cached(), "ours").await.unwrap();
    }
}
