//! Values of Pool fields that a manifest leaves out.

use crate::domain::field::FieldError;
use crate::domain::pool;

/// What a Pool gets where its manifest says nothing (`operator.poolDefaults`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolDefaults {
    /// `spec.osType`.
    pub os_type: String,
    /// `spec.osArch`.
    pub os_arch: String,
    /// `spec.enabled`.
    pub enabled: bool,
    /// `spec.minIdleRunners`.
    pub min_idle_runners: i64,
    /// `spec.runnerBootstrapTimeout`, in minutes.
    pub runner_bootstrap_timeout: i64,
    /// `spec.runnerPrefix`; `None` leaves it absent, which is GARM's own.
    pub runner_prefix: Option<String>,
    /// `spec.githubRunnerGroup`; `None` leaves it absent, which is GitHub's default one.
    pub github_runner_group: Option<String>,
}

/// The built-in defaults.
impl Default for PoolDefaults {
    fn default() -> Self {
        Self {
            os_type: "linux".to_owned(),
            os_arch: "amd64".to_owned(),
            enabled: true,
            min_idle_runners: 0,
            runner_bootstrap_timeout: 20,
            runner_prefix: None,
            github_runner_group: None,
        }
    }
}

impl PoolDefaults {
    /// Names the values that no Pool may have, by the path of their field.
    pub fn faults(&self) -> Vec<FieldError> {
        pool::faults_of_defaults(self)
    }
}
