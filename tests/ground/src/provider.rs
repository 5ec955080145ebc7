//! The fake provider: "machines" that are files in a directory.
//!
//! GARM runs its provider once per operation, without arguments and with an environment of `GARM_*` variables only. The executable
//! it runs is a link to this one, which then acts by [`run`]; the tests' side of it is [`FakeProvider`]. Both meet in a directory:
//! one file per machine, and one file per fault that is switched on.

use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The variable that tells a provider what to do; so it tells our executable that it is one.
pub(crate) const COMMAND_VARIABLE: &str = "GARM_COMMAND";

/// The flavor with which every creation fails.
pub const FAILING_FLAVOR: &str = "fail";

/// A provider's exit status for "there is no such machine".
const NOT_FOUND: i32 = 30;
/// A provider's exit status for "there is one already".
const DUPLICATE: i32 = 31;

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

    fn fault(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.faults_folder().join(name)).ok()
    }

    /// Waits and fails as told, in this order.
    fn suffer(&self, slow: &str, fail: &[String]) -> Result<()> {
        if let Some(time) = self.fault(slow).and_then(|text| text.trim().parse().ok()) {
            thread::sleep(Duration::from_millis(time));
        }
        match fail.iter().find_map(|name| self.fault(name)) {
            Some(text) => bail!("{}", text.trim()),
            None => Ok(()),
        }
    }

    fn create(&self, pool_id: &str, bootstrap: Value) -> Result<Outcome> {
        let name = bootstrap["name"]
            .as_str()
            .context("the bootstrap data has no name")?
            .to_owned();
        let flavor = bootstrap["flavor"].as_str().unwrap_or_default();
        let faults = [
            format!("fail-create-{}", escape(flavor)),
            "fail-create".to_owned(),
        ];
        self.suffer("slow-create", &faults)?;
        if flavor == FAILING_FLAVOR {
            bail!("no machine of flavor {flavor} can be had");
        }
        let path = self.machines_folder().join(file_name(&name));
        if path.exists() {
            return Ok(Outcome::Status(DUPLICATE));
        }
        let provider_id = format!("fake-{name}");
        let machine = Machine {
            name,
            provider_id,
            pool_id: pool_id.to_owned(),
            bootstrap,
        };
        write_whole(
            &path,
            &serde_json::to_string(&machine).context("encode the machine")?,
        )?;
        Ok(Outcome::Answer(instance_json(&machine)))
    }

    fn delete(&self, id: &str) -> Result<Outcome> {
        self.suffer("slow-delete", &["fail-delete".to_owned()])?;
        let found = self
            .machines()?
            .into_iter()
            .find(|machine| machine.provider_id == id || machine.name == id);
        let Some(machine) = found else {
            return Ok(Outcome::Status(NOT_FOUND));
        };
        self.lose_machine(&machine.name)?;
        Ok(Outcome::Status(0))
    }

    fn list(&self, pool_id: &str) -> Result<Outcome> {
        let machines = self.machines()?;
        let wanted = machines.iter().filter(|machine| machine.pool_id == pool_id);
        Ok(Outcome::Answer(wanted.map(instance_json).collect()))
    }

    fn get(&self, id: &str) -> Result<Outcome> {
        let found = self
            .machines()?
            .into_iter()
            .find(|machine| machine.provider_id == id || machine.name == id);
        Ok(found.map_or(Outcome::Status(NOT_FOUND), |machine| {
            Outcome::Answer(instance_json(&machine))
        }))
    }
}

enum Outcome {
    Answer(Value),
    Status(i32),
}

/// Acts as the provider for one operation and returns the exit status.
#[expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the provider's contract with GARM"
)]
pub(crate) fn run(command: &str) -> i32 {
    match carry_out(command) {
        Ok(Outcome::Answer(answer)) => {
            println!("{answer}");
            0
        }
        Ok(Outcome::Status(status)) => status,
        Err(error) => {
            eprintln!("{error:#}");
            1
        }
    }
}

fn carry_out(command: &str) -> Result<Outcome> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let config = PathBuf::from(variable("GARM_PROVIDER_CONFIG_FILE")?);
    let directory = config
        .parent()
        .context("the configuration has no folder")?
        .to_owned();
    let provider = FakeProvider { directory };
    match command {
        "CreateInstance" => {
            let mut input = String::new();
            std::io::stdin()
                .read_to_string(&mut input)
                .context("read the bootstrap data")?;
            provider.create(
                &variable("GARM_POOL_ID")?,
                serde_json::from_str(&input).context("decode the bootstrap data")?,
            )
        }
        "DeleteInstance" => provider.delete(&variable("GARM_INSTANCE_ID")?),
        "ListInstances" => provider.list(&variable("GARM_POOL_ID")?),
        "GetInstance" => provider.get(&variable("GARM_INSTANCE_ID")?),
        // Starting, stopping and removing all: nothing to do, and GARM never asks for the last.
        _ => Ok(Outcome::Status(0)),
    }
}

fn instance_json(machine: &Machine) -> Value {
    json!({
        "provider_id": machine.provider_id,
        "name": machine.name,
        "status": "running",
        "os_type": machine.bootstrap["os_type"],
        "os_arch": machine.bootstrap["arch"],
        "os_name": "ubuntu",
        "os_version": "24.04",
        "addresses": [{ "address": "192.0.2.10", "type": "private" }],
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> (tempfile::TempDir, FakeProvider) {
        let directory = tempfile::tempdir().unwrap();
        let provider = FakeProvider::prepare(&directory.path().join("provider")).unwrap();
        (directory, provider)
    }

    #[test]
    fn creates_lists_and_deletes_machines() {
        let (_directory, provider) = provider();
        let bootstrap = json!({ "name": "team/a b-X1", "flavor": "small" });
        assert!(matches!(
            provider.create("p1", bootstrap.clone()).unwrap(),
            Outcome::Answer(_)
        ));
        assert!(matches!(
            provider.create("p1", bootstrap).unwrap(),
            Outcome::Status(DUPLICATE)
        ));
        assert_eq!(
            provider.machine("team/a b-X1").unwrap().provider_id,
            "fake-team/a b-X1"
        );
        let listed = |pool| match provider.list(pool).unwrap() {
            Outcome::Answer(list) => list.as_array().unwrap().len(),
            Outcome::Status(_) => panic!("no list"),
        };
        assert_eq!((listed("p1"), listed("p2")), (1, 0));
        assert!(matches!(
            provider.delete("team/a b-X1").unwrap(),
            Outcome::Status(0)
        ));
        assert!(matches!(
            provider.delete("team/a b-X1").unwrap(),
            Outcome::Status(NOT_FOUND)
        ));
    }

    #[test]
    fn fails_as_told() {
        let (_directory, provider) = provider();
        let create = |name: &str, flavor: &str| {
            provider
                .create("p", json!({ "name": name, "flavor": flavor }))
                .is_ok()
        };
        assert!(!create("a", FAILING_FLAVOR));
        provider
            .fail_creates_of_flavor("big", Some("quota"))
            .unwrap();
        assert!(!create("b", "big") && create("c", "small"));
        provider.fail_creates(Some("down")).unwrap();
        assert!(!create("d", "small"));
        provider.fail_creates(None).unwrap();
        provider.fail_deletes(Some("locked")).unwrap();
        assert!(create("e", "small") && provider.delete("e").is_err());
    }
}
