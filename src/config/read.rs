//! Reads typed values out of the texts, and says of each wrong one what it should be.

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use crate::{domain::duplicate::DuplicatePools, garm};

use secrecy::SecretString;
use url::Url;

use super::{
    Config, GarmConfig, Listen, LogFormat, OperatorConfig, Timings,
    duration::{self, ParseError},
    problem::{Problem, Sort},
    settings::Kind,
    sources::{Source, Value, Values},
};

/// Reads the whole configuration. `None` only together with problems.
pub(super) fn config(values: &Values, problems: &mut Vec<Problem>) -> Option<Config> {
    let mut read = Reader { values, problems };
    // All are read before the first `?`, so that all problems are found.
    let garm = read.garm();
    let operator = read.operator();
    let (garm, operator) = (garm?, operator?);
    let timings = Timings {
        resync: operator.sync_period,
        lease: operator.lease,
        stuck: operator.stuck_after,
        watch: watch_within(operator.stuck_after),
        garm: garm::Timings {
            sync_period: operator.sync_period,
            runners_interval: operator.sync_runners_interval,
            ..garm::Timings::default()
        },
        ..Timings::default()
    };
    Some(Config {
        garm,
        operator,
        kubeconfig: None,
        timings,
    })
}

/// Chooses the length of a watch request such that a quiet watch, which shows that it lives when it is renewed, is never taken for stuck:
/// two of them and the pause before another try fit.
fn watch_within(stuck_after: Duration) -> Duration {
    Timings::default().watch.min(stuck_after * 3 / 8)
}

/// Prints a value in its usual form, e.g. `5m0s` for `300s` and `true` for `T`.
pub(super) fn normal(value: &Value) -> String {
    let text = value.text.as_str();
    match value.setting.kind {
        Kind::Bool => boolean(value).map_or_else(|| text.to_owned(), |yes| yes.to_string()),
        Kind::Number => number(value).map_or_else(|| text.to_owned(), |number| number.to_string()),
        Kind::Duration => duration::parse(text).map_or_else(|_| text.to_owned(), duration::format),
        Kind::Text | Kind::File | Kind::Secret => text.to_owned(),
    }
}

/// Reads a yes or no as Go does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a yes or no. Empty is no, except in a flag.
fn boolean(value: &Value) -> Option<bool> {
    if value.text.is_empty() && !matches!(value.source, Source::Flag(_)) {
        return Some(false);
    }
    parse_bool(&value.text)
}

/// Reads a whole number. Empty is 0, except in a flag. A leading zero is refused: some read it as octal.
fn number(value: &Value) -> Option<i64> {
    let text = value.text.as_str();
    if text.is_empty() && !matches!(value.source, Source::Flag(_)) {
        return Some(0);
    }
    if text.len() > 1 && text.trim_start_matches(['+', '-']).starts_with('0') {
        return None;
    }
    text.parse().ok()
}

/// Reads values, and collects what is wrong with them.
pub(super) struct Reader<'a> {
    values: &'a Values,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn garm(&mut self) -> Option<GarmConfig> {
        let server = self.server();
        let username = self.required("garm.username");
        let password = self.password();
        let password_file = self.path("garm.passwordFile");
        let init = self.boolean("garm.init");
        let email = self.text("garm.email");
        if init == Some(true) && email.as_deref() == Some("") {
            self.refuse(
                "garm.email",
                "is empty, but garm.init is true; set an address or switch garm.init off",
            );
        }
        let ca_file = self.path("garm.caFile");
        Some(GarmConfig {
            server: server?,
            username: username?,
            password: SecretString::from(password?),
            password_file,
            init: init?,
            email: email?,
            ca_file,
        })
    }

    fn operator(&mut self) -> Option<OperatorConfig> {
        let any = Duration::ZERO..=Duration::MAX;
        let metrics_bind_address = self.listen("operator.metricsBindAddress");
        let health_probe_bind_address = self.listen("operator.healthProbeBindAddress");
        let state_metrics = self.boolean("operator.stateMetrics");
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let stuck_after = self.duration("operator.stuckAfter", minutes(2)..=minutes(24 * 60));
        let leader_election = self.boolean("operator.leaderElection");
        let lease = self.lease();
        let sync_period = self.duration(
            "operator.syncPeriod",
            Duration::from_nanos(1)..=Duration::MAX,
        );
        let watch_namespaces = self.namespaces("operator.watchNamespace");
        let poll = Duration::from_secs(5)..=Duration::from_secs(5 * 60);
        let sync_runners_interval = self.duration("operator.syncRunnersInterval", poll);
        let min_idle_runners_age = self.duration("operator.minIdleRunnersAge", any.clone());
        let failed_runner_ttl = self.duration("operator.failedRunnerTTL", any);
        let runner_concurrency = self.count("operator.runnerConcurrency");
        let repository_concurrency = self.count("operator.repositoryConcurrency");
        let organization_concurrency = self.count("operator.organizationConcurrency");
        let enterprise_concurrency = self.count("operator.enterpriseConcurrency");
        let pool_concurrency = self.count("operator.poolConcurrency");
        let runner_reconciliation = self.boolean("operator.runnerReconciliation");
        let log_verbosity_level = self.number("operator.logVerbosityLevel", 0..=5);
        let log_format = self.choice(
            "operator.logFormat",
            &[("text", LogFormat::Text), ("json", LogFormat::Json)],
        );
        let webhook = self.webhook();
        let duplicate_pools = self.choice(
            "operator.duplicatePools",
            &[
                ("deny", DuplicatePools::Deny),
                ("warn", DuplicatePools::Warn),
                ("allow", DuplicatePools::Allow),
            ],
        );
        let pool_defaults = self.pool_defaults();
        Some(OperatorConfig {
            metrics_bind_address: metrics_bind_address?,
            health_probe_bind_address: health_probe_bind_address?,
            state_metrics: state_metrics?,
            stuck_after: stuck_after?,
            leader_election: leader_election?,
            lease: lease?,
            sync_period: sync_period?,
            watch_namespaces: watch_namespaces?,
            sync_runners_interval: sync_runners_interval?,
            min_idle_runners_age: min_idle_runners_age?,
            failed_runner_ttl: Some(failed_runner_ttl?).filter(|ttl| !ttl.is_zero()),
            runner_concurrency: runner_concurrency?,
            repository_concurrency: repository_concurrency?,
            organization_concurrency: organization_concurrency?,
            enterprise_concurrency: enterprise_concurrency?,
            pool_concurrency: pool_concurrency?,
            runner_reconciliation: runner_reconciliation?,
            webhook: webhook?,
            duplicate_pools: duplicate_pools?,
            pool_defaults: pool_defaults?,
            log_verbosity_level: u8::try_from(log_verbosity_level?).ok()?,
            log_format: log_format?,
        })
    }

    pub(super) fn value(&self, key: &str) -> Option<Value> {
        self.values.get(key).cloned()
    }

    /// Reports a wrong value without showing it.
    pub(super) fn refuse(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::new(key, Sort::Value, message));
    }

    /// Reports a wrong value, with the value and who set it.
    pub(super) fn refuse_value(&mut self, value: &Value, sort: Sort, message: &str) {
        let message = format!("{:?} ({}) {message}", value.text, value.source);
        self.problems
            .push(Problem::new(value.setting.key, sort, message));
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        Some(self.value(key)?.text)
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key)
            .filter(|text| !text.is_empty())
            .map(PathBuf::from)
    }

    pub(super) fn required(&mut self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        if value.text.is_empty() {
            let (flag, env) = (value.setting.flag, value.setting.env);
            self.refuse(
                key,
                &format!("required; set --{flag}, {env} or {key} in the config file"),
            );
            return None;
        }
        Some(value.text)
    }

    /// Reads the password, which may be in a file instead.
    fn password(&mut self) -> Option<String> {
        let password = self.text("garm.password")?;
        if self.path("garm.passwordFile").is_none() {
            return self.required("garm.password");
        }
        if !password.is_empty() {
            self.refuse("garm.password", "set, and garm.passwordFile too; keep one");
        }
        Some(password)
    }

    /// Reads the URL of GARM. Never shows the value: it could hold a password.
    fn server(&mut self) -> Option<Url> {
        let text = self.required("garm.server")?;
        let problem = match Url::parse(&text) {
            Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
                "not a URL of http or https; write for example http://garm:9997"
            }
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                "holds a user or password; use garm.username and garm.password"
            }
            Ok(url) if url.query().is_some() || url.fragment().is_some() => {
                "holds a query or fragment; write scheme, host, port and path only"
            }
            Ok(url) => return Some(url),
            Err(_) => "not a URL; write for example http://garm:9997",
        };
        self.refuse("garm.server", problem);
        None
    }

    pub(super) fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        let read = boolean(&value);
        if read.is_none() {
            self.refuse_value(&value, Sort::Value, "is neither true nor false");
        }
        read
    }

    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let value = self.value(key)?;
        let Some(read) = number(&value) else {
            self.refuse_value(&value, Sort::Value, "is not a whole number");
            return None;
        };
        if !range.contains(&read) {
            let message = match *range.end() {
                i64::MAX => format!("is too small; it must be at least {}", range.start()),
                end => format!(
                    "is out of range; it must be from {} to {end}",
                    range.start()
                ),
            };
            self.refuse_value(&value, Sort::Value, &message);
            return None;
        }
        Some(read)
    }

    fn count(&mut self, key: &str) -> Option<usize> {
        self.number(key, 1..=i64::MAX)
            .and_then(|count| usize::try_from(count).ok())
    }

    pub(super) fn duration(
        &mut self,
        key: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let value = self.value(key)?;
        match duration::parse(&value.text) {
            Ok(read) if range.contains(&read) => return Some(read),
            Ok(_) if *range.end() == Duration::MAX => {
                self.refuse_value(&value, Sort::Value, "must be longer than 0");
            }
            Ok(_) => {
                let (start, end) = (
                    duration::format(*range.start()),
                    duration::format(*range.end()),
                );
                let message = format!("is out of range; it must be from {start} to {end}");
                self.refuse_value(&value, Sort::Value, &message);
            }
            Err(ParseError::NoUnit) if value.source == Source::File => {
                // The Go operator took it for nanoseconds, which nobody meant.
                self.refuse_value(&value, Sort::Syntax, &ParseError::NoUnit.to_string());
            }
            Err(error) => self.refuse_value(&value, Sort::Value, &error.to_string()),
        }
        None
    }

    pub(super) fn listen(&mut self, key: &str) -> Option<Listen> {
        let value = self.value(key)?;
        match Listen::parse(&value.text) {
            Ok(listen) => Some(listen),
            Err(message) => {
                self.refuse_value(&value, Sort::Value, &message);
                None
            }
        }
    }

    /// Reads a list of namespaces. An empty part is refused: from an unset variable it would mean all of them.
    fn namespaces(&mut self, key: &str) -> Option<Vec<String>> {
        let value = self.value(key)?;
        let mut names: Vec<String> = Vec::new();
        if value.text.trim().is_empty() {
            return Some(names);
        }
        for name in value.text.split(',').map(str::trim) {
            if !is_namespace(name) {
                let message = format!("holds {name:?}, which is no name of a namespace");
                self.refuse_value(&value, Sort::Value, &message);
                return None;
            }
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Some(names)
    }

    /// Reads one of a few words.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.value(key)?;
        let found = words.iter().find(|(word, _)| *word == value.text);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("is not one of {}", words.join(", "));
            self.refuse_value(&value, Sort::Value, &message);
        }
        found.map(|(_, choice)| *choice)
    }
}

/// Tells whether a text can name a namespace (an RFC 1123 label).
pub(super) fn is_namespace(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}
