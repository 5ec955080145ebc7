//! `garm-operator validate`: judges manifests without a cluster, by the rules of admission and the schemas of the kinds.

pub mod document;
pub mod schema;
