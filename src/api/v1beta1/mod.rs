//! Version v1beta1, the stored one.
//!
//! In Rust every field has a default, so that an object written before a field existed, or without a spec at all, decodes. What
//! the schema demands of users (`required`) is a matter of the CRD only. No field is ever `null`: an optional one is left out.
//!
//! `attr = "cfg_attr(all(), serde(default))"` gives the whole object defaults too (the API server accepts one without `spec`); the
//! derive refuses a bare `serde(…)` there.

#![allow(
    clippy::duplicated_attributes,
    reason = "each print column names its type and priority"
)]

mod credential;
mod endpoint;
mod enterprise;
mod entity_status;
mod image;
mod organization;
mod pool;
mod repository;
mod runner;
mod server_config;

pub use credential::{GitHubCredential, GitHubCredentialSpec, GitHubCredentialStatus};
pub use endpoint::{GitHubEndpoint, GitHubEndpointSpec, GitHubEndpointStatus};
pub use enterprise::{Enterprise, EnterpriseSpec};
pub use entity_status::EntityStatus;
pub use image::{Image, ImageSpec};
pub use organization::{Organization, OrganizationSpec};
pub use pool::{Pool, PoolSpec, PoolStatus, RunnerCounts};
pub use repository::{Repository, RepositorySpec};
pub use runner::{Address, Runner, RunnerSpec, RunnerStatus};
pub use server_config::{GarmServerConfig, GarmServerConfigSpec, GarmServerConfigStatus};

#[cfg(test)]
mod tests;
