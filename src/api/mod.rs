//! The Kubernetes types this operator owns, and the names that belong to them.
//!
//! Nothing here acts: no client, no clock, no async. The types are *wide* (`i64`, `String`, optional text), so that every object the
//! API server ever let in decodes; the rules live in `domain` and in admission.

pub mod condition;
pub mod convert;
pub mod event;
pub mod install;
pub mod meta;
pub mod refs;
mod schema;
pub mod v1alpha1;
pub mod v1beta1;
