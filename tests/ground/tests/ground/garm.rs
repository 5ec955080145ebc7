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
        .test_on_each_garm("every_scope_has_runners", every_scope_has_runners)
        .test_on_each_garm("garm_is_set_up_as_told", garm_is_set_up_as_told)
        .test_on_each_garm("fakes_fail_as_told", fakes_fail_as_told)
        .test_on_each_garm("hooks_are_installed", hooks_are_installed);
}

/// Creates an endpoint and credentials.
async fn credentials(garm: &Garm) -> Result<()> {
    let url = garm.github().url();
    let endpoint =
        json!({ "name": "fake", "api_base_url": url, "upload_base_url": url, "base_url": url });
    garm.api().post("/github/endpoints", &endpoint).await?;
    let credentials = json!({
        "name": "bot", "description": "-", "endpoint": "fake", "auth_type": "pat", "pat": { "oauth2_token": "token-1" },
    });
    garm.api()
        .post("/github/credentials", &credentials)
        .await
        .map(drop)
}

/// Creates an entity and returns its path once its pools are managed.
async fn entity(garm: &Garm, kind: &str, mut entity: Value) -> Result<String> {
    entity["credentials_name"] = "bot".into();
    entity["webhook_secret"] = SECRET.into();
    let created = garm.api().post(kind, &entity).await?;
    let path = format!(
        "{kind}/{}",
        created["id"].as_str().context("the entity has no id")?
    );
    poll_until(SOON, "the entity's pools are managed", async || {
        let seen = garm.api().get(&path).await?;
        Ok(Seen::when(seen["pool_manager_status"].clone(), |status| {
            status["running"] == true
        }))
    })
    .await?;
    Ok(path)
}

/// Creates a repository with all it needs.
async fn repository(garm: &Garm) -> Result<String> {
    credentials(garm).await?;
    entity(
        garm,
        "/repositories",
        json!({ "owner": "acme", "name": "shop" }),
    )
    .await
}

/// Creates a pool with idle runners.
async fn pool(garm: &Garm, entity: &str, flavor: &str, runners: u32) -> Result<String> {
    let pool = json!({
        "provider_name": "fake", "max_runners": 5, "min_idle_runners": runners, "image": "ubuntu:24.04", "flavor": flavor,
        "os_type": "linux", "os_arch": "amd64", "tags": ["fast"], "enabled": true, "runner_bootstrap_timeout": 20,
    });
    let created = garm.api().post(&format!("{entity}/pools"), &pool).await?;
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
    let pool = pool(&garm, &repository, "small", 1).await?;

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

async fn every_scope_has_runners(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    credentials(&garm).await?;
    let acme = Owner::Organization("acme".to_owned());
    let big = Owner::Enterprise("big".to_owned());
    let scopes = [
        ("/organizations", "orgs/acme", acme),
        ("/enterprises", "enterprises/big", big),
    ];
    let each = scopes.map(async |(kind, scope, owner)| {
        let name = scope.rsplit('/').next().unwrap_or_default();
        let entity = entity(&garm, kind, json!({ "name": name })).await?;
        let pool = pool(&garm, &entity, "small", 1).await?;
        let idle = instance(&garm, &pool, "a runner is idle", |seen| {
            seen["runner_status"] == "idle"
        })
        .await?;
        let name = idle["name"].as_str().context("the runner has no name")?;
        ensure!(
            garm.github()
                .runner(name)
                .is_some_and(|runner| runner.scope == scope && runner.online)
        );
        garm.job_in_progress(&Job::new(owner, SECRET, &["fast"]), name)
            .await?;
        let active = |seen: &Value| seen["name"] == name && seen["runner_status"] == "active";
        instance(&garm, &pool, "the runner is active", active)
            .await
            .map(drop)
    });
    futures::future::try_join_all(each).await.map(drop)
}

async fn garm_is_set_up_as_told(ground: &Ground, version: GarmVersion) -> Result<()> {
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
    let failing = pool(&garm, &repository, FAILING_FLAVOR, 1).await?;
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

    let small = pool(&garm, &repository, "small", 2).await?;
    let pending = |seen: &Value| seen["status"] == "running" && seen["runner_status"] == "pending";
    let first = instance(&garm, &small, "a machine runs", pending).await?;
    let name = first["name"].as_str().context("the runner has no name")?;
    garm.runners().make_installing(name).await?;
    let installing = |seen: &Value| seen["name"] == name && seen["runner_status"] == "installing";
    instance(&garm, &small, "a runner installs", installing).await?;

    // 0.1.5 keeps no trace of a failed deletion, so the provider is asked.
    garm.provider().fail_deletes(Some("locked"))?;
    garm.api().delete(&format!("/instances/{name}")).await?;
    poll_until(SOON, "a deletion fails", async || {
        let mut operations = garm.provider().operations();
        operations.retain(|operation| {
            operation.command == "DeleteInstance" && operation.subject.ends_with(name)
        });
        Ok(Seen::when(operations, |seen| {
            seen.iter().any(|operation| operation.status == 1)
        }))
    })
    .await?;

    let second = instance(&garm, &small, "another machine runs", |seen| {
        seen["name"] != name && pending(seen)
    })
    .await?;
    let name = second["name"].as_str().context("the runner has no name")?;
    garm.runners().make_idle(name).await?;
    let mark = garm.github().proxy().mark();
    garm.github().refuse_token("token-1");
    let refused = garm
        .api()
        .call("DELETE", &format!("/instances/{name}"), &Value::Null)
        .await?;
    // GARM may have met the refusal by itself just before: it stops the pool manager then, and says so.
    ensure!(
        [if version.is_0_1() { 500 } else { 401 }, 409].contains(&refused.status.as_u16()),
        "{refused:?}"
    );
    let requests = garm.github().proxy().since(mark);
    ensure!(
        requests.iter().any(|seen| seen.status == Some(401)),
        "{requests:?}"
    );
    Ok(())
}

async fn hooks_are_installed(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    let repository = repository(&garm).await?;
    let hook = format!("{repository}/webhook");
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
