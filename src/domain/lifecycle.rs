//! What a pass over an object may do at all, from its metadata alone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::meta;

/// What a pass over an object may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The object is going away and holds no finalizer of ours: nothing is to be done, and nothing may be written.
    Gone,
    /// A user asked to drop the object without looking at GARM (`force-delete: "true"` while terminating).
    ForceRelease,
    /// The object is paused: no GARM call, only a condition that says so.
    Paused,
    /// The object is terminating and waits for our clean-up.
    Delete,
    /// The object is alive and to be brought to its desired state.
    Live,
}

/// Decides from metadata what a pass may do. `finalizer` is the one this kind uses, if any.
///
/// Force-delete comes before pause, so that a paused object has a way out too. `heeds_force` is false for kinds that ignore it: there it
/// changes nothing, pause included.
pub fn disposition(
    metadata: &ObjectMeta,
    finalizer: Option<&str>,
    heeds_force: bool,
) -> Disposition {
    if meta::is_terminating(metadata) {
        let held = finalizer.is_some_and(|ours| meta::has_finalizer(metadata, ours));
        if !held {
            return Disposition::Gone;
        }
        if heeds_force && meta::has_flag(metadata, meta::FORCE_DELETE) {
            return Disposition::ForceRelease;
        }
        if meta::is_paused(metadata) {
            return Disposition::Paused;
        }
        return Disposition::Delete;
    }
    if meta::is_paused(metadata) {
        return Disposition::Paused;
    }
    Disposition::Live
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn object(terminating: bool, finalizer: bool, annotations: &[(&str, &str)]) -> ObjectMeta {
        ObjectMeta {
            deletion_timestamp: terminating.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            finalizers: finalizer.then(|| vec!["f".to_owned()]),
            annotations: Some(
                annotations
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            ),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_terminating_object_without_our_finalizer_is_never_touched() {
        let gone = object(true, false, &[(meta::FORCE_DELETE, "true")]);
        assert_eq!(disposition(&gone, Some("f"), true), Disposition::Gone);
        assert_eq!(
            disposition(&object(true, true, &[]), None, true),
            Disposition::Gone
        );
    }

    #[test]
    fn force_delete_works_on_a_paused_object_and_only_while_terminating() {
        let both = [(meta::FORCE_DELETE, "true"), (meta::PAUSED, "")];
        assert_eq!(
            disposition(&object(true, true, &both), Some("f"), true),
            Disposition::ForceRelease
        );
        assert_eq!(
            disposition(&object(false, true, &both[..1]), Some("f"), true),
            Disposition::Live
        );
        let other_value = [(meta::FORCE_DELETE, "yes")];
        assert_eq!(
            disposition(&object(true, true, &other_value), Some("f"), true),
            Disposition::Delete
        );
    }

    #[test]
    fn a_kind_that_ignores_force_delete_stays_paused() {
        let both = [(meta::FORCE_DELETE, "true"), (meta::PAUSED, "")];
        assert_eq!(
            disposition(&object(true, true, &both), Some("f"), false),
            Disposition::Paused
        );
        assert_eq!(
            disposition(&object(true, true, &both[..1]), Some("f"), false),
            Disposition::Delete
        );
    }

    #[test]
    fn pause_stops_both_life_and_deletion_unless_its_value_is_false() {
        for value in ["true", "", "yes"] {
            let paused = [(meta::PAUSED, value)];
            assert_eq!(
                disposition(&object(false, true, &paused), Some("f"), true),
                Disposition::Paused
            );
            assert_eq!(
                disposition(&object(true, true, &paused), Some("f"), true),
                Disposition::Paused
            );
        }
        assert_eq!(
            disposition(
                &object(false, true, &[(meta::PAUSED, "false")]),
                Some("f"),
                true
            ),
            Disposition::Live
        );
    }
}
