//! Repositories, organizations and enterprises: one thing in three sizes.

use jiff::Timestamp;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};

use super::lenient::{name_of, or_default, time};
use super::secret::{expose, expose_some};
use super::sends_nothing;

/// The size of an entity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntityKind {
    /// A repository, with an owner.
    #[default]
    Repository,
    /// An organization.
    Organization,
    /// An enterprise.
    Enterprise,
}

impl EntityKind {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Repository, Self::Organization, Self::Enterprise];

    /// Gives the first segment of its routes.
    pub fn path(self) -> &'static str {
        match self {
            Self::Repository => "repositories",
            Self::Organization => "organizations",
            Self::Enterprise => "enterprises",
        }
    }

    /// Gives the word for one of them, which events use too.
    pub fn word(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Organization => "organization",
            Self::Enterprise => "enterprise",
        }
    }
}

/// A repository, organization or enterprise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entity {
    /// Which of the three it is; set by who asked for it, answers do not say it.
    #[serde(skip)]
    pub kind: EntityKind,
    /// UUID.
    pub id: String,
    /// Owner of a repository; empty for the others.
    #[serde(deserialize_with = "or_default")]
    pub owner: String,
    /// Its name on GitHub.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Name of the endpoint, which is its credentials' endpoint and cannot change.
    #[serde(deserialize_with = "name_of")]
    pub endpoint: String,
    /// Name of its credentials.
    #[serde(deserialize_with = "or_default")]
    pub credentials_name: String,
    /// Number of its credentials.
    pub credentials_id: i64,
    /// State of its pool manager.
    #[serde(rename = "pool_manager_status", deserialize_with = "or_default")]
    pub manager: ManagerStatus,
    /// `roundrobin`, `pack` or empty, which acts as `roundrobin`. The request's key is `pool_balancer_type`.
    #[serde(deserialize_with = "or_default")]
    pub pool_balancing_type: String,
    /// Its last events, oldest first; `None` when the answer did not carry them. Only a read by id carries them, from v0.2.0 on.
    #[serde(deserialize_with = "events")]
    pub events: Option<Vec<EntityEvent>>,
    /// When it was made; unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When it last changed; GARM moves it with the manager's state too. Unknown to v0.1.5.
    #[serde(deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

/// State of an entity's pool manager. Absent means not running.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ManagerStatus {
    /// Whether it makes and removes runners.
    #[serde(rename = "running", deserialize_with = "or_default")]
    pub is_running: bool,
    /// Why not. From v0.2.0 on it stays `pool manager is starting up`; the cause is in [`Entity::events`].
    #[serde(deserialize_with = "or_default")]
    pub failure_reason: String,
}

/// Something that happened to an entity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EntityEvent {
    /// When.
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// `info`, `warning` or `error`.
    #[serde(deserialize_with = "or_default")]
    pub event_level: String,
    /// What.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
}

fn events<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Vec<EntityEvent>>, D::Error> {
    Option::deserialize(input)
}

/// An entity to make. POST waits on GitHub.
#[derive(Debug, Clone, Serialize)]
pub struct CreateEntity {
    /// Owner of a repository, `None` for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its name on GitHub.
    pub name: String,
    /// Name of the credentials to use.
    pub credentials_name: String,
    /// What GitHub signs its webhooks with; must not be empty.
    #[serde(serialize_with = "expose")]
    pub webhook_secret: SecretString,
    /// `roundrobin` or `pack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_balancer_type: Option<String>,
}

/// Changes of an entity; only what is `Some` is sent. Name, owner and endpoint cannot change.
#[derive(Debug, Clone, Default, Serialize)]
pub struct UpdateEntity {
    /// Name of other credentials of the same endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_name: Option<String>,
    /// A new webhook secret; an installed hook keeps the old one.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "expose_some"
    )]
    pub webhook_secret: Option<SecretString>,
    /// `roundrobin` or `pack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_balancer_type: Option<String>,
}

impl UpdateEntity {
    /// Spells out what an entity is, as far as GARM shows it: an update with this changes nothing.
    pub fn of(entity: &Entity) -> Self {
        Self {
            credentials_name: Some(entity.credentials_name.clone()),
            webhook_secret: None,
            pool_balancer_type: Some(entity.pool_balancing_type.clone()),
        }
    }

    /// The same without what GARM never shows.
    #[must_use]
    pub fn shown(self) -> Self {
        Self {
            webhook_secret: None,
            ..self
        }
    }

    /// Says whether nothing would change.
    pub fn is_empty(&self) -> bool {
        sends_nothing(self)
    }
}

/// A webhook on GitHub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// GitHub's number of it.
    pub id: i64,
    /// What GitHub calls.
    #[serde(deserialize_with = "or_default")]
    pub url: String,
    /// Which events GitHub sends.
    #[serde(deserialize_with = "or_default")]
    pub events: Vec<String>,
    /// Whether GitHub sends them.
    #[serde(rename = "active", deserialize_with = "or_default")]
    pub is_active: bool,
}

/// Asks for a webhook at this controller's own URL.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InstallHook {}
