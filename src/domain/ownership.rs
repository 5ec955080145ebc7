//! Which of several objects in Kubernetes owns one object in GARM.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::meta;

/// What an object may do with the GARM object that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner: it alone writes to GARM.
    Owner,
    /// It is terminating and a living object claims the same: nothing is deleted in GARM.
    HandOver {
        /// `namespace/name` of the object that goes on with it.
        to: String,
    },
    /// Another object owns it: nothing is written to GARM for this one.
    Conflict {
        /// `namespace/name` of the owner.
        owner: String,
    },
}

impl Claim {
    /// `namespace/name` of the object that owns it instead of this one, terminating or not.
    pub fn other(&self) -> Option<&str> {
        match self {
            Self::Owner => None,
            Self::HandOver { to: other } | Self::Conflict { owner: other } => Some(other),
        }
    }
}

/// Judges one object among all that claim the same GARM object; `others` may contain `mine` itself.
///
/// The owner is the oldest living claimant, then the lowest namespace and name. A terminating object gives way to any living one, so that
/// deleting the owner never takes the GARM object away from somebody who still needs it.
pub fn claim<'a>(mine: &ObjectMeta, others: impl IntoIterator<Item = &'a ObjectMeta>) -> Claim {
    let first = others
        .into_iter()
        .filter(|other| other.uid != mine.uid)
        .min_by(|a, b| rank(a).cmp(&rank(b)));
    let Some(first) = first else {
        return Claim::Owner;
    };
    if rank(mine) < rank(first) {
        return Claim::Owner;
    }
    let name = display(first);
    if meta::is_terminating(mine) && !meta::is_terminating(first) {
        Claim::HandOver { to: name }
    } else {
        Claim::Conflict { owner: name }
    }
}

/// Orders objects that want the same: living before terminating, then by age, namespace and name.
pub fn rank(metadata: &ObjectMeta) -> (bool, Option<jiff::Timestamp>, Option<&str>, Option<&str>) {
    (
        meta::is_terminating(metadata),
        metadata.creation_timestamp.as_ref().map(|time| time.0),
        metadata.namespace.as_deref(),
        metadata.name.as_deref(),
    )
}

fn display(metadata: &ObjectMeta) -> String {
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn object(namespace: &str, second: i64, terminating: bool) -> ObjectMeta {
        let at = |s| Some(Time(jiff::Timestamp::from_second(s).unwrap()));
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some("x".to_owned()),
            uid: Some(format!("{namespace}-{second}")),
            creation_timestamp: at(second),
            deletion_timestamp: if terminating { at(99) } else { None },
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn the_oldest_owns_and_ties_go_by_namespace() {
        let (old, young) = (object("b", 1, false), object("a", 2, false));
        assert_eq!(claim(&old, [&old, &young]), Claim::Owner);
        assert_eq!(
            claim(&young, [&old, &young]),
            Claim::Conflict {
                owner: "b/x".to_owned()
            }
        );
        let (a, b) = (object("a", 1, false), object("b", 1, false));
        assert_eq!(claim(&a, [&b]), Claim::Owner);
        assert_eq!(
            claim(&b, [&a]),
            Claim::Conflict {
                owner: "a/x".to_owned()
            }
        );
    }

    #[test]
    fn a_terminating_owner_hands_over_and_the_living_one_takes_over_at_once() {
        let (old, young) = (object("a", 1, true), object("b", 2, false));
        assert_eq!(
            claim(&old, [&young]),
            Claim::HandOver {
                to: "b/x".to_owned()
            }
        );
        assert_eq!(claim(&young, [&old]), Claim::Owner);
        assert_eq!(claim(&old, [&young]).other(), Some("b/x"));
        assert_eq!(claim(&young, [&old]).other(), None);
    }

    #[test]
    fn of_two_terminating_ones_only_the_older_cleans_up() {
        let (old, young) = (object("a", 1, true), object("b", 2, true));
        assert_eq!(claim(&old, [&young]), Claim::Owner);
        assert_eq!(
            claim(&young, [&old]),
            Claim::Conflict {
                owner: "a/x".to_owned()
            }
        );
    }

    #[test]
    fn alone_is_owner() {
        let only = object("a", 1, false);
        assert_eq!(claim(&only, [&only]), Claim::Owner);
        assert_eq!(claim(&only, []), Claim::Owner);
    }
}
