//! A Kubernetes operator for GARM, the runner manager for GitHub Actions.
//!
//! Imports go one way: [`api`] (the types we own) ← [`domain`] (pure rules) ← [`controllers`] and [`admission`] ← [`run`] (the process). [`garm`] knows nothing
//! of Kubernetes; [`runtime`] and [`server`] know nothing of pools, [`telemetry`] only what is shown of them.
//! [`export`], [`diff`] and [`validate`] are tools that read once and end.

pub mod admission;
pub mod api;
pub mod cli;
pub mod config;
pub mod controllers;
pub mod diff;
pub mod domain;
pub mod export;
pub mod garm;
pub mod generate;
pub mod look;
pub mod run;
pub mod runtime;
pub mod server;
pub mod telemetry;
pub mod validate;
