//! Conversion of objects between the versions: v1beta1 is the hub, v1alpha1 the spoke.
//!
//! Only what the versions spell differently is touched; all else is carried as it came. That is more than thrift: the API server also
//! sends objects that are not whole. A manifest that leaves fields to the defaulting webhook, or the fields that one manager of a
//! server-side apply owns: what is absent stays absent, or a default would count as something the user wrote. For the same reason a
//! wrong value elsewhere in the object does not fail the conversion: it would make every list of the kind fail.
//!
//! What v1alpha1 cannot say is kept in annotations of the v1alpha1 object, which go on the way up and never reach the storage.

mod kept;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use thiserror::Error;

use self::kept::{Kept, RefKind};
use crate::api::meta::{API_VERSION, API_VERSION_V1ALPHA1};
use crate::api::refs::TypedRef;

/// Why an object cannot be converted.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum ConvertError {
    /// A part of the object is missing or is something else.
    #[error("{field} must be {wanted}")]
    Shape {
        /// Path of the part.
        field: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The kind has one version only, or is not ours.
    #[error("kind {0} has no versions to convert between")]
    Kind(String),
    /// A version that does not exist.
    #[error("version {0} does not exist")]
    Version(String),
}

/// A field of the spec that only v1beta1 has, with what makes a value fit its schema.
type Added = (&'static str, fn(&Value) -> bool);

/// How the spec of a kind differs between the versions.
struct Differences {
    /// v1alpha1 has `credentialsName` in the place of `credentialsRef`.
    has_credentials: bool,
    added: &'static [Added],
}

impl Differences {
    fn of(kind: &str) -> Option<Self> {
        const BALANCER: Added = ("poolBalancerType", Value::is_string);
        const WEBHOOK: Added = ("installWebhook", Value::is_boolean);
        const PRIORITY: Added = ("priority", Value::is_i64);
        let (has_credentials, added): (_, &[_]) = match kind {
            "Enterprise" => (true, &[BALANCER]),
            "Organization" | "Repository" => (true, &[BALANCER, WEBHOOK]),
            "Pool" => (false, &[PRIORITY]),
            "Image" | "Runner" => (false, &[]),
            _ => return None,
        };
        Some(Self {
            has_credentials,
            added,
        })
    }
}

/// Converts an object to another version, e.g. `garm-operator.mercedes-benz.com/v1alpha1`. An object that has that version already
/// comes back unchanged, whatever it is.
///
/// Metadata stay as they are, but for those annotations. Fails on a kind or version that we do not have, and where a part that has
/// to be converted is not what its schema says.
pub fn convert(mut object: Value, desired_api_version: &str) -> Result<Value, ConvertError> {
    let fields = object.as_object_mut().ok_or(ConvertError::Shape {
        field: "the object",
        wanted: "a JSON object",
    })?;
    let current = text(fields, "apiVersion")?;
    if current == desired_api_version {
        return Ok(object);
    }
    let kind = text(fields, "kind")?;
    let differences =
        Differences::of(kind).ok_or_else(|| ConvertError::Kind(short(kind).to_owned()))?;
    match (current, desired_api_version) {
        (API_VERSION_V1ALPHA1, API_VERSION) => up(fields, &differences)?,
        (API_VERSION, API_VERSION_V1ALPHA1) => down(fields, &differences)?,
        (API_VERSION | API_VERSION_V1ALPHA1, unknown) | (unknown, _) => {
            return Err(ConvertError::Version(short(unknown).to_owned()));
        }
    }
    fields.insert("apiVersion".to_owned(), desired_api_version.into());
    Ok(object)
}

/// Makes v1beta1 of v1alpha1.
fn up(object: &mut Map<String, Value>, differences: &Differences) -> Result<(), ConvertError> {
    let kept = Kept::take(object);
    let Some(spec) = spec(object)? else {
        return Ok(());
    };
    if differences.has_credentials {
        credentials_up(spec, &kept)?;
    }
    for (field, fits) in differences.added {
        // The object itself has the last word, should its version learn the field one day.
        let own = take(spec, field);
        let value = own.as_ref().or_else(|| kept.get(field));
        if let Some(value) = value.filter(|value| fits(value)) {
            spec.insert((*field).to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Makes v1alpha1 of v1beta1.
fn down(object: &mut Map<String, Value>, differences: &Differences) -> Result<(), ConvertError> {
    let mut kept = Kept::default();
    if let Some(spec) = spec(object)? {
        if differences.has_credentials {
            credentials_down(spec, &mut kept)?;
        }
        for (field, fits) in differences.added {
            if let Some(value) = take(spec, field).filter(fits) {
                kept.set(field, value);
            }
        }
    }
    kept.store(object)
}

/// Makes a reference of a name.
fn credentials_up(spec: &mut Map<String, Value>, kept: &Kept) -> Result<(), ConvertError> {
    spec.remove("credentialsRef");
    let Some(name) = take(spec, "credentialsName") else {
        return Ok(());
    };
    let Value::String(name) = name else {
        return Err(ConvertError::Shape {
            field: "spec.credentialsName",
            wanted: "a string",
        });
    };
    let reference = kept.credentials().unwrap_or_default().with_name(name);
    spec.insert("credentialsRef".to_owned(), json!(reference));
    Ok(())
}

/// Makes a name of a reference.
fn credentials_down(spec: &mut Map<String, Value>, kept: &mut Kept) -> Result<(), ConvertError> {
    spec.remove("credentialsName");
    let Some(reference) = take(spec, "credentialsRef") else {
        return Ok(());
    };
    let reference: TypedRef =
        serde_json::from_value(reference).map_err(|_| ConvertError::Shape {
            field: "spec.credentialsRef",
            wanted: "a reference with apiGroup, kind and name, all strings",
        })?;
    let (name, kind) = RefKind::split(reference);
    spec.insert("credentialsName".to_owned(), name.into());
    kept.set_credentials(&kind);
    Ok(())
}

/// The spec, or none: the API server accepts objects without one.
fn spec(object: &mut Map<String, Value>) -> Result<Option<&mut Map<String, Value>>, ConvertError> {
    match object.get_mut("spec") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(spec)) => Ok(Some(spec)),
        Some(_) => Err(ConvertError::Shape {
            field: "spec",
            wanted: "an object",
        }),
    }
}

/// Takes a field out; `null` is as good as absent, as the API server sees it too.
fn take(spec: &mut Map<String, Value>, field: &str) -> Option<Value> {
    spec.remove(field).filter(|value| !value.is_null())
}

fn text<'a>(object: &'a Map<String, Value>, field: &'static str) -> Result<&'a str, ConvertError> {
    let wanted = "a string";
    object
        .get(field)
        .and_then(Value::as_str)
        .ok_or(ConvertError::Shape { field, wanted })
}

/// The start of a word that is told back: whoever sends a long one need not read it whole.
fn short(word: &str) -> &str {
    let end = word
        .char_indices()
        .nth(100)
        .map_or(word.len(), |(at, _)| at);
    &word[..end]
}
