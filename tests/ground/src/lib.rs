//! Real servers, fakes and proxies that garm-operator is tested on.

mod build;
mod certificates;
mod control_plane;
mod crds;
pub mod documents;
mod entry;
pub mod garm;
mod github;
mod ground;
mod guard;
pub mod harness;
mod operator;
pub mod poll;
mod ports;
mod process;
mod provider;
pub mod proxy;
pub mod render;
pub mod servers;
mod service;
mod webhooks;

pub use build::build_operator;
pub use certificates::{Authority, Certificates};
pub use control_plane::ControlPlane;
pub use crds::ConversionEndpoint;
pub use entry::{entry, run};
pub use garm::{Garm, GarmOptions, Job, Owner, Setup};
pub use github::{FakeGithub, GithubRunner};
pub use ground::Ground;
pub use guard::Guard;
pub use operator::{Operator, OperatorCommand};
pub use process::Process;
pub use provider::{FAILING_FLAVOR, FakeProvider, Machine, Operation};
pub use service::Service;
pub use webhooks::webhooks_at;

/// Eight random lower-case hexadecimal characters, to tell names of one run from another's.
pub(crate) fn random_word() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..8].to_owned()
}

/// Tells whoever waits at the terminal what is going on.
#[expect(
    clippy::print_stderr,
    reason = "people wait for minutes, and tests have no log"
)]
pub(crate) fn progress(text: &str) {
    eprintln!("ground: {text}");
}
