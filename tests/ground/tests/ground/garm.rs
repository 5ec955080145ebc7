//! GARM with its fakes, in both versions.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use garm_operator_ground::{
    FAILING_FLAVOR, Garm, GarmOptions, Ground, Job, Owner, Setup,
    harness::Suite,
    poll::{Seen, poll_until},
    servers::GarmVersion,
};
use serde_json::{Value, json};

const SECRET: &str = "a-webhook-secret";
const SOON: Duration = Duration::from_secs(30);

pub fn add(suite: &mut Suite) {
    suite
        .test_on_each_garm("a_runner_lives_and_dies", a_runner_lives_and_dies)
        .test_on_each_garm(
            "garm_is_set_up_as_far_as_told",
            garm_is_set_up_as_far_as_told,
        )
        .test_on_each_garm("fakes_fail_as_told", fakes_fail_as_told)
        .test_on_each_garm("hooks_are_installed", hooks_are_installed);
}

/// Creates an endpoint, credentials and a repository; returns the repository's id once its pools are managed.
pub async fn repository(garm: &Garm) -> Result<String> {
    let (api, url) = (garm.api(), garm.github().url());
    let endpoint =
        json!({ "name": "fake", "api_base_url": url, "upload_base_url": url, "base_url": url });
    api.post("/github/endpoints", &endpoint).await?;
    let credentials = json!({
        "name": "bot", "description": "-", "endpoint": "fake", "auth_type": "pat", "pat": { "oauth2_token": "token-1" },
    });
    api.post("/github/credentials", &credentials).await?;
    let repository = json!({ "owner": "acme", "name": "shop", "credentials_name": "bot", "webhook_secret": SECRET });
    let created = api.post("/repositories", &repository).await?;
    let id = created["id"]
        .as_str()
        .context("the repository has no id")?
        .to_owned();
    poll_until(SOON, "the repository's pools are managed", async || {
        let seen = api.get(&format!("/repositories/{id}")).await?;
        Ok(Seen::when(seen["pool_manager_status"].clone(), |status| {
            status["running"] == true
        }))
    })
    .await?;
    Ok(id)
}

/// Creates a pool with one idle runner.
pub async fn pool(garm: &Garm, repository: &str, flavor: &str) -> Result<String> {
    let pool = json!({
        "provider_name": "fake", "max_runners": 2, "min_idle_runners": 1, "image": "ubuntu:24.04", "flavor": flavor,
        "os_type": "linux", "os_arch": "amd64", "tags": ["fast"], "enabled": true, "runner_bootstrap_timeout": 20,
    });
    let created = garm
        .api()
        .post(&format!("/repositories/{repository}/pools"), &pool)
        .await?;
    Ok(created["id"]
        .as_str()
        .context("the pool has no id")?
        .to_owned())
}

/// Waits for a runner of the pool that satisfies `wanted`.
async fn instance(
    garm: &Garm,
    pool: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let path = format!("/pools/{pool}/instances");
    poll_until(SOON, what, async || {
        let list = garm.api().list(&path).await?;
        let shown = json!(list).to_string();
        Ok(list
            .into_iter()
            .find(|instance| wanted(instance))
            .map_or(Seen::NotYet(shown), Seen::Yes))
    })
    .await
}

async fn a_runner_lives_and_dies(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    ensure!(garm.api().get("/controller").await?["version"] == version.as_str());
    let repository = repository(&garm).await?;
    let pool = pool(&garm, &repository, "small").await?;

    let idle = instance(&garm, &pool, "a runner is idle", |seen| {
        seen["runner_status"] == "idle"
    })
    .await?;
    let name = idle["name"].as_str().context("the runner has no name")?;
    ensure!(
        idle["status"] == "running" && idle["os_name"] == "ubuntu",
        "{idle}"
    );
    ensure!(garm.provider().machine(name).is_some());
    let known = garm
        .github()
        .runner(name)
        .context("GitHub does not know the runner")?;
    ensure!(
        known.scope == "repos/acme/shop" && known.online && !known.busy,
        "{known:?}"
    );
    ensure!(
        known
            .labels
            .iter()
            .any(|label| label.starts_with("runner-controller-id")),
        "{known:?}"
    );
    ensure!(idle["agent_id"] == known.id, "{idle}");

    let job = Job::new(Owner::repository("acme", "shop"), SECRET, &["fast"]);
    garm.job_queued(&job).await?;
    garm.job_in_progress(&job, name).await?;
    instance(&garm, &pool, "the runner is active", |seen| {
        seen["name"] == name && seen["runner_status"] == "active"
    })
    .await?;
    let busy = garm
        .api()
        .call("DELETE", &format!("/instances/{name}"), &Value::Null)
        .await?;
    ensure!(busy.status == 400, "a busy runner was deleted: {busy:?}");

    garm.job_completed(&job, name).await?;
    poll_until(SOON, "the runner is gone", async || {
        let answer = garm
            .api()
            .call("GET", &format!("/instances/{name}"), &Value::Null)
            .await?;
        Ok(Seen::when(answer, |answer| answer.status == 404))
    })
    .await?;
    ensure!(garm.provider().machine(name).is_none() && garm.github().runner(name).is_none());
    Ok(())
}

async fn garm_is_set_up_as_far_as_told(ground: &Ground, version: GarmVersion) -> Result<()> {
    let options = GarmOptions {
        setup: Setup::Uninitialised,
        ..GarmOptions::default()
    };
    let garm = ground.garm_with(version, options).await?;
    let fresh = garm
        .api()
        .anonymous("GET", "/controller", &Value::Null)
        .await?;
    ensure!(
        fresh.status == if version.is_0_1() { 401 } else { 409 },
        "{fresh:?}"
    );

    garm.set_up(Setup::WithoutUrls).await?;
    let without = garm.api().call("GET", "/pools", &Value::Null).await?;
    ensure!(
        without.status == 409 && without.body["error"] == "urls_required",
        "{without:?}"
    );
    garm.set_urls().await?;
    ensure!(garm.api().list("/pools").await?.is_empty());

    let endpoint = json!({ "name": "e", "api_base_url": "http://e", "upload_base_url": "http://e", "base_url": "http://e" });
    garm.api().post("/github/endpoints", &endpoint).await?;
    garm.restart().await?;
    garm.api().get("/github/endpoints/e").await?;
    garm.wipe(Setup::Complete).await?;
    let gone = garm
        .api()
        .call("GET", "/github/endpoints/e", &Value::Null)
        .await?;
    ensure!(gone.status == 404, "{gone:?}");
    Ok(())
}

async fn fakes_fail_as_told(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground
        .garm_with(
            version,
            GarmOptions {
                auto_idle: false,
                ..GarmOptions::default()
            },
        )
        .await?;
    let repository = repository(&garm).await?;
    let failing = pool(&garm, &repository, FAILING_FLAVOR).await?;
    let error = instance(&garm, &failing, "a creation fails", |seen| {
        seen["provider_fault"].is_string()
    })
    .await?;
    ensure!(
        !error["provider_fault"]
            .as_str()
            .unwrap_or_default()
            .is_empty(),
        "{error}"
    );

    let small = pool(&garm, &repository, "small").await?;
    let pending = |seen: &Value| seen["status"] == "running" && seen["runner_status"] == "pending";
    let runner = instance(&garm, &small, "a machine runs", pending).await?;
    let name = runner["name"].as_str().context("the runner has no name")?;
    garm.runners().make_installing(name).await?;
    instance(&garm, &small, "a runner installs", |seen| {
        seen["runner_status"] == "installing"
    })
    .await?;
    garm.runners().make_idle(name).await?;

    let delete = format!("/instances/{name}");
    garm.github().refuse_token("token-1");
    let refused = garm.api().call("DELETE", &delete, &Value::Null).await?;
    ensure!(
        refused.status == if version.is_0_1() { 500 } else { 401 },
        "{refused:?}"
    );
    garm.github().accept_token("token-1");
    ensure!(
        garm.github()
            .proxy()
            .count(0, "DELETE /repos/{owner}/{repo}/actions/runners/{id}")
            == 1
    );

    garm.provider().fail_deletes(Some("locked"))?;
    garm.api()
        .delete(&format!("{delete}?bypassGHUnauthorized=true"))
        .await?;
    instance(&garm, &small, "a deletion fails", |seen| {
        seen["provider_fault"].is_string()
    })
    .await?;
    Ok(())
}

async fn hooks_are_installed(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    let repository = repository(&garm).await?;
    let hook = format!("/repositories/{repository}/webhook");
    ensure!(garm.api().call("GET", &hook, &Value::Null).await?.status == 404);
    let installed = garm.api().post(&hook, &json!({})).await?;
    let hooks = garm.github().hooks("repos/acme/shop");
    ensure!(
        hooks.len() == 1 && hooks[0]["config"]["url"] == installed["url"],
        "{installed} {hooks:?}"
    );
    garm.api().delete(&hook).await?;
    ensure!(garm.github().hooks("repos/acme/shop").is_empty());
    Ok(())
}
