//! Jobs: signed webhooks as GitHub sends them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::Garm;

/// GARM takes a job's id as its identity.
static LAST_ID: AtomicU64 = AtomicU64::new(1000);

/// Whom a webhook comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A repository's hook.
    Repository {
        /// Its owner.
        owner: String,
        /// Its name.
        name: String,
    },
    /// An organization's hook.
    Organization(String),
    /// An enterprise's hook.
    Enterprise(String),
}

impl Owner {
    /// A repository's hook.
    pub fn repository(owner: &str, name: &str) -> Self {
        Self::Repository {
            owner: owner.to_owned(),
            name: name.to_owned(),
        }
    }

    fn target(&self) -> &'static str {
        match self {
            Self::Repository { .. } => "repository",
            Self::Organization(_) => "organization",
            Self::Enterprise(_) => "business",
        }
    }
}

/// A workflow job.
#[derive(Clone, Debug)]
pub struct Job {
    /// GitHub's id.
    pub id: u64,
    /// Where its webhooks come from.
    pub owner: Owner,
    /// The webhook secret that GARM has for the owner.
    pub secret: String,
    /// The labels it asks for.
    pub labels: Vec<String>,
}

impl Job {
    /// A new job.
    pub fn new(owner: Owner, secret: &str, labels: &[&str]) -> Self {
        Self {
            id: LAST_ID.fetch_add(1, Ordering::SeqCst),
            owner,
            secret: secret.to_owned(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
        }
    }
}

impl Garm {
    /// Tells GARM that the job waits for a runner; one is created after GARM's minimum job age.
    pub async fn job_queued(&self, job: &Job) -> Result<()> {
        self.send_job(job, "queued", None).await
    }

    /// Has the runner take the job: GitHub calls it busy, and GARM active.
    pub async fn job_in_progress(&self, job: &Job, runner: &str) -> Result<()> {
        self.github().set_busy(runner, true);
        self.send_job(job, "in_progress", Some(runner)).await
    }

    /// Ends the job: the runner, which lives for one job, leaves GitHub, and GARM deletes it.
    pub async fn job_completed(&self, job: &Job, runner: &str) -> Result<()> {
        let known = self.github().runner(runner);
        self.github().remove_runner(runner);
        let id = known.map(|runner| runner.id);
        self.send_webhook(job, "completed", Some((runner, id)))
            .await
    }

    async fn send_job(&self, job: &Job, action: &str, runner: Option<&str>) -> Result<()> {
        let known = runner.map(|name| (name, self.github().runner(name).map(|runner| runner.id)));
        self.send_webhook(job, action, known).await
    }

    async fn send_webhook(
        &self,
        job: &Job,
        action: &str,
        runner: Option<(&str, Option<u64>)>,
    ) -> Result<()> {
        let body = payload(job, action, runner, &self.github().url()).to_string();
        let mut mac = Hmac::<Sha256>::new_from_slice(job.secret.as_bytes())
            .context("use the webhook secret")?;
        mac.update(body.as_bytes());
        let signature = format!("{:x}", mac.finalize().into_bytes());
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(60))
            .no_proxy()
            .build();
        let response = client
            .context("make an HTTP client")?
            .post(format!("{}/webhooks", self.direct_url()))
            .header("Content-Type", "application/json")
            .header("X-Github-Event", "workflow_job")
            .header("X-Github-Hook-Installation-Target-Type", job.owner.target())
            .header("X-Hub-Signature-256", format!("sha256={signature}"))
            .body(body)
            .send()
            .await
            .context("send the webhook")?;
        let status = response.status();
        if !status.is_success() {
            bail!(
                "GARM answered {status} to the webhook: {}",
                response.text().await.unwrap_or_default()
            );
        }
        Ok(())
    }
}

fn payload(job: &Job, action: &str, runner: Option<(&str, Option<u64>)>, github: &str) -> Value {
    let (runner_name, runner_id) = runner.map_or(("", None), |(name, id)| (name, id));
    let now = "2026-01-01T00:00:00Z";
    let (owner, name) = match &job.owner {
        Owner::Repository { owner, name } => (owner.as_str(), name.as_str()),
        Owner::Organization(name) | Owner::Enterprise(name) => (name.as_str(), "some-repository"),
    };
    let run_url = format!("{github}/{owner}/{name}/actions/runs/{}", job.id);
    let mut payload = json!({
        "action": action,
        "workflow_job": {
            "id": job.id,
            "run_id": job.id,
            "run_url": run_url,
            "html_url": format!("{run_url}/job/{}", job.id),
            "status": action,
            "conclusion": if action == "completed" { "success" } else { "" },
            "name": "build",
            "labels": job.labels,
            "runner_id": runner_id.unwrap_or_default(),
            "runner_name": runner_name,
            "runner_group_id": 1,
            "runner_group_name": "Default",
            "started_at": now,
            "completed_at": now,
        },
        "repository": {
            "name": name,
            "full_name": format!("{owner}/{name}"),
            "owner": { "login": owner },
            "html_url": format!("{github}/{owner}/{name}"),
        },
        "sender": { "login": "somebody" },
    });
    match &job.owner {
        Owner::Repository { .. } => {}
        Owner::Organization(name) => payload["organization"] = json!({ "login": name }),
        Owner::Enterprise(name) => payload["enterprise"] = json!({ "slug": name, "name": name }),
    }
    payload
}
