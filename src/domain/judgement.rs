//! What the rules of a kind say of a spec that somebody writes. Each kind has one function `judge`; admission and the offline validation ask no other.

use crate::domain::field::FieldError;

/// The answer.
#[derive(Debug, Default)]
pub struct Judgement {
    /// What is wrong, all faults at once.
    pub faults: Vec<FieldError>,
    /// What is allowed and probably not meant: path of the field, `: `, and message.
    pub doubts: Vec<String>,
    /// The objects that it refers to, which may come later.
    pub references: Vec<Reference>,
}

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reference {
    /// Path of the field.
    pub path: &'static str,
    /// Kind of what is referred to.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl Reference {
    /// Refers to an object by the field at `path`.
    pub fn new(path: &'static str, kind: &str, name: &str) -> Self {
        Self {
            path,
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }
}
