//! The fake provider: "machines" that are files in a directory.
//!
//! GARM runs its provider once per operation, without arguments and with an environment of `GARM_*` variables only. The executable
//! it runs is a link to this one, which then acts by [`run`]; the tests' side of it is [`FakeProvider`]. Both meet in a directory:
//! one file per machine, one file per fault that is switched on, and a journal.

mod program;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use program::run;

/// The variable that tells a provider what to do; so it tells our executable that it is one.
pub(crate) const COMMAND_VARIABLE: &str = "GARM_COMMAND";

/// The flavor with which every creation fails.
pub const FAILING_FLAVOR: &str = "fail";

/// One machine of the fake provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The runner's name in GARM, in GARM's spelling.
    pub name: String,
    /// The provider's own id.
    pub provider_id: String,
    /// The pool it was created for.
    pub pool_id: String,
    /// What GARM wants the machine to start with, its callback URL and token included.
    pub bootstrap: Value,
}

/// Something GARM has asked its provider to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// As in `CreateInstance`.
    pub command: String,
    /// The runner's name for a creation; for others the machine's id as GARM gave it, or nothing.
    pub subject: String,
    /// The exit status: 0 is success.
    pub status: i32,
}

/// The tests' side of the fake provider.
#[derive(Clone, Debug)]
pub struct FakeProvider {
    directory: PathBuf,
}

impl FakeProvider {
    /// Prepares a provider in `directory`, which it makes.
    pub(crate) fn prepare(directory: &Path) -> Result<Self> {
        let provider = Self {
            directory: directory.to_owned(),
        };
        for folder in [provider.machines_folder(), provider.faults_folder()] {
            fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        }
        let us = std::env::current_exe()
            .context("find this executable, which also serves as the provider")?;
        symlink(&us, provider.executable()).context("link the provider")?;
        fs::write(provider.config_file(), "").context("write the provider's configuration")?;
        Ok(provider)
    }

    /// What GARM is to run.
    pub(crate) fn executable(&self) -> PathBuf {
        self.directory.join("provider")
    }

    /// GARM passes this path on, so that the provider finds its directory.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.directory.join("provider.conf")
    }

    /// The machines there are, in no order.
    pub fn machines(&self) -> Result<Vec<Machine>> {
        Ok(self
            .machine_files()?
            .iter()
            .filter_map(|path| read_machine(path))
            .collect())
    }

    /// The machine of this name.
    pub fn machine(&self, name: &str) -> Option<Machine> {
        read_machine(&self.machines_folder().join(file_name(name)))
    }

    /// What GARM has asked for and was answered, oldest first.
    pub fn operations(&self) -> Vec<Operation> {
        let journal = fs::read_to_string(self.journal()).unwrap_or_default();
        journal
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Takes a machine away behind GARM's back.
    pub fn lose_machine(&self, name: &str) -> Result<()> {
        let path = self.machines_folder().join(file_name(name));
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
    }

    /// Lets every creation fail with this text on stderr; `None` ends it.
    pub fn fail_creates(&self, text: Option<&str>) -> Result<()> {
        self.set_fault("fail-create", text)
    }

    /// Lets every creation with this flavor fail with this text on stderr; `None` ends it.
    pub fn fail_creates_of_flavor(&self, flavor: &str, text: Option<&str>) -> Result<()> {
        self.set_fault(&format!("fail-create-{}", escape(flavor)), text)
    }

    /// Lets every deletion fail with this text on stderr; `None` ends it.
    pub fn fail_deletes(&self, text: Option<&str>) -> Result<()> {
        self.set_fault("fail-delete", text)
    }

    /// Takes this long for every creation; zero ends it.
    pub fn slow_creates(&self, time: Duration) -> Result<()> {
        self.set_fault(
            "slow-create",
            (!time.is_zero())
                .then(|| time.as_millis().to_string())
                .as_deref(),
        )
    }

    /// Takes this long for every deletion; zero ends it.
    pub fn slow_deletes(&self, time: Duration) -> Result<()> {
        self.set_fault(
            "slow-delete",
            (!time.is_zero())
                .then(|| time.as_millis().to_string())
                .as_deref(),
        )
    }

    pub(crate) fn machine_files(&self) -> Result<Vec<PathBuf>> {
        let folder = self.machines_folder();
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        Ok(paths
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .collect())
    }

    fn set_fault(&self, name: &str, content: Option<&str>) -> Result<()> {
        let path = self.faults_folder().join(name);
        match content {
            Some(content) => write_whole(&path, content),
            None if path.exists() => {
                fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))
            }
            None => Ok(()),
        }
    }

    fn machines_folder(&self) -> PathBuf {
        self.directory.join("machines")
    }

    fn faults_folder(&self) -> PathBuf {
        self.directory.join("faults")
    }

    fn journal(&self) -> PathBuf {
        self.directory.join("journal")
    }
}

/// The machine in a file, if it is there.
pub(crate) fn read_machine(path: &Path) -> Option<Machine> {
    // It may be deleted at any moment.
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file so that nobody sees half of it.
fn write_whole(path: &Path, content: &str) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, content).with_context(|| format!("write {}", unfinished.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("put {} in its place", path.display()))
}

/// The file of a machine.
fn file_name(name: &str) -> String {
    format!("{}.json", escape(name))
}

/// A name as part of a file name; a runner's prefix may hold anything.
fn escape(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.bytes()
        .map(|byte| {
            if plain(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02x}")
            }
        })
        .collect()
}
