//! The operator as a program of its own, for executables that start it and are none of its tests.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// Builds the operator of the source in `folder`, optimized if this executable, an example of the same source, is; answers where it is.
///
/// A process that holds the example as well would be larger.
pub fn build_operator(folder: &Path) -> Result<PathBuf> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--quiet", "--locked", "--bin", "garm-operator"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.status().context("run cargo")?;
    ensure!(
        status.success(),
        "the operator could not be built: {status}; --operator names another"
    );
    let ourselves = std::env::current_exe().context("find this executable")?;
    // An example is in a folder of its own beside the programs.
    let beside = ourselves.parent().and_then(Path::parent);
    Ok(beside.context("no folder")?.join("garm-operator"))
}
