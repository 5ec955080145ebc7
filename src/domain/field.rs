//! Faults of single fields, told the way the API server tells its own.

use std::fmt;

use serde_json::Value;

/// Longest part of a refused value that a message repeats, in characters.
const SHOWN_VALUE: usize = 80;

/// What sort of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The value breaks a rule.
    Invalid,
    /// The value is missing.
    Required,
    /// The value must not be given here.
    Forbidden,
    /// The value is that of another object.
    Duplicate,
    /// The value is none of a list.
    NotSupported,
    /// The value is of another type.
    TypeInvalid,
}

impl Cause {
    /// The word for programs, as causes in a `Status` of the API server bear it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One fault of one field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path below the object, such as `spec.maxRunners`.
    pub path: String,
    /// The sort of fault.
    pub cause: Cause,
    /// What is wrong and what to do, in the words of the API server: `Invalid value: "b": …`.
    pub message: String,
}

impl FieldError {
    fn new(cause: Cause, path: impl Into<String>, message: String) -> Self {
        Self {
            path: path.into(),
            cause,
            message,
        }
    }

    /// Refuses a value that breaks a rule.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        let message = format!("Invalid value: {}: {detail}", shown(&value.into()));
        Self::new(Cause::Invalid, path, message)
    }

    /// Refuses a value without repeating it, because it is long or may hold secrets.
    pub fn invalid_unshown(path: impl Into<String>, detail: &str) -> Self {
        Self::new(Cause::Invalid, path, format!("Invalid value: {detail}"))
    }

    /// Asks for a value; `detail` may be empty.
    pub fn required(path: impl Into<String>, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        let message = format!("Required value{colon}{detail}");
        Self::new(Cause::Required, path, message)
    }

    /// Refuses that the field is set, or set so.
    pub fn forbidden(path: impl Into<String>, detail: &str) -> Self {
        Self::new(Cause::Forbidden, path, format!("Forbidden: {detail}"))
    }

    /// Refuses values that another object has.
    pub fn duplicate(path: impl Into<String>, detail: &str) -> Self {
        let message = format!("Duplicate value: {detail}");
        Self::new(Cause::Duplicate, path, message)
    }

    /// Refuses a value that is none of those supported.
    pub fn not_supported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(&value.into()),
            supported.join(", ")
        );
        Self::new(Cause::NotSupported, path, message)
    }

    /// Refuses a value of the wrong type.
    pub fn wrong_type(path: impl Into<String>, detail: &str) -> Self {
        Self::new(Cause::TypeInvalid, path, format!("Invalid value: {detail}"))
    }

    /// Refuses another value of a field that GARM cannot change.
    pub fn immutable(path: impl Into<String>, old: &str, new: &str) -> Self {
        let detail = format!(
            "cannot be changed from {}; delete the object and make it anew",
            shown(&old.into())
        );
        Self::invalid(path, new, &detail)
    }
}

/// Shows a value as JSON; long text is cut.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN_VALUE => {
            let start: String = text.chars().take(SHOWN_VALUE).collect();
            format!("{}…", Value::from(start))
        }
        other => other.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Joins faults to one sentence for a condition or an event.
pub fn sentence(errors: &[FieldError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_like_those_of_the_api_server() {
        for (fault, text, reason) in [
            (
                FieldError::invalid("spec.a", -1, "must be greater than 0"),
                "spec.a: Invalid value: -1: must be greater than 0",
                "FieldValueInvalid",
            ),
            (
                FieldError::immutable("spec.a", "old\"", "new"),
                r#"spec.a: Invalid value: "new": cannot be changed from "old\""; delete the object and make it anew"#,
                "FieldValueInvalid",
            ),
            (
                FieldError::required("spec.a", ""),
                "spec.a: Required value",
                "FieldValueRequired",
            ),
            (
                FieldError::not_supported("spec.a", "c", &["a", "b"]),
                r#"spec.a: Unsupported value: "c": supported values: "a", "b""#,
                "FieldValueNotSupported",
            ),
            (
                FieldError::duplicate("spec", "Pool x has the same"),
                "spec: Duplicate value: Pool x has the same",
                "FieldValueDuplicate",
            ),
        ] {
            assert_eq!(fault.to_string(), text);
            assert_eq!(fault.cause.reason(), reason);
        }
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let fault = FieldError::invalid("spec.a", "ä".repeat(10_000), "too long");
        assert_eq!(
            fault.message,
            format!("Invalid value: \"{}\"…: too long", "ä".repeat(80))
        );
    }
}
