//! GARM: its HTTP API, its events, and an in-memory copy of what it has.
//!
//! [`Garm`] is the way in: reads come from the copy, calls go to GARM and feed their answers to the copy before they
//! return, and [`Garm::run`] keeps the copy true. Nothing here knows of Kubernetes.

mod auth;
mod availability;
mod calls;
mod client;
mod error;
mod feed;
mod handle;
mod http;
mod lanes;
mod mirror;
mod observer;
mod routes;
mod settings;
mod state;
mod under_way;
pub mod wire;

#[cfg(test)]
mod client_test;

pub use availability::Availability;
pub use error::{Error, Transport};
pub use handle::Garm;
pub use mirror::{Changed, Collection, CollectionState};
pub use observer::{Called, Loop, NoObserver, Observer};
pub use settings::{PasswordSource, Permit, Settings, Timings};
pub use state::State;
