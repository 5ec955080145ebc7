//! The provider as GARM runs it: one operation per process.

use std::{
    fs,
    io::{Read, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{FAILING_FLAVOR, FakeProvider, Machine, Operation, escape, file_name, write_whole};

/// A provider's exit status for "there is no such machine".
const NOT_FOUND: i32 = 30;
/// A provider's exit status for "there is one already".
const DUPLICATE: i32 = 31;

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
    let id = variable("GARM_INSTANCE_ID").unwrap_or_default();
    let pool = variable("GARM_POOL_ID").unwrap_or_default();
    let bootstrap = if command == "CreateInstance" {
        read_bootstrap()?
    } else {
        Value::Null
    };
    let outcome = match command {
        "CreateInstance" => provider.create(&pool, &bootstrap),
        "DeleteInstance" => provider.delete(&id),
        "ListInstances" => provider.list(&pool),
        "GetInstance" => provider.get(&id),
        // Starting, stopping and removing all: nothing to do, and GARM never asks for the last.
        _ => Ok(Outcome::Status(0)),
    };
    let status = match &outcome {
        Ok(Outcome::Answer(_)) => 0,
        Ok(Outcome::Status(status)) => *status,
        Err(_) => 1,
    };
    let subject = bootstrap["name"].as_str().map_or(id, ToOwned::to_owned);
    provider.note(&Operation {
        command: command.to_owned(),
        subject,
        status,
    })?;
    outcome
}

fn read_bootstrap() -> Result<Value> {
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .context("read the bootstrap data")?;
    serde_json::from_str(&input).context("decode the bootstrap data")
}

/// What a machine is to GARM.
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

impl FakeProvider {
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

    fn create(&self, pool_id: &str, bootstrap: &Value) -> Result<Outcome> {
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
            bootstrap: bootstrap.clone(),
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

    /// Notes an operation; many may do so at once.
    fn note(&self, operation: &Operation) -> Result<()> {
        let line = serde_json::to_string(operation).context("encode the operation")?;
        let mut journal = fs::File::options()
            .create(true)
            .append(true)
            .open(self.journal())
            .context("open the journal")?;
        journal
            .write_all(format!("{line}\n").as_bytes())
            .context("write the journal")
    }

    fn fault(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.faults_folder().join(name)).ok()
    }
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
            provider.create("p1", &bootstrap).unwrap(),
            Outcome::Answer(_)
        ));
        assert!(matches!(
            provider.create("p1", &bootstrap).unwrap(),
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
                .create("p", &json!({ "name": name, "flavor": flavor }))
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
