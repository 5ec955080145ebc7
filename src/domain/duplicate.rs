//! When two Pools are the same, and what becomes of the second.

/// What becomes of a Pool that equals another living Pool of its namespace (`operator.duplicatePools`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DuplicatePools {
    /// It is refused.
    Deny,
    /// It is accepted with a warning that names the other.
    Warn,
    /// It is accepted in silence.
    Allow,
}
