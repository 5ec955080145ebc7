//! What can be wrong with a configuration, and how it is told.

use std::fmt;

/// Sort of a problem; decides the exit code.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Sort {
    /// A value is missing or wrong.
    Value,
    /// Something is written that the operator does not know or cannot read.
    Syntax,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Path of the setting, or `config file`.
    pub key: String,
    /// Sort of the problem.
    pub sort: Sort,
    /// What is wrong and what to do. Holds no secret.
    pub message: String,
}

/// Key of problems of the file as a whole.
pub(super) const FILE: &str = "config file";

impl Problem {
    /// Says whether the file could not be read as a whole, so that nothing is known of what it would have said.
    pub(super) fn is_about_file(&self) -> bool {
        self.key == FILE
    }

    /// Makes a problem of a setting.
    pub fn new(key: impl Into<String>, sort: Sort, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            sort,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// All that is wrong with a configuration; at least one problem.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Chooses the exit code: 1 for wrong values, 2 for what cannot be read or is not known.
    pub fn exit_code(&self) -> u8 {
        match self.0.iter().map(|problem| problem.sort).max() {
            Some(Sort::Syntax) => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid config:")?;
        self.0
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}
