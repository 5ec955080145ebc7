//! What GARM's HTTP API says and hears, for v0.1.5 and newer.
//!
//! Answers are read leniently: unknown fields are ignored, and a missing field or `null` is the zero value, because GARM
//! drops zeros from v0.1.6 on and answers `null` for some empty lists. What GARM spells in several ways (the order of
//! tags, an unset timeout) is brought to one form here, so that equal objects compare equal.

mod controller;
mod credential;
mod endpoint;
mod entity;
mod instance;
mod lenient;
mod list;
mod pool;
mod secret;

#[cfg(test)]
mod answers_test;

pub use controller::{Controller, FirstRun, Login, LoginAnswer, Provider, UpdateController};
pub use credential::{CreateCredential, Credential, UpdateCredential};
pub use endpoint::{CreateEndpoint, Endpoint, UpdateEndpoint};
pub use entity::{
    CreateEntity, Entity, EntityEvent, EntityKind, Hook, InstallHook, ManagerStatus, UpdateEntity,
};
pub use instance::{Address, Instance};
pub use list::List;
pub use pool::{CreatePool, DEFAULT_BOOTSTRAP_TIMEOUT, Pool, UpdatePool};
pub use secret::{AppKey, AuthMaterial, Token};

/// Says whether an update carries nothing, by what it would send.
fn sends_nothing<T: serde::Serialize>(update: &T) -> bool {
    matches!(serde_json::to_value(update), Ok(serde_json::Value::Object(fields)) if fields.is_empty())
}
