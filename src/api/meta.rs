//! Names in object metadata: API group, annotations, labels, finalizers; and the questions asked of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// API group of all our kinds.
pub const GROUP: &str = "garm-operator.mercedes-benz.com";
/// The stored API version.
pub const VERSION: &str = "v1beta1";
/// Group and version as objects name them in `apiVersion`.
pub const API_VERSION: &str = "garm-operator.mercedes-benz.com/v1beta1";

/// Group and version of old manifests and clients.
pub const API_VERSION_V1ALPHA1: &str = "garm-operator.mercedes-benz.com/v1alpha1";

/// Annotation of users: stops all work on the object. Any value but `"false"` pauses.
pub const PAUSED: &str = "garm-operator.mercedes-benz.com/paused";
/// Annotation of ours: when a POST or PUT for this object was last answered with success (RFC 3339).
pub const LAST_SYNC_TIME: &str = "garm-operator.mercedes-benz.com/last-sync-time";
/// Annotation of ours: keyed hashes of the values GARM never shows again, as last sent.
pub const PUSHED: &str = "garm-operator.mercedes-benz.com/pushed";
/// Annotation of ours: id of the GitHub webhook that was installed for this object.
pub const WEBHOOK_ID: &str = "garm-operator.mercedes-benz.com/webhook-id";
/// Start of annotations of ours, on v1alpha1 objects only: each holds, as JSON, a field of the spec that v1alpha1 lacks.
pub const V1BETA1_FIELD: &str = "garm-operator.mercedes-benz.com/v1beta1.";
/// Annotation of users: `"true"` on a terminating object drops our finalizer without any call to GARM.
pub const FORCE_DELETE: &str = "garm-operator.mercedes-benz.com/force-delete";
/// Annotation of users: `"true"` on a Runner or Pool makes GARM remove instances although the provider fails.
pub const FORCE_REMOVE: &str = "garm-operator.mercedes-benz.com/force-remove";

/// Annotation of users, on a Pool: id of the pool in GARM that the object takes instead of having one made. It counts until the object has an
/// id.
pub const ADOPT_ID: &str = "garm-operator.mercedes-benz.com/adopt-id";

/// Label of Runners: uid of their Pool.
pub const POOL_UID: &str = "garm-operator.mercedes-benz.com/pool-uid";
/// Label of Runners: name of their Pool, where it fits a label value.
pub const POOL_NAME: &str = "garm-operator.mercedes-benz.com/pool-name";
/// Longest label value the API server accepts, in bytes.
pub const LABEL_VALUE_MAX: usize = 63;

/// Finalizer of Enterprises.
pub const FINALIZER_ENTERPRISE: &str = "garm-operator.mercedes-benz.com/enterprise";
/// Finalizer of Organizations.
pub const FINALIZER_ORGANIZATION: &str = "garm-operator.mercedes-benz.com/organization";
/// Finalizer of Repositories.
pub const FINALIZER_REPOSITORY: &str = "garm-operator.mercedes-benz.com/repository";
/// Finalizer of Pools.
pub const FINALIZER_POOL: &str = "garm-operator.mercedes-benz.com/pool";
/// Finalizer of Runners.
pub const FINALIZER_RUNNER: &str = "garm-operator.mercedes-benz.com/runner";
/// Finalizer of GitHubEndpoints.
pub const FINALIZER_ENDPOINT: &str = "garm-operator.mercedes-benz.com/endpoint";
/// Finalizer of GitHubCredentials.
pub const FINALIZER_CREDENTIALS: &str = "garm-operator.mercedes-benz.com/credentials";

/// Reads an annotation.
pub fn annotation<'a>(meta: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Tells whether the user paused the object: the annotation is there and is not `"false"`.
pub fn is_paused(meta: &ObjectMeta) -> bool {
    annotation(meta, PAUSED).is_some_and(|value| value != "false")
}

/// Tells whether the object is being deleted.
pub fn is_terminating(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// Tells whether a yes/no annotation says yes: exactly `"true"`, so that a typing error never triggers what cannot be undone.
pub fn has_flag(meta: &ObjectMeta, name: &str) -> bool {
    annotation(meta, name) == Some("true")
}

/// Tells whether the object carries a finalizer.
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers
        .as_ref()
        .is_some_and(|all| all.iter().any(|one| one == finalizer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> ObjectMeta {
        ObjectMeta {
            annotations: Some([(name.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn pauses_on_any_value_but_false() {
        assert!(!is_paused(&ObjectMeta::default()));
        assert!(!is_paused(&annotated(PAUSED, "false")));
        for value in ["", "true", "False", "no", "0"] {
            assert!(is_paused(&annotated(PAUSED, value)), "{value:?}");
        }
    }

    #[test]
    fn a_flag_needs_exactly_true() {
        assert!(has_flag(&annotated(FORCE_DELETE, "true"), FORCE_DELETE));
        for value in ["", "True", "1", "yes", "false"] {
            assert!(
                !has_flag(&annotated(FORCE_DELETE, value), FORCE_DELETE),
                "{value:?}"
            );
        }
    }

    #[test]
    fn finds_only_the_finalizer_asked_for() {
        let meta = ObjectMeta {
            finalizers: Some(vec![
                "foregroundDeletion".to_owned(),
                FINALIZER_POOL.to_owned(),
            ]),
            ..ObjectMeta::default()
        };
        assert!(has_finalizer(&meta, FINALIZER_POOL));
        assert!(!has_finalizer(&meta, FINALIZER_RUNNER));
    }
}
