//! Pure rules: no client, no clock (time is a parameter), nothing asynchronous.
//!
//! Controllers, admission and the offline validation decide with the functions of this module and of nothing else, so each rule
//! stands once.

pub mod compare;
pub mod credential;
pub mod defaults;
pub mod duplicate;
pub mod endpoint;
pub mod entity;
pub mod field;
pub mod judgement;
pub mod lifecycle;
pub mod ownership;
pub mod pool;
pub mod pushed;
pub mod reference;
pub mod runner;
pub mod scope;
pub mod server_config;
