//! What every executable that starts a ground does first.

use std::{
    io::stdin,
    process::{ExitCode, exit},
};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

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

/// Does the work of an executable on a runtime of its own, and tells on standard error why it failed.
pub fn run(work: impl Future<Output = Result<()>>) -> ExitCode {
    let result = Runtime::new()
        .context("start a runtime")
        .and_then(|runtime| runtime.block_on(work));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "whoever started it is to read it")]
            {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}
