//! The envelope: reads an `AdmissionReview`, renders the answer. Objects stay text until a rule wants them: most of a review is never read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use super::hooks::Operation;
use super::outcome::{Outcome, Stop};
use crate::domain::field::FieldError;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// What the API server asks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request<'a> {
    /// Id of the request; the answer bears it.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// Kind of the object, in the version that our rules name.
    #[serde(borrow)]
    pub kind: Kind<'a>,
    /// Namespace of the object.
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// Name of the object; empty where the API server is still to make one, or deletes a collection.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// What is asked for.
    pub operation: Operation,
    /// Nothing is stored in the end.
    #[serde(default)]
    pub dry_run: Option<bool>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

/// A kind with its group and version.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "as in the API")]
pub struct Kind<'a> {
    /// API group.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    /// Version of the group.
    #[serde(borrow)]
    pub version: Cow<'a, str>,
    /// Kind.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// What is read of an object before its spec is.
#[derive(Debug, Deserialize)]
struct Object<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

/// What is read of the metadata of an object.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: Option<String>,
    /// Id; the API server has given one by the validating phase.
    pub uid: Option<String>,
    /// Set while the object is being deleted.
    deletion_timestamp: Option<String>,
    annotations: Option<Annotations>,
}

/// What is read of the annotations.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "garm-operator.mercedes-benz.com/adopt-id")]
    adopt_id: Option<String>,
}

impl Metadata {
    /// The pool in GARM that a Pool asks to take over.
    pub fn adopt_id(&self) -> Option<&str> {
        self.annotations.as_ref()?.adopt_id.as_deref()
    }
}

/// What there is to judge.
#[derive(Debug)]
pub struct Subject<S> {
    /// Metadata of the object as it is to be.
    pub metadata: Metadata,
    /// Metadata of the object as it was; empty for a new object.
    pub was: Metadata,
    /// The spec as it is to be.
    pub spec: S,
    /// The spec as it was; `None` for a new object, and where it does not decode.
    pub old: Option<S>,
}

/// Reads a review.
///
/// # Errors
/// Says why this is none.
pub fn parse(body: &[u8]) -> Result<Request<'_>, String> {
    // As a whole: what nobody reads would pass otherwise.
    let text = std::str::from_utf8(body).map_err(|_| format!("this is no {KIND}: no UTF-8"))?;
    // The reason repeats nothing of what was sent: it may hold what is nobody's business.
    let review: Review = serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("this is no {KIND}: line {line}, column {column}")
    })?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(format!("this is no {KIND} of {API_VERSION}"));
    }
    let request = review.request.ok_or("the review has no request")?;
    if request.uid.is_empty() {
        return Err("the request has no uid".to_owned());
    }
    Ok(request)
}

impl<'a> Request<'a> {
    /// Reads what there is to judge: nothing where the spec stays as it is or the object is terminating, so that neither a status, nor a label,
    /// nor the end of an object ever depends on a rule. The webhook configurations say the same, in CEL.
    ///
    /// # Errors
    /// A refusal when the spec does not decode; no verdict when the object is none.
    pub fn subject<S: DeserializeOwned + Default>(&self) -> Result<Option<Subject<S>>, Stop> {
        let Some((object, old)) = self.written()? else {
            return Ok(None);
        };
        let spec = decode(object.spec).map_err(|fault| Outcome::invalid(vec![fault]))?;
        let was = old.as_ref().map(|old| old.metadata.clone());
        Ok(Some(Subject {
            metadata: object.metadata,
            was: was.unwrap_or_default(),
            spec,
            old: old.and_then(|old| decode(old.spec).ok()),
        }))
    }

    /// Reads the spec that is written, as it was sent: nothing where [`Self::subject`] has nothing to judge.
    ///
    /// # Errors
    /// No verdict when the object is none.
    pub fn spec(&self) -> Result<Option<Value>, Stop> {
        let written = self.written()?;
        let spec = written.and_then(|(object, _)| object.spec);
        Ok(spec.and_then(|spec| serde_json::from_str(spec.get()).ok()))
    }

    /// The object as it is to be and, in an update, as it was, where the spec is written.
    fn written(&self) -> Result<Option<(Object<'a>, Option<Object<'a>>)>, Stop> {
        let is_update = match self.operation {
            Operation::Create => false,
            Operation::Update => true,
            Operation::Delete | Operation::Connect => return Ok(None),
        };
        let undecodable = |reason: &str| Stop::Undecodable(reason.to_owned());
        let raw = self
            .object
            .ok_or_else(|| undecodable("the request has no object"))?;
        let object: Object = serde_json::from_str(raw.get())
            .map_err(|_| undecodable("the object of the request is none"))?;
        if !is_update {
            return Ok(Some((object, None)));
        }
        // An old object that makes no sense must not keep anybody from mending it.
        let old = self
            .old_object
            .and_then(|raw| serde_json::from_str::<Object>(raw.get()).ok());
        let is_same = old.as_ref().is_some_and(|old| same(old.spec, object.spec));
        let is_terminating = object.metadata.deletion_timestamp.is_some();
        Ok((!is_same && !is_terminating).then_some((object, old)))
    }

    /// Reads the object that is to be deleted: metadata, and the spec where it decodes.
    pub fn deleted<S: DeserializeOwned + Default>(&self) -> (Metadata, S) {
        let object = self
            .old_object
            .and_then(|raw| serde_json::from_str::<Object>(raw.get()).ok());
        object.map_or_else(Default::default, |object| {
            (object.metadata, decode(object.spec).unwrap_or_default())
        })
    }

    /// Tells whether the request leaves no trace.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run == Some(true)
    }
}

/// Compares two specs as JSON values.
fn same(a: Option<&RawValue>, b: Option<&RawValue>) -> bool {
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a.get() == b.get() || value(a) == value(b),
        _ => false,
    }
}

/// Decodes a spec; an absent one has no fields.
fn decode<S: DeserializeOwned + Default>(raw: Option<&RawValue>) -> Result<S, FieldError> {
    let Some(raw) = raw else {
        return Ok(S::default());
    };
    serde_json::from_str(raw.get()).map_err(|error| {
        // Once more, to learn where: the plain way is faster.
        let mut text = serde_json::Deserializer::from_str(raw.get());
        match serde_path_to_error::deserialize::<_, S>(&mut text) {
            Ok(_) => FieldError::wrong_type("spec", &error.to_string()),
            Err(error) => {
                let path = error.path().to_string();
                let path = if path == "." {
                    "spec".to_owned()
                } else {
                    format!("spec.{path}")
                };
                FieldError::wrong_type(path, "is of the wrong type")
            }
        }
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<super::outcome::Status<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
}

/// Renders the answer to a request.
pub fn answer(request: &Request<'_>, outcome: &Outcome) -> Vec<u8> {
    use base64::Engine as _;
    let patch = outcome.patch.as_ref();
    let answer = Answer {
        api_version: API_VERSION,
        kind: KIND,
        response: Response {
            uid: &request.uid,
            allowed: outcome.refusal.is_none(),
            status: outcome.refusal.as_ref().map(|r| r.status(request)),
            warnings: outcome.warnings(),
            patch: patch.map(|patch| base64::engine::general_purpose::STANDARD.encode(patch)),
            patch_type: patch.map(|_| "JSONPatch"),
        },
    };
    // Text and numbers always render.
    serde_json::to_vec(&answer).unwrap_or_default()
}
