//! Faults of single fields, told the way the API server tells its own.

use std::fmt;

/// One fault of one field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path below the object, such as `spec.maxRunners`.
    pub path: String,
    /// What is wrong and what to do, starting in lower case.
    pub message: String,
}

impl FieldError {
    /// Names the fault of the field at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
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
