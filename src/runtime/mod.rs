//! Kubernetes side of the process: one watch per kind, work queues, and the few ways in which objects are written.
//!
//! Nothing here knows GARM or a particular kind. Deciding parts are pure and take the time as a parameter
//! ([`hub`]'s store, [`queue`]'s core, the status difference); the shells around them only wait and send.

pub mod client;
pub mod hub;
pub mod lease;
pub mod meta;
pub mod pulse;
pub mod queue;
pub mod recorder;
pub mod secrets;
pub mod shutdown;
pub mod status;
#[cfg(test)]
pub(crate) mod testing;
pub mod worker;

use std::fmt;

use kube::core::ObjectMeta;

/// Names a namespaced object of a kind that is known from the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl ObjectKey {
    /// Builds a key from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Takes the key out of an object's metadata; absent parts become empty.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Cuts `text` to at most `max` bytes, on a character border: limits of the API server count bytes.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_a_key_as_namespace_and_name() {
        assert_eq!(ObjectKey::new("ci", "linux").to_string(), "ci/linux");
    }

    #[test]
    fn cuts_on_a_character_border() {
        assert_eq!(cut("häuser", 2), "h");
        assert_eq!(cut("häuser", 3), "hä");
        assert_eq!(cut("short", 10), "short");
        assert_eq!(cut("ä", 0), "");
    }
}
