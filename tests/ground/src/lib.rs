//! Real servers, fakes and proxies that garm-operator is tested on.

mod control_plane;
mod entry;
mod guard;
pub mod poll;
mod ports;
mod process;
pub mod proxy;
pub mod servers;

pub use control_plane::ControlPlane;
pub use entry::entry;
pub use guard::Guard;
pub use process::Process;

/// Eight random lower-case hexadecimal characters, to tell names of one run from another's.
pub(crate) fn random_word() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..8].to_owned()
}
