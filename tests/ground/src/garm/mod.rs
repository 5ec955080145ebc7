//! A real GARM with a fake GitHub, a fake provider and a counting proxy around it.

mod api;
mod config;
mod jobs;
mod runners;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::{process::Command, sync::Mutex};

use crate::{
    certificates::Certificates,
    github::FakeGithub,
    guard::Guard,
    poll::Patience,
    ports::{ATTEMPTS, free_ports, taken},
    process::Process,
    provider::FakeProvider,
    proxy::{Dialect, Proxy, Upstream},
    servers::{GarmVersion, Server, Servers},
};

pub use api::{Answer, Api};
pub use jobs::{Job, Owner};
pub use runners::Runners;

use config::Secrets;

/// A start takes about a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How far a GARM is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Setup {
    /// Fresh from its first start: no user.
    Uninitialised,
    /// With an administrator, but without the controller's URLs.
    WithoutUrls,
    /// Ready for use.
    #[default]
    Complete,
}

/// What a GARM is started with.
#[derive(Clone, Copy, Debug)]
pub struct GarmOptions {
    /// How far it is set up.
    pub setup: Setup,
    /// Whether it has the routes that install hooks on GitHub.
    pub webhook_management: bool,
    /// Whether runners call back by themselves until they are idle; see [`Runners::set_auto_idle`].
    pub auto_idle: bool,
    /// How much it logs: `debug`, `info`, `warn` or `error`.
    pub log_level: &'static str,
}

impl Default for GarmOptions {
    fn default() -> Self {
        Self {
            setup: Setup::Complete,
            webhook_management: true,
            auto_idle: true,
            log_level: "debug",
        }
    }
}

/// A running GARM; it ends with the value.
#[derive(Debug)]
pub struct Garm {
    version: GarmVersion,
    program: PathBuf,
    directory: PathBuf,
    guard: Guard,
    secrets: Secrets,
    port: u16,
    process: Mutex<Option<Process>>,
    proxy: Proxy,
    github: FakeGithub,
    provider: FakeProvider,
    runners: Runners,
    api: Arc<Api>,
}

impl Garm {
    /// Starts a GARM that keeps its files in `directory`, and sets it up.
    pub async fn start(
        version: GarmVersion,
        servers: &Servers,
        guard: &Guard,
        directory: &Path,
        options: GarmOptions,
    ) -> Result<Self> {
        let program = servers.path(Server::Garm(version))?;
        let mut attempt = 1;
        loop {
            let directory = directory.join(format!("garm-{version}-{}", crate::random_word()));
            match Self::try_start(version, program, guard, &directory, options).await {
                Err(error) if attempt < ATTEMPTS && taken(&error) => attempt += 1,
                result => return result.with_context(|| format!("start GARM {version}")),
            }
        }
    }

    async fn try_start(
        version: GarmVersion,
        program: &Path,
        guard: &Guard,
        directory: &Path,
        options: GarmOptions,
    ) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        let [port] = free_ports()?;
        let secrets = Secrets::random();
        let provider = FakeProvider::prepare(&directory.join("provider"))?;
        config::write(directory, port, &secrets, &provider, &options)?;
        let direct_url = format!("http://127.0.0.1:{port}");
        let github = FakeGithub::start().await?;
        let api = Arc::new(Api::new(&direct_url, &secrets.username, &secrets.password)?);
        let garm = Self {
            version,
            program: program.to_owned(),
            directory: directory.to_owned(),
            guard: guard.clone(),
            api: Arc::clone(&api),
            secrets,
            port,
            process: Mutex::new(None),
            proxy: Proxy::start(Dialect::Garm, Upstream::plain(direct_url)).await?,
            runners: Runners::start(provider.clone(), github.share(), api, options.auto_idle)?,
            github,
            provider,
        };
        garm.launch().await?;
        garm.set_up(options.setup).await?;
        Ok(garm)
    }

    /// Its version.
    pub fn version(&self) -> GarmVersion {
        self.version
    }

    /// The address for the operator: that of the proxy in front.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The address past the proxy.
    pub fn direct_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// One more proxy before it, for what has to be told apart from those who use the other.
    pub async fn another_proxy(&self) -> Result<Proxy> {
        Proxy::start(Dialect::Garm, Upstream::plain(self.direct_url())).await
    }

    /// The administrator's name.
    pub fn username(&self) -> &str {
        &self.secrets.username
    }

    /// The administrator's password.
    pub fn password(&self) -> &str {
        &self.secrets.password
    }

    /// The proxy in front: counts what the operator asks, and plays faults.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// A second proxy in front, which clients reach by TLS only.
    pub async fn tls_proxy(&self, certificates: &Certificates) -> Result<Proxy> {
        let upstream = Upstream::plain(self.direct_url());
        Proxy::start_tls(Dialect::Garm, upstream, certificates).await
    }

    /// The GitHub it talks to.
    pub fn github(&self) -> &FakeGithub {
        &self.github
    }

    /// The provider it runs.
    pub fn provider(&self) -> &FakeProvider {
        &self.provider
    }

    /// The runners on the provider's machines.
    pub fn runners(&self) -> &Runners {
        &self.runners
    }

    /// A client of the administrator that goes past the proxy, so that it is not counted.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// What GARM has logged.
    pub async fn log(&self) -> String {
        self.process
            .lock()
            .await
            .as_ref()
            .map(Process::output)
            .unwrap_or_default()
    }

    /// Its process id, while it runs.
    pub async fn pid(&self) -> Option<u32> {
        self.process.lock().await.as_ref().map(Process::pid)
    }

    /// Ends GARM (SIGTERM); its data stays.
    pub async fn stop(&self) -> Result<()> {
        if let Some(mut process) = self.process.lock().await.take() {
            process.stop().await?;
        }
        Ok(())
    }

    /// Ends GARM at once (SIGKILL); its data stays.
    pub async fn kill(&self) -> Result<()> {
        if let Some(mut process) = self.process.lock().await.take() {
            process.kill().await?;
        }
        Ok(())
    }

    /// Starts GARM again after [`Garm::stop`] or [`Garm::kill`], with the data and the address it had.
    pub async fn start_again(&self) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.launch().await {
                // Some connection may be using the port at the moment.
                Err(error) if attempt < ATTEMPTS && taken(&error) => attempt += 1,
                result => return result,
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Stops and starts GARM; its data stays.
    pub async fn restart(&self) -> Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    /// Stops GARM, deletes its database and starts it, set up as far as told, with the same password.
    pub async fn wipe(&self, setup: Setup) -> Result<()> {
        self.stop().await?;
        for entry in fs::read_dir(&self.directory).context("list GARM's files")? {
            let path = entry.context("list GARM's files")?.path();
            // With SQLite's own files beside, and on 0.2 a second database for file objects.
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().contains("garm.db"))
            {
                fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
            }
        }
        self.api.forget_token();
        self.start_again().await?;
        self.set_up(setup).await
    }

    /// Stops and starts GARM so that it believes no token that it gave before; its data stays.
    pub async fn drop_tokens(&self) -> Result<()> {
        self.stop().await?;
        config::renew_token_secret(&self.directory)?;
        self.api.forget_token();
        self.start_again().await
    }

    /// Carries setting up on, as far as told; does not know how far it got before.
    pub async fn set_up(&self, setup: Setup) -> Result<()> {
        if setup == Setup::Uninitialised {
            return Ok(());
        }
        let user = json!({
            "username": self.secrets.username,
            "password": self.secrets.password,
            "email": "admin@example.com",
            "full_name": "Ground",
        });
        let made = self.api.anonymous("POST", "/first-run", &user).await?;
        // An operator that sees a fresh GARM may have been quicker, with the same user.
        if made.status != reqwest::StatusCode::CONFLICT {
            made.ok()?;
        }
        if setup == Setup::WithoutUrls {
            return Ok(());
        }
        self.set_urls().await
    }

    /// Tells GARM its own addresses, without which it refuses most calls.
    pub async fn set_urls(&self) -> Result<()> {
        let url = self.direct_url();
        let urls = json!({
            "metadata_url": format!("{url}/api/v1/metadata"),
            "callback_url": format!("{url}/api/v1/callbacks"),
            "webhook_url": format!("{url}/webhooks"),
        });
        self.api.put("/controller", &urls).await.map(drop)
    }

    /// Starts the process and waits until it answers.
    async fn launch(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        // Its logs must not depend on the surroundings, nor its outgoing calls on a proxy that knows no loopback.
        command
            .env_clear()
            .arg("--config")
            .arg(self.directory.join("config.toml"));
        let mut slot = self.process.lock().await;
        let log = self.directory.join("garm.log");
        let process = slot.insert(Process::start("garm", command, &log, &self.guard)?);
        let patience = Patience::new(START_LIMIT, "GARM answers");
        loop {
            process.check_running()?;
            // Whatever it answers: the API listens only when everything is loaded.
            match self.api.anonymous("GET", "/controller", &Value::Null).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    patience
                        .pause(format!("{error:#}; its log ends so:\n{}", process.tail()))
                        .await?;
                }
            }
        }
    }
}
