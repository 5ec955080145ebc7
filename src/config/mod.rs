//! The configuration: one value each from default < environment < flag < file, with its source.

pub mod duration;
mod file;
mod groups;
mod listen;
mod problem;
mod read;
pub mod settings;
mod sources;
mod timings;

use std::{io, path::PathBuf, time::Duration};

use secrecy::SecretString;
use url::Url;

use crate::{
    domain::{defaults::PoolDefaults, duplicate::DuplicatePools},
    garm::{self, PasswordSource, Permit},
};

pub use self::{
    listen::Listen,
    problem::{Problem, Problems, Sort},
    read::parse_bool,
    sources::{Source, Sources, Value, Values},
    timings::{LeaseTimes, Timings, WebhookTimings},
};

/// Everything the operator can be told from outside.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach GARM.
    pub garm: GarmConfig,
    /// How to work.
    pub operator: OperatorConfig,
    /// Kubeconfig file; `None` looks at `KUBECONFIG`, then at the pod's own account, then in the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// All times, those of `operator` included.
    pub timings: Timings,
}

/// How to reach GARM.
#[derive(Clone, Debug)]
pub struct GarmConfig {
    /// Base URL; `http` or `https`, with a host. Its path, if any, comes before `/api/v1`.
    pub server: Url,
    /// User to log in as.
    pub username: String,
    /// Password of that user; empty when it is in a file.
    pub password: SecretString,
    /// File that holds the password.
    pub password_file: Option<PathBuf>,
    /// Whether a fresh GARM is initialised.
    pub init: bool,
    /// E-mail address of the first user of a fresh GARM.
    pub email: String,
    /// File with CA certificates (PEM) to trust GARM by.
    pub ca_file: Option<PathBuf>,
}

impl GarmConfig {
    /// Reads the password as it is now: from its file, if there is one, so that a rotation needs no restart.
    ///
    /// A trailing newline is cut: editors and `echo` add one.
    pub fn current_password(&self) -> io::Result<SecretString> {
        let Some(path) = &self.password_file else {
            return Ok(self.password.clone());
        };
        let text = std::fs::read_to_string(path)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file is empty",
            ));
        }
        Ok(SecretString::from(text))
    }
}

/// How the operator works.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperatorConfig {
    /// Where metrics are served.
    pub metrics_bind_address: Listen,
    /// Where health probes are served.
    pub health_probe_bind_address: Listen,
    /// Whether the state of each object is shown as metrics.
    pub state_metrics: bool,
    /// After how long without progress something fails `/healthz`.
    pub stuck_after: Duration,
    /// Whether only one of several replicas works at a time.
    pub leader_election: bool,
    /// Times of that election.
    pub lease: LeaseTimes,
    /// Time between two full comparisons with GARM.
    pub sync_period: Duration,
    /// Namespaces to watch; empty: all.
    pub watch_namespaces: Vec<String>,
    /// Time between two looks at GARM's runners while it sends no events.
    pub sync_runners_interval: Duration,
    /// Age from which idle runners above a pool's minimum are removed.
    pub min_idle_runners_age: Duration,
    /// Age from which runners that the provider could not make are removed; `None` leaves them.
    pub failed_runner_ttl: Option<Duration>,
    /// Runners worked on at a time.
    pub runner_concurrency: usize,
    /// Repositories worked on at a time.
    pub repository_concurrency: usize,
    /// Organizations worked on at a time.
    pub organization_concurrency: usize,
    /// Enterprises worked on at a time.
    pub enterprise_concurrency: usize,
    /// Pools worked on at a time.
    pub pool_concurrency: usize,
    /// Whether GARM's runners are shown as Runner objects.
    pub runner_reconciliation: bool,
    /// The admission and conversion webhooks.
    pub webhook: WebhookConfig,
    /// What becomes of a Pool that equals another of its namespace.
    pub duplicate_pools: DuplicatePools,
    /// Values of Pool fields that a manifest leaves out.
    pub pool_defaults: PoolDefaults,
    /// How much is logged, 0 to 5.
    pub log_verbosity_level: u8,
    /// Form of the log.
    pub log_format: LogFormat,
}

/// The admission and conversion webhooks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebhookConfig {
    /// Where they are served, over TLS.
    pub bind_address: Listen,
    /// Where the certificate comes from.
    pub certs: WebhookCerts,
    /// Folder with `tls.crt` and `tls.key` ([`WebhookCerts::Files`]).
    pub cert_dir: PathBuf,
    /// What the names of the Service, the webhook configurations and the CA Secret begin with ([`WebhookCerts::SelfManaged`]).
    pub name_prefix: String,
    /// How long a CA of ours is valid.
    pub ca_lifetime: Duration,
    /// How long a certificate of ours is valid.
    pub cert_lifetime: Duration,
    /// How long each step of a change of our CA is held.
    pub ca_step: Duration,
}

/// Where the certificate of the webhooks comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookCerts {
    /// Files that somebody else renews, e.g. cert-manager by a mounted Secret.
    Files,
    /// Ourselves: a CA in a Secret, made known to the API server by us.
    SelfManaged,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A configuration together with what `--dry-run` tells about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The same as text, with sources.
    pub values: Values,
}

impl Loaded {
    /// Prints the configuration as a file that would give the same, secrets aside, each value with its source as a comment.
    pub fn to_yaml(&self) -> String {
        self.values.to_yaml(read::normal)
    }
}

/// Reads the configuration from its sources, and reports all problems at once.
///
/// Opens nothing: see [`Config::check_files`].
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut problems = Vec::new();
    let values = Values::merge(sources, &mut problems);
    if problems.iter().any(Problem::is_about_file) {
        // What the file would have said is not known, so that nothing can be called missing.
        return Err(Problems(problems));
    }
    match read::config(&values, &mut problems) {
        Some(config) if problems.is_empty() => Ok(Loaded { config, values }),
        _ => Err(Problems(problems)),
    }
}

impl Config {
    /// Describes the connection to GARM; requests begin as `permit` says.
    pub fn garm_settings(&self, permit: Permit) -> garm::Settings {
        let garm = &self.garm;
        garm::Settings {
            base_url: garm.server.clone(),
            username: garm.username.clone(),
            password: match &garm.password_file {
                Some(file) => PasswordSource::File(file.clone()),
                None => PasswordSource::Value(garm.password.clone()),
            },
            init: garm.init,
            email: garm.email.clone(),
            ca_file: garm.ca_file.clone(),
            timings: self.timings.garm,
            poll_instances: self.operator.runner_reconciliation,
            permit,
        }
    }

    /// Checks that the files the configuration names can be read.
    pub fn check_files(&self) -> Result<(), Problems> {
        let mut problems = Vec::new();
        if let Err(error) = self.garm.current_password() {
            let path = self.garm.password_file.clone().unwrap_or_default();
            let message = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::new("garm.passwordFile", Sort::Value, message));
        }
        if let Some(path) = &self.garm.ca_file
            && let Err(error) = std::fs::File::open(path)
        {
            let message = format!("cannot read {}: {error}", path.display());
            problems.push(Problem::new("garm.caFile", Sort::Value, message));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Problems(problems))
        }
    }
}

#[cfg(test)]
mod tests;
