//! Reads the settings that belong together, and judges them together.

use std::time::Duration;

use super::read::{Reader, is_namespace};
use super::{LeaseTimes, WebhookCerts, WebhookConfig, duration, problem::Sort};
use crate::domain::defaults::PoolDefaults;

impl Reader<'_> {
    /// Reads the times of the election. A leader has to have given up before others take over, and to have tried more than once before.
    pub(super) fn lease(&mut self) -> Option<LeaseTimes> {
        let long = Duration::from_secs(1)..=Duration::from_secs(3600);
        let lasts = self.duration("operator.leaseDuration", long.clone());
        let renew = self.duration("operator.leaseRenewDeadline", long);
        let short = Duration::from_millis(100)..=Duration::from_secs(3600);
        let retry = self.duration("operator.leaseRetryPeriod", short);
        let (lasts, renew, retry) = (lasts?, renew?, retry?);
        let told = |what: &str, key: &str, limit| {
            format!(
                "has to be {what} {key}, which is {}",
                duration::format(limit)
            )
        };
        if renew >= lasts {
            let message = told("shorter than", "operator.leaseDuration", lasts);
            self.refuse("operator.leaseRenewDeadline", &message);
            return None;
        }
        if retry > renew / 2 {
            let message = told("at most half of", "operator.leaseRenewDeadline", renew);
            self.refuse("operator.leaseRetryPeriod", &message);
            return None;
        }
        Some(LeaseTimes {
            duration: lasts,
            renew,
            retry,
        })
    }

    pub(super) fn webhook(&mut self) -> Option<WebhookConfig> {
        let long = Duration::from_secs(1)..=Duration::MAX;
        let bind_address = self.listen("operator.webhookBindAddress");
        let certs = self.choice(
            "operator.webhookCerts",
            &[
                ("files", WebhookCerts::Files),
                ("self-managed", WebhookCerts::SelfManaged),
            ],
        );
        let cert_dir = self.required("operator.webhookCertDir");
        let name_prefix = self.name_prefix("operator.webhookNamePrefix");
        let ca_lifetime = self.duration("operator.webhookCaLifetime", long.clone());
        let cert_lifetime = self.duration("operator.webhookCertLifetime", long.clone());
        let ca_step = self.duration("operator.webhookCaStep", long);
        if let (Some(life), Some(step)) = (ca_lifetime, ca_step)
            && step > life / 4
        {
            self.refuse(
                "operator.webhookCaStep",
                "is more than a quarter of operator.webhookCaLifetime, so that a CA could end before the next one is known",
            );
            return None;
        }
        Some(WebhookConfig {
            bind_address: bind_address?,
            certs: certs?,
            cert_dir: cert_dir?.into(),
            name_prefix: name_prefix?,
            ca_lifetime: ca_lifetime?,
            cert_lifetime: cert_lifetime?,
            ca_step: ca_step?,
        })
    }

    /// Reads the beginning of object names; with the longest end that we give, a Service name has at most 63 characters.
    fn name_prefix(&mut self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        if !is_namespace(&value.text) || value.text.len() > 40 {
            let message = "cannot begin the name of a Service; use up to 40 lower-case letters, digits and dashes";
            self.refuse_value(&value, Sort::Value, message);
            return None;
        }
        Some(value.text)
    }

    /// Reads the defaults of Pools by the rules that Pools are judged by, so that no default makes every Pool invalid.
    pub(super) fn pool_defaults(&mut self) -> Option<PoolDefaults> {
        let os_type = self.text("operator.poolDefaults.osType");
        let os_arch = self.text("operator.poolDefaults.osArch");
        let enabled = self.boolean("operator.poolDefaults.enabled");
        let min_idle_runners =
            self.number("operator.poolDefaults.minIdleRunners", i64::MIN..=i64::MAX);
        let runner_bootstrap_timeout = self.number(
            "operator.poolDefaults.runnerBootstrapTimeout",
            i64::MIN..=i64::MAX,
        );
        let runner_prefix = self.text("operator.poolDefaults.runnerPrefix");
        let github_runner_group = self.text("operator.poolDefaults.githubRunnerGroup");
        let defaults = PoolDefaults {
            os_type: os_type?,
            os_arch: os_arch?,
            enabled: enabled?,
            min_idle_runners: min_idle_runners?,
            runner_bootstrap_timeout: runner_bootstrap_timeout?,
            runner_prefix: runner_prefix.filter(|text| !text.is_empty()),
            github_runner_group: github_runner_group.filter(|text| !text.is_empty()),
        };
        let faults = defaults.faults();
        for fault in &faults {
            let key = fault.path.replacen("spec", "operator.poolDefaults", 1);
            self.refuse(&key, &fault.message);
        }
        faults.is_empty().then_some(defaults)
    }
}
