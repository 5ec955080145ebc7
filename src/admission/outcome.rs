//! What a rule says of a request, and how it reads to the user: the API server prints a refusal as it prints its own.

use serde::Serialize;
use serde_json::Value;

use super::review::Request;
use crate::domain::field::FieldError;

/// Longest warning that the API server passes on whole, in bytes.
const WARNING: usize = 120;
/// Length of all warnings together from which the API server drops some, in bytes.
const WARNINGS: usize = 4096;

/// The answer to a request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Why it is refused; `None` when it is allowed.
    pub refusal: Option<Refusal>,
    /// A JSON patch of the object, as text.
    pub patch: Option<Vec<u8>>,
    warnings: Vec<String>,
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// Fields are wrong: 422 with causes.
    Invalid(Vec<FieldError>),
    /// It is not the time for it: 403 with a sentence.
    Forbidden(String),
}

/// What ends the judgement early.
#[derive(Debug)]
pub enum Stop {
    /// It is decided.
    Decided(Outcome),
    /// The request makes no sense: HTTP 400.
    Undecodable(String),
    /// Nothing can be said yet, for want of the objects of this kind: HTTP 503, so that the failure policy decides.
    NotReady(String),
}

impl From<Outcome> for Stop {
    fn from(outcome: Outcome) -> Self {
        Self::Decided(outcome)
    }
}

impl Outcome {
    /// Allows the request.
    pub fn allowed() -> Self {
        Self::default()
    }

    /// Allows the request with these operations of a JSON patch.
    pub fn patched(patch: &Value) -> Self {
        Self {
            patch: Some(patch.to_string().into_bytes()),
            ..Self::default()
        }
    }

    /// Refuses the request because of these fields; allows it where there are none.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        Self {
            refusal: (!errors.is_empty()).then_some(Refusal::Invalid(errors)),
            ..Self::default()
        }
    }

    /// Refuses the request.
    pub fn forbidden(message: String) -> Self {
        Self {
            refusal: Some(Refusal::Forbidden(message)),
            ..Self::default()
        }
    }

    /// Adds what the user ought to know, cut to what the API server passes on.
    #[must_use]
    pub fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        for warning in warnings {
            let warning = cut(warning, WARNING);
            let length: usize = self.warnings.iter().map(String::len).sum();
            if length + warning.len() <= WARNINGS {
                self.warnings.push(warning);
            }
        }
        self
    }

    /// What the user ought to know.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Cuts a text to a length in bytes, between characters.
fn cut(mut text: String, length: usize) -> String {
    const MORE: &str = "…";
    if text.len() > length {
        let ends = text.char_indices().map(|(start, _)| start);
        let end = ends.take_while(|end| *end <= length - MORE.len()).last();
        text.truncate(end.unwrap_or_default());
        text.push_str(MORE);
    }
    text
}

/// A refusal as the API server's own `Status`.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "as in the API")]
pub struct Status<'a> {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

#[derive(Debug, Serialize)]
struct Details<'a> {
    name: &'a str,
    group: &'a str,
    kind: &'a str,
    causes: Vec<Cause<'a>>,
}

#[derive(Debug, Serialize)]
struct Cause<'a> {
    reason: &'static str,
    message: &'a str,
    field: &'a str,
}

impl Refusal {
    /// Renders the refusal of a request.
    pub fn status<'a>(&'a self, request: &'a Request<'_>) -> Status<'a> {
        match self {
            Self::Invalid(errors) => invalid(errors, request),
            Self::Forbidden(message) => Status {
                status: "Failure",
                code: 403,
                reason: "Forbidden",
                message: message.clone(),
                details: None,
            },
        }
    }
}

/// kubectl prints the causes, other clients the message: both say everything.
fn invalid<'a>(errors: &'a [FieldError], request: &'a Request<'_>) -> Status<'a> {
    let (group, kind, name) = (&request.kind.group, &request.kind.kind, &request.name);
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let all = match all.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Status {
        status: "Failure",
        code: 422,
        reason: "Invalid",
        message: format!("{kind}.{group} {name:?} is invalid: {all}"),
        details: Some(Details {
            name,
            group,
            kind,
            causes: errors
                .iter()
                .map(|error| Cause {
                    reason: error.cause.reason(),
                    message: &error.message,
                    field: &error.path,
                })
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_to_what_the_api_server_passes_on() {
        let long = Outcome::allowed().warn(["ä".repeat(100)]);
        let [warning] = long.warnings() else {
            panic!("{:?}", long.warnings())
        };
        assert!(warning.len() <= 120 && warning.ends_with('…'), "{warning}");
        let many = Outcome::allowed().warn((0..1000).map(|n| format!("warning {n}")));
        let length: usize = many.warnings().iter().map(String::len).sum();
        assert!((4000..=4096).contains(&length), "{length}");
    }
}
