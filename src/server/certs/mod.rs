//! Where the certificate of the webhooks comes from: files that somebody else renews, or ourselves.

mod files;
mod managed;

pub use files::Files;
pub use managed::{Publisher, SelfManaged, Stored};
