//! What v1beta1 says and v1alpha1 cannot, kept in annotations of the v1alpha1 object, one for each field.
//!
//! One for all would not do. When a manager of a server-side apply gives up a field of v1beta1, the API server takes the field out in
//! v1beta1, compares both states in the versions of all other managers, and puts back every field that is in both: an annotation that
//! holds one thing less would come back with all it held before.
//!
//! Annotations are text that any client may change or send with a new object. So what they hold counts as written by the user: only
//! fields that v1beta1 lets a user write are read from them, only with a value that the schema of v1beta1 accepts (the API server
//! checks what comes in against v1alpha1 alone), and admission judges the converted object. What does not fit is passed over.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ConvertError;
use crate::api::meta::{GROUP, V1BETA1_FIELD};
use crate::api::refs::TypedRef;

/// Most that all annotations of an object may hold together, keys and values, in bytes. The API server refuses more, also in an answer
/// of a conversion.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Name under which the kind and group of the credentials are kept.
const CREDENTIALS: &str = "credentialsRef";

/// Fields of the spec of v1beta1 by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept(Map<String, Value>);

/// A reference without its name; what v1alpha1 means unless told otherwise is the default.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefKind {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) api_group: Option<String>,
    pub(super) kind: String,
}

impl Default for RefKind {
    fn default() -> Self {
        Self {
            api_group: Some(GROUP.to_owned()),
            kind: "GitHubCredential".to_owned(),
        }
    }
}

impl RefKind {
    /// Parts a reference into its name and the rest.
    pub(super) fn split(reference: TypedRef) -> (String, Self) {
        let TypedRef {
            api_group,
            kind,
            name,
        } = reference;
        (name, Self { api_group, kind })
    }

    /// Makes it whole again.
    pub(super) fn with_name(self, name: String) -> TypedRef {
        let Self { api_group, kind } = self;
        TypedRef {
            api_group,
            kind,
            name,
        }
    }
}

impl Kept {
    /// Takes the annotations off an object and reads them. Broken ones are as good as none.
    pub(super) fn take(object: &mut Map<String, Value>) -> Self {
        let mut kept = Self::default();
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return kept;
        };
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
            return kept;
        };
        let before = annotations.len();
        annotations.retain(|name, value| {
            let Some(field) = name.strip_prefix(V1BETA1_FIELD) else {
                return true;
            };
            let text = value.as_str().unwrap_or_default();
            if let Ok(value) = serde_json::from_str(text) {
                kept.set(field, value);
            }
            false
        });
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
        kept
    }

    /// Puts the annotations on an object, in the place of any others that it has under such names.
    ///
    /// What there is no room for is left out: it is lost only if the object is written back as v1alpha1, while a failure would keep
    /// everybody from listing the kind.
    pub(super) fn store(self, object: &mut Map<String, Value>) -> Result<(), ConvertError> {
        let _ = Self::take(object);
        if self.0.is_empty() {
            return Ok(());
        }
        let metadata = child(object, "metadata", "metadata")?;
        let annotations = child(metadata, "annotations", "metadata.annotations")?;
        let mut used: usize = annotations
            .iter()
            .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
            .sum();
        for (field, value) in self.0 {
            let (name, text) = (format!("{V1BETA1_FIELD}{field}"), value.to_string());
            let more = name.len() + text.len();
            if used + more <= ANNOTATIONS_MAX {
                used += more;
                annotations.insert(name, text.into());
            }
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        Ok(())
    }

    /// The kind and group of the credentials, if kept.
    pub(super) fn credentials(&self) -> Option<RefKind> {
        serde_json::from_value(self.0.get(CREDENTIALS)?.clone()).ok()
    }

    /// Keeps the kind and group of the credentials, unless they are what v1alpha1 means anyway.
    pub(super) fn set_credentials(&mut self, kind: &RefKind) {
        if *kind != RefKind::default() {
            self.set(CREDENTIALS, json!(kind));
        }
    }

    /// A field, if kept.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    /// Keeps a field.
    pub(super) fn set(&mut self, field: &str, value: Value) {
        self.0.insert(field.to_owned(), value);
    }
}

/// An object within an object, made when it is not there.
fn child<'a>(
    parent: &'a mut Map<String, Value>,
    name: &str,
    field: &'static str,
) -> Result<&'a mut Map<String, Value>, ConvertError> {
    let wanted = "an object";
    let child = parent.entry(name).or_insert(Value::Null);
    if child.is_null() {
        *child = Value::Object(Map::new());
    }
    child
        .as_object_mut()
        .ok_or(ConvertError::Shape { field, wanted })
}
