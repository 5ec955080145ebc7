//! What every executable that starts a ground does first.

use std::{io::stdin, process::exit};

use crate::{guard, provider};

/// Acts as the guard or as GARM's provider and exits when this process was started as such; else prepares the process and returns.
///
/// To be called first thing in `main` of every executable that uses this crate: the ground starts that executable again as its
/// helpers, so that there are no other programs to build and find.
pub fn entry() {
    if std::env::var_os(guard::GUARD_VARIABLE).is_some() {
        guard::run(stdin().lock());
        exit(0);
    }
    if let Ok(command) = std::env::var(provider::COMMAND_VARIABLE) {
        exit(provider::run(&command));
    }
    // Both HTTP clients in here take the process's default; somebody may have set the same one before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
