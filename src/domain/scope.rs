//! Repository, Organization and Enterprise seen as one: the scope in which GARM runs pools.

use crate::api::refs::{SecretKeyRef, TypedRef};
use crate::api::v1beta1::{Enterprise, EntityStatus, Organization, Repository};
use crate::api::{event, meta};
use crate::domain::field::FieldError;
use crate::garm::wire::{Entity, EntityKind};

/// What the rules read of a scope object.
#[derive(Clone, Copy, Debug)]
pub struct ScopeView<'a> {
    /// Owner of a repository; `None` for the other kinds.
    pub owner: Option<&'a str>,
    /// The GitHubCredential object, in the same namespace.
    pub credentials: &'a TypedRef,
    /// The Secret with the webhook secret, in the same namespace.
    pub webhook_secret: &'a SecretKeyRef,
    /// Pool balancer as written; empty means GARM's default.
    pub balancer: &'a str,
    /// Whether a webhook on GitHub is asked for; `None` for enterprises, which have none.
    pub install_webhook: Option<bool>,
}

/// A Kubernetes kind that stands for an entity in GARM.
pub trait Scope {
    /// The entity kind in GARM.
    const KIND: EntityKind;
    /// The finalizer of this kind.
    const FINALIZER: &'static str;
    /// Name of the kind, as references spell it.
    const NAME: &'static str;
    /// Reporting component of its events.
    const COMPONENT: &'static str;
    /// Reads the common parts of the spec.
    fn view(&self) -> ScopeView<'_>;
    /// Reads the status.
    fn entity_status(&self) -> Option<&EntityStatus>;
}

macro_rules! scope {
    ($kind:ident, $entity:ident, $finalizer:expr, $component:expr, $owner:expr, $webhook:expr) => {
        impl Scope for $kind {
            const KIND: EntityKind = EntityKind::$entity;
            const FINALIZER: &'static str = $finalizer;
            const NAME: &'static str = stringify!($kind);
            const COMPONENT: &'static str = $component;

            fn view(&self) -> ScopeView<'_> {
                let owner: fn(&Self) -> Option<&str> = $owner;
                let webhook: fn(&Self) -> Option<bool> = $webhook;
                ScopeView {
                    owner: owner(self),
                    credentials: &self.spec.credentials_ref,
                    webhook_secret: &self.spec.webhook_secret_ref,
                    balancer: self.spec.pool_balancer_type.as_deref().unwrap_or_default(),
                    install_webhook: webhook(self),
                }
            }

            fn entity_status(&self) -> Option<&EntityStatus> {
                self.status.as_ref()
            }
        }
    };
}

scope!(
    Repository,
    Repository,
    meta::FINALIZER_REPOSITORY,
    event::reporter::REPOSITORY,
    |r| Some(&r.spec.owner),
    |r| Some(r.spec.install_webhook.unwrap_or_default())
);
scope!(
    Organization,
    Organization,
    meta::FINALIZER_ORGANIZATION,
    event::reporter::ORGANIZATION,
    |_| None,
    |o| Some(o.spec.install_webhook.unwrap_or_default())
);
scope!(
    Enterprise,
    Enterprise,
    meta::FINALIZER_ENTERPRISE,
    event::reporter::ENTERPRISE,
    |_| None,
    |_| None
);

/// What makes an entity the same one: owner, name and endpoint without regard to case (GARM's own rule of uniqueness).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityKey {
    /// Kind of the entity.
    pub kind: EntityKind,
    name: String,
    endpoint: String,
}

impl EntityKey {
    /// Builds the key of an object's entity; `owner` is empty for organizations and enterprises.
    pub fn new(kind: EntityKind, owner: &str, name: &str, endpoint: &str) -> Self {
        Self {
            kind,
            name: format!("{owner}/{name}").to_lowercase(),
            endpoint: endpoint.to_lowercase(),
        }
    }

    /// Reads the key of an entity that GARM shows.
    pub fn of(kind: EntityKind, entity: &Entity) -> Self {
        Self::new(kind, &entity.owner, &entity.name, &entity.endpoint)
    }
}

/// The kind of object that stands for an entity.
pub fn kind_name(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Repository => Repository::NAME,
        EntityKind::Organization => Organization::NAME,
        EntityKind::Enterprise => Enterprise::NAME,
    }
}

/// The entity kind that a reference's `kind` names, if it is one of the three.
pub fn kind_of_reference(kind: &str) -> Option<EntityKind> {
    [
        (Repository::NAME, EntityKind::Repository),
        (Organization::NAME, EntityKind::Organization),
        (Enterprise::NAME, EntityKind::Enterprise),
    ]
    .into_iter()
    .find_map(|(name, entity)| (name == kind).then_some(entity))
}

/// The entity kind that a reference to a scope names; `path` is that of the reference.
pub fn kind_referred_to(path: &str, reference: &TypedRef) -> Result<EntityKind, FieldError> {
    let supported = [Enterprise::NAME, Organization::NAME, Repository::NAME];
    kind_of_reference(&reference.kind).ok_or_else(|| {
        FieldError::not_supported(format!("{path}.kind"), &reference.kind, &supported)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_the_same_without_regard_to_case_and_differ_by_owner_and_endpoint() {
        let key = EntityKey::new(EntityKind::Repository, "Acme", "Tools", "GHES");
        assert_eq!(
            key,
            EntityKey::new(EntityKind::Repository, "acme", "tools", "ghes")
        );
        for (owner, name, endpoint) in [
            ("other", "tools", "ghes"),
            ("acme", "x", "ghes"),
            ("acme", "tools", "github.com"),
        ] {
            assert_ne!(
                key,
                EntityKey::new(EntityKind::Repository, owner, name, endpoint)
            );
        }
        assert_ne!(
            EntityKey::new(EntityKind::Organization, "", "acme", "ghes"),
            EntityKey::new(EntityKind::Enterprise, "", "acme", "ghes")
        );
    }

    #[test]
    fn only_the_three_kinds_are_scopes() {
        assert_eq!(
            kind_of_reference("Organization"),
            Some(EntityKind::Organization)
        );
        assert_eq!(kind_of_reference("organization"), None);
        assert_eq!(kind_of_reference("Pool"), None);
    }
}
