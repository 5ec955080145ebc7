//! What is shown of each kind. Runners are not, as with the Go operator: there may be ten thousand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Gauge, Labels, Shown, Split};
use crate::api::v1beta1::{
    Enterprise, GarmServerConfig, GitHubCredential, GitHubEndpoint, Image, Organization, Pool,
    Repository,
};

macro_rules! shown_entity {
    ($kind:ident, $type:literal, $stem:literal $(, $field:ident)?) => {
        impl Shown for $kind {
            const TYPE: &'static str = $type;
            const STEM: &'static str = $stem;
            const SHOWS_PAUSE: bool = true;

            fn info<'a>(&'a self, labels: &mut Labels<'a>) {
                let spec = &self.spec;
                $(labels.text(stringify!($field), &spec.$field);)?
                labels
                    .text("credentialsRefName", &spec.credentials_ref.name)
                    .text("webhookSecretRefKey", &spec.webhook_secret_ref.key)
                    .text("webhookSecretRefName", &spec.webhook_secret_ref.name)
                    .text("id", self.status.as_ref().map_or("", |status| &status.id));
            }

            fn conditions(&self) -> &[Condition] {
                let status = self.status.as_ref();
                status.map_or(&[], |status| &status.conditions)
            }
        }
    };
}

shown_entity!(Enterprise, "enterprise", "enterprise");
shown_entity!(Organization, "organization", "org");
shown_entity!(Repository, "repository", "repo", owner);

impl Shown for Pool {
    const TYPE: &'static str = "pool";
    const STEM: &'static str = "pool";
    const SHOWS_PAUSE: bool = true;

    fn info<'a>(&'a self, labels: &mut Labels<'a>) {
        let spec = &self.spec;
        labels
            .optional("githubRunnerGroup", spec.github_runner_group.as_ref())
            .text("scopeKind", &spec.github_scope_ref.kind)
            .text("scopeName", &spec.github_scope_ref.name)
            .text("imageName", &spec.image_name)
            .text("osArch", &spec.os_arch)
            .text("osType", &spec.os_type)
            .text("providerName", &spec.provider_name)
            .number(
                "runnerBootstrapTimeout",
                Some(spec.runner_bootstrap_timeout),
            )
            .optional("runnerPrefix", spec.runner_prefix.as_ref())
            .list("tags", &spec.tags)
            .text("id", self.status.as_ref().map_or("", |status| &status.id));
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    fn gauges() -> Vec<Gauge<Self>> {
        vec![
            Gauge {
                name: "garm_operator_pool_enabled",
                help: "Whether the pool is enabled.",
                value: |pool| Some(i64::from(pool.spec.enabled)),
            },
            Gauge {
                name: "garm_operator_pool_min_idle_runners",
                help: "Minimum number of idle runners.",
                value: |pool| Some(pool.spec.min_idle_runners),
            },
            Gauge {
                name: "garm_operator_pool_max_runners",
                help: "Maximum number of runners.",
                value: |pool| Some(pool.spec.max_runners),
            },
            // Without `pool` in its name, as dashboards know it.
            Gauge {
                name: "garm_operator_status_long_running_idle_runners",
                help: "Number of long running idle runners.",
                value: |pool| Some(pool.status.as_ref()?.long_running_idle_runners),
            },
            Gauge {
                name: "garm_operator_pool_priority",
                help: "Order in which the pools that fit a job are filled, higher first; absent where the object leaves it to GARM.",
                value: |pool| pool.spec.priority,
            },
        ]
    }

    fn splits() -> Vec<Split<Self>> {
        vec![Split {
            name: "garm_operator_pool_runners",
            help: "Runners by what they do; total is the sum of the others.",
            label: "state",
            values: |pool| {
                let Some(counts) = pool.status.as_ref().and_then(|status| status.runners) else {
                    return Vec::new();
                };
                vec![
                    ("total", counts.total),
                    ("pending", counts.pending),
                    ("idle", counts.idle),
                    ("active", counts.active),
                    ("failed", counts.failed),
                    ("deleting", counts.deleting),
                    ("other", counts.other),
                ]
            },
        }]
    }
}

impl Shown for Image {
    const TYPE: &'static str = "image";
    const STEM: &'static str = "image";

    fn info<'a>(&'a self, labels: &mut Labels<'a>) {
        labels.optional("tag", self.spec.tag.as_ref());
    }
}

impl Shown for GarmServerConfig {
    const TYPE: &'static str = "garmserverconfig";
    const STEM: &'static str = "garmserverconfig";
    const SHOWS_PAUSE: bool = true;

    fn info<'a>(&'a self, labels: &mut Labels<'a>) {
        let spec = &self.spec;
        labels
            .optional("callbackUrl", spec.callback_url.as_ref())
            .optional("metadataUrl", spec.metadata_url.as_ref())
            .optional("webhookUrl", spec.webhook_url.as_ref());
        if let Some(status) = &self.status {
            labels
                .optional("controllerId", status.controller_id.as_ref())
                .number("minimumJobAgeBackoff", status.minimum_job_age_backoff)
                .optional("version", status.version.as_ref());
        }
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}

impl Shown for GitHubEndpoint {
    const TYPE: &'static str = "githubendpoint";
    const STEM: &'static str = "githubendpoint";
    const SHOWS_PAUSE: bool = true;

    fn info<'a>(&'a self, labels: &mut Labels<'a>) {
        let spec = &self.spec;
        labels
            .optional("apiBaseUrl", spec.api_base_url.as_ref())
            .optional("baseUrl", spec.base_url.as_ref())
            .optional("uploadBaseUrl", spec.upload_base_url.as_ref());
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}

impl Shown for GitHubCredential {
    const TYPE: &'static str = "githubcredential";
    const STEM: &'static str = "githubcredential";
    const SHOWS_PAUSE: bool = true;

    fn info<'a>(&'a self, labels: &mut Labels<'a>) {
        let spec = &self.spec;
        labels.text("authType", &spec.auth_type);
        if let Some(secret) = &spec.secret_ref {
            labels
                .text("secretRefKey", &secret.key)
                .text("secretRefName", &secret.name);
        }
        labels.text("endpointRefName", &spec.endpoint_ref.name);
        if let Some(status) = &self.status {
            labels
                .text("apiBaseUrl", &status.api_base_url)
                .text("baseUrl", &status.base_url)
                .text("uploadBaseUrl", &status.upload_base_url)
                .number("id", Some(status.id));
        }
    }

    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }
}
