//! garm-operator.

pub mod garm;
