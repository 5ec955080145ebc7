//! A Kubernetes operator for GARM, the runner manager for GitHub Actions.
//!
//! The imports go one way: [`api`] (the types we own) is used by all, and uses nobody.

pub mod api;
pub mod cli;
pub mod config;
pub mod generate;
pub mod run;
pub mod runtime;
pub mod server;
pub mod telemetry;
