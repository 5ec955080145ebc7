//! The table of settings: every name, default and explanation once, for flags, environment, file, help and `--dry-run`.

/// How the value of a setting is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Any text.
    Text,
    /// Text that is never shown.
    Secret,
    /// Path of a file.
    File,
    /// A yes or no as Go reads it.
    Bool,
    /// A whole number.
    Number,
    /// A duration as Go reads it.
    Duration,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Path in the configuration file, e.g. `operator.syncPeriod`; the name of the setting in messages.
    pub key: &'static str,
    /// Flag without dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// How the value is written.
    pub kind: Kind,
    /// Value when no source has one.
    pub default: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Further names that are accepted.
    pub aliases: &'static [Alias],
}

/// Another set of names for a setting.
#[derive(Debug)]
pub struct Alias {
    /// Path in the configuration file.
    pub key: &'static str,
    /// Flag without dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// Whether the help shows it.
    pub shown: bool,
}

const fn setting(
    key: &'static str,
    flag: &'static str,
    env: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        key,
        flag,
        env,
        kind,
        default,
        help,
        aliases: &[],
    }
}

/// All settings, in the order in which they are shown.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("garm.server", "garm-server", "GARM_SERVER", Kind::Text, "",
        "URL of GARM, e.g. http://garm:9997 (required)"),
    setting("garm.username", "garm-username", "GARM_USERNAME", Kind::Text, "",
        "user the operator logs in to GARM as (required)"),
    setting("garm.password", "garm-password", "GARM_PASSWORD", Kind::Secret, "",
        "password of that user; better kept in the environment or a file (required, or the file)"),
    setting("garm.passwordFile", "garm-password-file", "GARM_PASSWORD_FILE", Kind::File, "",
        "file that holds the password; read again at each login"),
    setting("garm.init", "garm-init", "GARM_INIT", Kind::Bool, "true",
        "initialise a fresh GARM with that user, password and e-mail address"),
    setting("garm.email", "garm-email", "GARM_EMAIL", Kind::Text, "garm-operator@localhost",
        "e-mail address of the first user of a fresh GARM"),
    setting("garm.caFile", "garm-ca-file", "GARM_CA_FILE", Kind::File, "",
        "file with CA certificates (PEM) to trust GARM by, besides those of the system"),
    setting("operator.metricsBindAddress", "operator-metrics-bind-address", "OPERATOR_METRICS_BIND_ADDRESS", Kind::Text, ":8080",
        "address that serves metrics; 0 switches it off"),
    setting("operator.healthProbeBindAddress", "operator-health-probe-bind-address", "OPERATOR_HEALTH_PROBE_BIND_ADDRESS", Kind::Text, ":8081",
        "address that serves health probes; 0 switches it off"),
    setting("operator.stateMetrics", "operator-state-metrics", "OPERATOR_STATE_METRICS", Kind::Bool, "false",
        "show the state of each object as metrics too, under the names of the kube-state-metrics configuration"),
    setting("operator.stuckAfter", "operator-stuck-after", "OPERATOR_STUCK_AFTER", Kind::Duration, "8m0s",
        "time without progress after which a watch, controller or loop fails /healthz (2m to 24h)"),
    setting("operator.leaderElection", "operator-leader-election", "OPERATOR_LEADER_ELECTION", Kind::Bool, "false",
        "let only one of several replicas work at a time; all serve webhooks, probes and metrics"),
    setting("operator.leaseDuration", "operator-lease-duration", "OPERATOR_LEASE_DURATION", Kind::Duration, "15s",
        "how long other replicas wait for a leader that is silent before one takes over (1s to 1h)"),
    setting("operator.leaseRenewDeadline", "operator-lease-renew-deadline", "OPERATOR_LEASE_RENEW_DEADLINE", Kind::Duration, "10s",
        "how long a leader works on that cannot renew its lease; shorter than the lease's duration"),
    setting("operator.leaseRetryPeriod", "operator-lease-retry-period", "OPERATOR_LEASE_RETRY_PERIOD", Kind::Duration, "2s",
        "time between two renewals of the lease; at most half of the renew deadline"),
    setting("operator.syncPeriod", "operator-sync-period", "OPERATOR_SYNC_PERIOD", Kind::Duration, "5m0s",
        "time between two full comparisons with GARM"),
    setting("operator.watchNamespace", "operator-watch-namespace", "OPERATOR_WATCH_NAMESPACE", Kind::Text, "",
        "namespaces to watch, separated by commas; empty: all"),
    setting("operator.syncRunnersInterval", "operator-sync-runners-interval", "OPERATOR_SYNC_RUNNERS_INTERVAL", Kind::Duration, "5s",
        "time between two looks at GARM's runners while it sends no events (5s to 5m)"),
    setting("operator.minIdleRunnersAge", "operator-min-idle-runners-age", "OPERATOR_MIN_IDLE_RUNNERS_AGE", Kind::Duration, "2h0m0s",
        "age from which idle runners above a pool's minimum are removed"),
    setting("operator.failedRunnerTTL", "operator-failed-runner-ttl", "OPERATOR_FAILED_RUNNER_TTL", Kind::Duration, "0s",
        "age from which runners that the provider could not make are removed; 0 leaves them"),
    setting("operator.runnerConcurrency", "operator-runner-concurrency", "OPERATOR_RUNNER_CONCURRENCY", Kind::Number, "50",
        "Runners worked on at a time"),
    setting("operator.repositoryConcurrency", "operator-repository-concurrency", "OPERATOR_REPOSITORY_CONCURRENCY", Kind::Number, "10",
        "Repositories worked on at a time"),
    setting("operator.organizationConcurrency", "operator-organization-concurrency", "OPERATOR_ORGANIZATION_CONCURRENCY", Kind::Number, "5",
        "Organizations worked on at a time"),
    setting("operator.enterpriseConcurrency", "operator-enterprise-concurrency", "OPERATOR_ENTERPRISE_CONCURRENCY", Kind::Number, "1",
        "Enterprises worked on at a time"),
    setting("operator.poolConcurrency", "operator-pool-concurrency", "OPERATOR_POOL_CONCURRENCY", Kind::Number, "10",
        "Pools worked on at a time"),
    Setting {
        aliases: &[
            Alias { key: "operator.syncRunners", flag: "operator-sync-runners", env: "OPERATOR_SYNC_RUNNERS", shown: true },
            // Misspelt in the documentation users have followed.
            Alias { key: "operator.runnerReconcilation", flag: "operator-runner-reconcilation", env: "OPERATOR_RUNNER_RECONCILATION", shown: false },
        ],
        ..setting("operator.runnerReconciliation", "operator-runner-reconciliation", "OPERATOR_RUNNER_RECONCILIATION", Kind::Bool, "false",
            "show GARM's runners as Runner objects")
    },
    setting("operator.webhookBindAddress", "operator-webhook-bind-address", "OPERATOR_WEBHOOK_BIND_ADDRESS", Kind::Text, ":9443",
        "address that serves admission and conversion webhooks over TLS; 0 switches them off"),
    setting("operator.webhookCerts", "operator-webhook-certs", "OPERATOR_WEBHOOK_CERTS", Kind::Text, "files",
        "where the certificate of the webhooks comes from: files (cert-manager or you) or self-managed"),
    setting("operator.webhookCertDir", "operator-webhook-cert-dir", "OPERATOR_WEBHOOK_CERT_DIR", Kind::File, "/tmp/k8s-webhook-server/serving-certs",
        "folder with tls.crt and tls.key (files)"),
    setting("operator.webhookNamePrefix", "operator-webhook-name-prefix", "OPERATOR_WEBHOOK_NAME_PREFIX", Kind::Text, "garm-operator",
        "what the names of the webhook Service, the webhook configurations and the CA Secret begin with (self-managed)"),
    setting("operator.webhookCaLifetime", "operator-webhook-ca-lifetime", "OPERATOR_WEBHOOK_CA_LIFETIME", Kind::Duration, "8760h0m0s",
        "how long a CA of ours is valid; it is replaced after two thirds of it (self-managed)"),
    setting("operator.webhookCertLifetime", "operator-webhook-cert-lifetime", "OPERATOR_WEBHOOK_CERT_LIFETIME", Kind::Duration, "168h0m0s",
        "how long a certificate of ours is valid; it is replaced after two thirds of it (self-managed)"),
    setting("operator.webhookCaStep", "operator-webhook-ca-step", "OPERATOR_WEBHOOK_CA_STEP", Kind::Duration, "10m0s",
        "how long each step of a change of our CA is held (self-managed)"),
    setting("operator.duplicatePools", "operator-duplicate-pools", "OPERATOR_DUPLICATE_POOLS", Kind::Text, "deny",
        "what to do with a Pool that equals another of its namespace: deny, warn or allow"),
    setting("operator.poolDefaults.osType", "operator-pool-defaults-os-type", "OPERATOR_POOL_DEFAULTS_OS_TYPE", Kind::Text, "linux",
        "osType of Pools that name none"),
    setting("operator.poolDefaults.osArch", "operator-pool-defaults-os-arch", "OPERATOR_POOL_DEFAULTS_OS_ARCH", Kind::Text, "amd64",
        "osArch of Pools that name none"),
    setting("operator.poolDefaults.enabled", "operator-pool-defaults-enabled", "OPERATOR_POOL_DEFAULTS_ENABLED", Kind::Bool, "true",
        "whether Pools that do not say so are enabled"),
    setting("operator.poolDefaults.minIdleRunners", "operator-pool-defaults-min-idle-runners", "OPERATOR_POOL_DEFAULTS_MIN_IDLE_RUNNERS", Kind::Number, "0",
        "minIdleRunners of Pools that name none; no effect with the shipped CRD, which has a default of its own, 0"),
    setting("operator.poolDefaults.runnerBootstrapTimeout", "operator-pool-defaults-runner-bootstrap-timeout", "OPERATOR_POOL_DEFAULTS_RUNNER_BOOTSTRAP_TIMEOUT", Kind::Number, "20",
        "runnerBootstrapTimeout of Pools that name none, in minutes"),
    setting("operator.poolDefaults.runnerPrefix", "operator-pool-defaults-runner-prefix", "OPERATOR_POOL_DEFAULTS_RUNNER_PREFIX", Kind::Text, "",
        "runnerPrefix of Pools that name none; empty: GARM's own"),
    setting("operator.poolDefaults.githubRunnerGroup", "operator-pool-defaults-github-runner-group", "OPERATOR_POOL_DEFAULTS_GITHUB_RUNNER_GROUP", Kind::Text, "",
        "githubRunnerGroup of Pools that name none; empty: none"),
    setting("operator.logVerbosityLevel", "operator-log-verbosity-level", "OPERATOR_LOG_VERBOSITY_LEVEL", Kind::Number, "0",
        "how much is logged, 0 to 5"),
    setting("operator.logFormat", "operator-log-format", "OPERATOR_LOG_FORMAT", Kind::Text, "text",
        "form of the log: text or json"),
];

/// Finds a setting by its path in the file, also by another name of it.
pub fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS
        .iter()
        .find(|setting| setting.key == key || setting.aliases.iter().any(|alias| alias.key == key))
}

/// Finds the known path that is nearest to a misspelt one, if one is near.
pub fn nearest_key(key: &str) -> Option<&'static str> {
    let lower = key.to_lowercase();
    SETTINGS
        .iter()
        .map(|setting| (distance(&lower, &setting.key.to_lowercase()), setting.key))
        .min()
        .filter(|(distance, _)| *distance <= key.len() / 4)
        .map(|(_, key)| key)
}

/// Counts the letters to insert, remove or replace between two texts.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spells a path as the variable the Go operator read it from; an abbreviation in capitals is one word.
    fn env_of(key: &str) -> String {
        let mut before = '.';
        key.chars().fold(String::new(), |mut name, c| {
            match c {
                '.' => name.push('_'),
                c if c.is_ascii_uppercase() && !before.is_ascii_uppercase() => {
                    name.extend(['_', c]);
                }
                c => name.push(c.to_ascii_uppercase()),
            }
            before = c;
            name
        })
    }

    #[test]
    fn flag_variable_and_path_of_a_setting_are_one_name() {
        for setting in SETTINGS {
            let aliases = setting
                .aliases
                .iter()
                .map(|alias| (alias.key, alias.flag, alias.env));
            for (key, flag, env) in aliases.chain([(setting.key, setting.flag, setting.env)]) {
                assert_eq!(env_of(key), env);
                assert_eq!(env.to_lowercase().replace('_', "-"), flag);
            }
        }
    }

    #[test]
    fn hints_at_the_nearest_path_only_when_one_is_near() {
        assert_eq!(
            nearest_key("operator.syncperiod"),
            Some("operator.syncPeriod")
        );
        assert_eq!(
            nearest_key("operator.sncPeriod"),
            Some("operator.syncPeriod")
        );
        assert_eq!(nearest_key("garm.pasword"), Some("garm.password"));
        assert_eq!(nearest_key("webhook.port"), None);
        assert_eq!(nearest_key(""), None);
    }
}
