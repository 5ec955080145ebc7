//! Where the certificate of the webhooks comes from: files that somebody else renews, or ourselves.

mod files;

pub use files::Files;
