//! What v1beta1 says and v1alpha1 cannot, kept in an annotation of the v1alpha1 object.
//!
//! The annotation is text that any client may change or send with a new object. So what it holds counts as written by the user: only
//! fields that v1beta1 lets a user write are read from it, only with a value that the schema of v1beta1 accepts (the API server checks
//! what comes in against v1alpha1 alone), and admission judges the converted object. What does not fit is passed over.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ConvertError;
use crate::api::meta::{CONVERSION_DATA, GROUP};
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
    /// Takes the annotation off an object and reads it. Nothing is kept where it is broken.
    pub(super) fn take(object: &mut Map<String, Value>) -> Self {
        let mut read = || {
            let metadata = object.get_mut("metadata")?.as_object_mut()?;
            let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
            let text = annotations.remove(CONVERSION_DATA)?;
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
            serde_json::from_str(text.as_str()?).ok()
        };
        Self(read().unwrap_or_default())
    }

    /// Puts the annotation on an object, in the place of any other that it has under this name; none when nothing is to be kept.
    ///
    /// Without room for it the object goes without: the values are lost only if it is written back as v1alpha1, while a failure would
    /// keep everybody from listing the kind.
    pub(super) fn store(self, object: &mut Map<String, Value>) -> Result<(), ConvertError> {
        let _ = Self::take(object);
        if self.0.is_empty() {
            return Ok(());
        }
        let metadata = child(object, "metadata", "metadata")?;
        let annotations = child(metadata, "annotations", "metadata.annotations")?;
        let text = Value::Object(self.0).to_string();
        let used: usize = annotations
            .iter()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum();
        if used + CONVERSION_DATA.len() + text.len() <= ANNOTATIONS_MAX {
            annotations.insert(CONVERSION_DATA.to_owned(), text.into());
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
