//! The runners on the fake provider's machines: they call GARM back and show up on the fake GitHub.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Api;
use crate::{
    github::{GithubRunner, SharedGithub},
    poll::Patience,
    provider::{FakeProvider, Machine},
};

/// How often the provider's directory is looked at.
const PACE: Duration = Duration::from_millis(50);

/// How long a step may take.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The runners' side of the fakes.
#[derive(Debug)]
pub struct Runners {
    driver: Arc<Driver>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Driver {
    provider: FakeProvider,
    github: SharedGithub,
    api: Arc<Api>,
    http: Client,
    auto_idle: AtomicBool,
}

impl Runners {
    pub(super) fn start(
        provider: FakeProvider,
        github: SharedGithub,
        api: Arc<Api>,
        auto_idle: bool,
    ) -> Result<Self> {
        let http = Client::builder()
            .timeout(Duration::from_secs(30))
            .no_proxy()
            .build()
            .context("make an HTTP client")?;
        let driver = Arc::new(Driver {
            provider,
            github,
            api,
            http,
            auto_idle: AtomicBool::new(auto_idle),
        });
        let stop = CancellationToken::new();
        let (watching, stopped) = (Arc::clone(&driver), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = watch(watching, stopped.child_token()) => {}
            }
        });
        Ok(Self { driver, stop })
    }

    /// Whether new machines become idle runners by themselves (at the start: as the options say). Machines that came while it was
    /// off stay as they are: see [`Runners::make_idle`].
    pub fn set_auto_idle(&self, auto: bool) {
        self.driver.auto_idle.store(auto, Ordering::SeqCst);
    }

    /// Waits for the runner's machine, and has it report that it is being installed.
    pub async fn make_installing(&self, name: &str) -> Result<()> {
        let machine = self.driver.machine(name).await?;
        self.driver
            .report_until_taken(&machine, &status("installing", "downloading tools"))
            .await
    }

    /// Waits for the runner's machine, and has it go all the way to idle.
    pub async fn make_idle(&self, name: &str) -> Result<()> {
        let machine = self.driver.machine(name).await?;
        self.driver.become_idle(&machine).await
    }

    /// Waits for the runner's machine, and has it report a failure with this text.
    pub async fn fail(&self, name: &str, text: &str) -> Result<()> {
        let machine = self.driver.machine(name).await?;
        self.driver
            .report_until_taken(&machine, &status("failed", text))
            .await
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn status(status: &str, message: &str) -> Value {
    json!({ "status": status, "message": message })
}

/// Sets a runner to work on each new machine.
async fn watch(driver: Arc<Driver>, stop: CancellationToken) {
    let mut known = HashSet::new();
    loop {
        let files: HashSet<_> = driver
            .provider
            .machine_files()
            .unwrap_or_default()
            .into_iter()
            .collect();
        known.retain(|file| files.contains(file));
        for file in files {
            if !known.insert(file.clone()) || !driver.auto_idle.load(Ordering::SeqCst) {
                continue;
            }
            let Some(machine) = crate::provider::read_machine(&file) else {
                continue;
            };
            let (driver, stop) = (Arc::clone(&driver), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    // A machine that is deleted meanwhile gets no further.
                    _ = driver.start(&machine) => {}
                }
            });
        }
        tokio::time::sleep(PACE).await;
    }
}

impl Driver {
    async fn machine(&self, name: &str) -> Result<Machine> {
        let patience = Patience::new(STEP_LIMIT, format!("the machine of runner {name} exists"));
        loop {
            if let Some(machine) = self.provider.machine(name) {
                self.wait_running(&machine).await?;
                return Ok(machine);
            }
            patience.pause("none").await?;
        }
    }

    /// Waits until GARM has noted that the machine runs. No real one is up before; and v0.1.5, which writes whole rows, would lose
    /// either that or what the runner reports at the same moment, for good.
    async fn wait_running(&self, machine: &Machine) -> Result<()> {
        let what = format!("GARM has noted that {} runs", machine.name);
        let patience = Patience::new(STEP_LIMIT, what).every(Duration::from_millis(100));
        let path = format!("/instances/{}", machine.name);
        loop {
            let seen = match self.api.get(&path).await {
                Ok(instance) if instance["status"] == "running" => return Ok(()),
                Ok(instance) => instance["status"].to_string(),
                Err(error) => format!("{error:#}"),
            };
            self.check_machine(machine)?;
            patience.pause(seen).await?;
        }
    }

    /// Fails when the machine has been deleted meanwhile.
    fn check_machine(&self, machine: &Machine) -> Result<()> {
        if self.provider.machine(&machine.name).is_none() {
            bail!("the machine of runner {} is gone", machine.name);
        }
        Ok(())
    }

    /// What a machine does by itself once it is up.
    async fn start(&self, machine: &Machine) -> Result<()> {
        self.wait_running(machine).await?;
        self.become_idle(machine).await
    }

    /// Installs, registers and goes online.
    async fn become_idle(&self, machine: &Machine) -> Result<()> {
        self.report_until_taken(machine, &status("installing", "downloading tools"))
            .await?;
        let runner = self.registration(machine)?;
        let system = json!({ "os_name": "ubuntu", "os_version": "24.04", "agent_id": runner.id });
        self.post(machine, "system-info", &system).await?;
        // Online first: a runner that GARM calls idle is one that GitHub knows.
        self.github.set_online(&runner.name, true);
        let mut idle = status("idle", "runner successfully installed");
        idle["agent_id"] = runner.id.into();
        self.report_until_taken(machine, &idle).await
    }

    /// The runner on GitHub: made by GARM with its just-in-time configuration, else by the machine itself.
    fn registration(&self, machine: &Machine) -> Result<GithubRunner> {
        if let Some(runner) = self.github.runner(&machine.name) {
            return Ok(runner);
        }
        let url = machine.bootstrap["repo_url"]
            .as_str()
            .context("the bootstrap data has no repo_url")?;
        let labels = machine.bootstrap["labels"].as_array().into_iter().flatten();
        let labels: Vec<String> = labels
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect();
        Ok(self
            .github
            .register_runner(&scope_of(url)?, &machine.name, &labels))
    }

    /// Reports until GARM takes it.
    async fn report_until_taken(&self, machine: &Machine, report: &Value) -> Result<()> {
        let what = format!("GARM takes {} from {}", report["status"], machine.name);
        let patience = Patience::new(STEP_LIMIT, what).every(Duration::from_millis(100));
        loop {
            let seen = match self.post(machine, "status", report).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) => status.to_string(),
                Err(error) => format!("{error:#}"),
            };
            self.check_machine(machine)?;
            patience.pause(seen).await?;
        }
    }

    async fn post(&self, machine: &Machine, what: &str, body: &Value) -> Result<StatusCode> {
        let text = |key: &str| {
            machine.bootstrap[key]
                .as_str()
                .with_context(|| format!("the bootstrap data has no {key}"))
        };
        // GARM gives the URL of `status`; others are beside it.
        let url = text("callback-url")?
            .trim_end_matches('/')
            .trim_end_matches("/status")
            .to_owned();
        let request = self
            .http
            .post(format!("{url}/{what}"))
            .bearer_auth(text("instance-token")?)
            .json(body);
        Ok(request.send().await.context("call GARM back")?.status())
    }
}

/// The scope in GitHub's API of a URL such as `http://HOST/OWNER/NAME`.
fn scope_of(url: &str) -> Result<String> {
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'))
        .map_or("", |(_, path)| path);
    match path
        .trim_matches('/')
        .split('/')
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["enterprises", name] => Ok(format!("enterprises/{name}")),
        [owner, name] => Ok(format!("repos/{owner}/{name}")),
        [name] if !name.is_empty() => Ok(format!("orgs/{name}")),
        _ => bail!("no repository, organization or enterprise: {url}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_scope_of_a_url() {
        for (url, scope) in [
            ("http://127.0.0.1:1/o/r", "repos/o/r"),
            ("http://127.0.0.1:1/acme", "orgs/acme"),
            ("http://127.0.0.1:1/enterprises/big", "enterprises/big"),
        ] {
            assert_eq!(scope_of(url).unwrap(), scope);
        }
        assert!(scope_of("http://127.0.0.1:1/").is_err());
    }
}
