//! Version v1alpha1: deprecated, served for old manifests and clients, never stored.
//!
//! Only the specs are of its own. What the operator reports is the same in both versions, so that no old client can lose a part of it.
//! Columns, subresources and descriptions of a kind are those of v1beta1 and stand only there.

mod enterprise;
mod image;
mod organization;
mod pool;
mod repository;
mod runner;

pub use enterprise::{Enterprise, EnterpriseSpec};
pub use image::{Image, ImageSpec};
pub use organization::{Organization, OrganizationSpec};
pub use pool::{Pool, PoolSpec};
pub use repository::{Repository, RepositorySpec};
pub use runner::{Runner, RunnerSpec};
