//! The operator as a process.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitStatus,
    time::Duration,
};

use anyhow::{Context, Result};
use reqwest::Client;
use rustix::process::Signal;
use tokio::process::Command;

use crate::{
    control_plane::write_kubeconfig, garm::Garm, guard::Guard, poll::Patience, ports::free_ports,
    process::Process, proxy::Proxy,
};

/// What the operator inherits; variables of our own surroundings must not configure it.
const INHERITED: [&str; 6] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "RUST_BACKTRACE",
    "LLVM_PROFILE_FILE",
];

/// How an operator is to be started; can be started more than once.
#[derive(Clone, Debug)]
pub struct OperatorCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    kube_url: Option<String>,
    own_namespace: Option<String>,
    garm_url: Option<String>,
    webhooks: bool,
    guard: Guard,
    directory: PathBuf,
}

impl OperatorCommand {
    pub(crate) fn new(program: PathBuf, guard: &Guard, directory: &Path) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            kube_url: None,
            own_namespace: None,
            garm_url: None,
            webhooks: false,
            guard: guard.clone(),
            directory: directory.to_owned(),
        }
    }

    /// Talks to Kubernetes by this proxy.
    #[must_use]
    pub fn kubernetes(mut self, proxy: &Proxy) -> Self {
        self.kube_url = Some(proxy.url());
        self
    }

    /// Takes this namespace for its own, as a pod takes that of its account.
    #[must_use]
    pub fn own_namespace(mut self, namespace: &str) -> Self {
        self.own_namespace = Some(namespace.to_owned());
        self
    }

    /// Talks to this GARM by the proxy in front of it, as its administrator.
    #[must_use]
    pub fn garm(self, garm: &Garm) -> Self {
        self.garm_proxy(garm.proxy())
            .argument("--garm-username")
            .argument(garm.username())
            .variable("GARM_PASSWORD", garm.password())
    }

    /// Talks to GARM by this proxy instead.
    #[must_use]
    pub fn garm_proxy(mut self, proxy: &Proxy) -> Self {
        self.garm_url = Some(proxy.url());
        self
    }

    /// Watches this namespace only.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.argument("--operator-watch-namespace")
            .argument(namespace)
    }

    /// Serves webhooks; without a certificate it is then not ready.
    #[must_use]
    pub fn webhooks(mut self) -> Self {
        self.webhooks = true;
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts a process; does not wait until it is ready.
    pub fn start(&self) -> Result<Operator> {
        let [health, metrics, webhook] = free_ports()?;
        let name = format!("operator-{}", crate::random_word());
        let mut command = Command::new(&self.program);
        command.env_clear();
        command.envs(
            INHERITED
                .iter()
                .filter_map(|name| Some((*name, std::env::var_os(name)?))),
        );
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(url) = &self.garm_url {
            command.arg("--garm-server").arg(url);
        }
        command.arg(if self.webhooks {
            format!("--operator-webhook-bind-address=127.0.0.1:{webhook}")
        } else {
            "--operator-webhook-bind-address=0".to_owned()
        });
        command.args(&self.arguments);
        if let Some(url) = &self.kube_url {
            let kubeconfig = self.directory.join(format!("{name}.kubeconfig"));
            // The proxy brings the credentials.
            write_kubeconfig(&kubeconfig, url, None, None, self.own_namespace.as_deref())?;
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        command.arg(format!(
            "--operator-health-probe-bind-address=127.0.0.1:{health}"
        ));
        command.arg(format!(
            "--operator-metrics-bind-address=127.0.0.1:{metrics}"
        ));
        let process = Process::start(
            "the operator",
            command,
            &self.directory.join(format!("{name}.log")),
            &self.guard,
        )?;
        let http = Client::builder()
            .timeout(Duration::from_secs(10))
            .no_proxy()
            .build()
            .context("make an HTTP client")?;
        Ok(Operator {
            process,
            http,
            health,
            metrics,
            webhook,
        })
    }
}

/// A running operator; it ends with the value.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    http: Client,
    health: u16,
    metrics: u16,
    webhook: u16,
}

impl Operator {
    /// Waits until `/readyz` is OK; fails at once when the process ends.
    pub async fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let patience = Patience::new(limit, "the operator is ready");
        loop {
            self.process.check_running()?;
            let seen = match self.http.get(self.health_url("/readyz")).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => answer.status().to_string(),
                Err(error) => error.to_string(),
            };
            patience
                .pause(format!("{seen}; its log ends so:\n{}", self.process.tail()))
                .await?;
        }
    }

    /// A URL of the health listener, as for `/healthz`.
    pub fn health_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.health)
    }

    /// A URL of the metrics listener.
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics)
    }

    /// Where webhooks are served, when the command says so.
    pub fn webhook_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.webhook).into()
    }

    /// The metrics as text.
    pub async fn metrics(&self) -> Result<String> {
        let answer = self
            .http
            .get(self.metrics_url())
            .send()
            .await
            .context("ask for metrics")?;
        answer
            .error_for_status()
            .context("ask for metrics")?
            .text()
            .await
            .context("read metrics")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The file that holds what it has written; gone with the ground.
    pub fn log_path(&self) -> &Path {
        self.process.log_path()
    }

    /// What it has written, on standard output as well.
    pub fn stderr(&self) -> String {
        self.process.output()
    }

    /// Fails, with the end of its log, when the process has ended.
    pub fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    /// Waits until it ends by itself.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.wait(limit).await
    }

    /// Freezes it (SIGSTOP), until [`Self::thaw`].
    pub fn freeze(&self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Asks it to end (SIGTERM) and does not wait.
    pub fn ask_to_end(&self) {
        self.process.terminate();
    }

    /// Ends it at once (SIGKILL).
    pub async fn kill(&mut self) -> Result<ExitStatus> {
        self.process.kill().await
    }

    /// Asks it to end (SIGTERM), without waiting.
    pub fn signal_stop(&self) {
        self.process.terminate();
    }

    /// Asks it to end (SIGTERM) and waits until it has; fails when that takes longer than `limit`.
    pub async fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.terminate();
        self.process.wait(limit).await
    }
}
