//! Organizations and Enterprises beside Repositories: what GARM does otherwise with them, and their pool managers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::comparison::resyncs;
use crate::documents::entity;
use crate::world::{Mark, SOON, World, condition, image, message, pool, secret, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "organizations_and_enterprises_have_pools_like_repositories",
        pools,
    );
    suite.test_on_each_garm("a_refused_token_stops_only_its_own_entities", refused_token);
    suite.test_on_each_garm("credentials_move_within_their_endpoint", moved);
    suite.test_on_each_garm("a_balancer_is_spelled_out_and_changed_once", balancer);
}

/// A Pool of another scope than the repository.
fn pool_of(kind: &str, scope: &str, name: &str, fields: &str) -> String {
    pool(name, fields).replace(
        "kind: Repository, name: tools",
        &format!("kind: {kind}, name: {scope}"),
    )
}

async fn pools(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.start(&command).await?;
    let fields = "minIdleRunners: 1\n  maxRunners: 2\n  githubRunnerGroup: special";
    let mut documents = world.manifests()[..4].to_vec();
    documents.extend([
        image("runner", "runner:1"),
        entity("Organization", "acme", "pat"),
        entity("Enterprise", "big", "pat"),
        pool_of(
            "Organization",
            "acme",
            "of-org",
            &format!("flavor: org\n  {fields}"),
        ),
        pool_of(
            "Enterprise",
            "big",
            "of-ent",
            &format!("flavor: ent\n  {fields}"),
        ),
    ]);
    documents.reverse();
    world.apply(&documents).await?;
    for (kind, name) in [
        ("organization", "acme"),
        ("enterprise", "big"),
        ("pool", "of-org"),
        ("pool", "of-ent"),
    ] {
        world.wait_ready(kind, name).await?;
    }
    for runner in world.wait_idle_runners(2).await? {
        ensure!(
            runner["status"]["githubRunnerGroup"] == "special",
            "{runner}"
        );
    }
    let credential = world
        .wait("githubcredential", "pat", "its users", |object| {
            object["status"]["organizations"] == json!(["acme"])
                && object["status"]["enterprises"] == json!(["big"])
        })
        .await?;
    ensure!(
        credential["status"]["repositories"].is_null(),
        "{credential}"
    );

    converged(&world).await?;
    world
        .kubectl(
            &[
                "delete",
                "pools,organizations,enterprises",
                "--all",
                "--wait=false",
            ],
            "",
        )
        .await?;
    for (kind, name) in [
        ("pool", "of-org"),
        ("pool", "of-ent"),
        ("organization", "acme"),
        ("enterprise", "big"),
    ] {
        world.wait_gone(kind, name).await?;
    }
    for path in ["/organizations", "/enterprises", "/pools"] {
        ensure!(
            world.garm.api().list(path).await?.is_empty(),
            "{path} is not empty"
        );
    }
    world.finish(operator).await
}

/// Checks that nothing was sent that GARM has already, and that what changes is sent alone.
async fn converged(world: &World<'_>) -> Result<()> {
    // GARM shows no bootstrap timeout for these where the default of 20 minutes is meant; nothing is sent for that.
    resyncs(world, 3).await?;
    let writes = world.garm_writes(Mark::START);
    let of_pools: Vec<&str> = writes
        .iter()
        .filter(|write| write.path.contains("pools"))
        .map(|write| write.route.as_str())
        .collect();
    let mut sorted = of_pools.clone();
    sorted.sort_unstable();
    ensure!(
        sorted
            == [
                "POST /enterprises/{id}/pools",
                "POST /organizations/{id}/pools",
                "PUT /pools/{id}",
                "PUT /pools/{id}"
            ],
        "{:?}",
        told(&writes)
    );
    let mark = world.mark();
    world
        .change(
            "pool",
            "of-org",
            json!({"spec": {"githubRunnerGroup": null}}),
        )
        .await?;
    world
        .change(
            "enterprise",
            "big",
            json!({"spec": {"poolBalancerType": "pack"}}),
        )
        .await?;
    world
        .change(
            "pool",
            "of-ent",
            json!({"spec": {"runnerBootstrapTimeout": 0}}),
        )
        .await?;
    resyncs(world, 1).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes
            == [
                "PUT /pools/{id} {\"github-runner-group\":\"\"}",
                "PUT /enterprises/{id} {\"pool_balancer_type\":\"pack\"}"
            ],
        "{writes:?}"
    );
    Ok(())
}

/// Two credentials on one endpoint, with two repositories each.
fn two_credentials(world: &World<'_>) -> Vec<String> {
    let mut documents = world.manifests()[..4].to_vec();
    documents.push(secret("bad-token", "token", "ghp_planted-token-bad"));
    documents.push(
        documents[3]
            .replace("name: pat}", "name: bad}")
            .replace("name: github-token", "name: bad-token"),
    );
    for (name, credentials) in [
        ("good-one", "pat"),
        ("good-two", "pat"),
        ("bad-one", "bad"),
        ("bad-two", "bad"),
    ] {
        let repository = world.manifests()[4].replace("name: tools", &format!("name: {name}"));
        documents.push(repository.replace(
            "GitHubCredential, name: pat",
            &format!("GitHubCredential, name: {credentials}"),
        ));
    }
    documents
}

async fn refused_token(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    world.garm.github().refuse_token("ghp_planted-token-bad");
    let operator = world.operator().await?;
    world.apply(&two_credentials(&world)).await?;
    for name in ["good-one", "good-two"] {
        world.wait_ready("repository", name).await?;
    }
    for name in ["bad-one", "bad-two"] {
        let failed = world
            .wait("repository", name, "GARM's reason shows", |object| {
                let manager = condition(object, "PoolManager");
                manager["status"] == "False"
                    && manager["message"].to_string().contains("nauthorized")
            })
            .await?;
        ensure!(
            condition(&failed, "PoolManager")["reason"] == "PoolManagerFailure",
            "{failed}"
        );
        ensure!(
            !message(&failed, "PoolManager").contains("planted"),
            "{failed}"
        );
        ensure!(condition(&failed, "Ready")["status"] == "False", "{failed}");
        ensure!(
            world.events(name, "Warning", "Error").await?.is_empty(),
            "a wait is no Warning"
        );
    }

    // GARM tries again by itself after minutes; new credentials make it do so now.
    let mark = world.mark();
    let good = world.object("repository", "good-one").await?;
    world.garm.github().accept_token("ghp_planted-token-bad");
    world
        .apply(&[secret("bad-token", "token", "ghp_planted-token-mended")])
        .await?;
    let since = Instant::now();
    for name in ["bad-one", "bad-two"] {
        poll_manager(&world, name).await?;
    }
    ensure!(
        since.elapsed() < Duration::from_secs(200),
        "healed only after {:?}",
        since.elapsed()
    );
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes
            == [
                "PUT /github/credentials/{id} {\"pat\":{\"oauth2_token\":\"ghp_planted-token-mended\"}}"
            ],
        "{writes:?}"
    );
    let still = world.object("repository", "good-one").await?;
    ensure!(
        good["metadata"]["resourceVersion"] == still["metadata"]["resourceVersion"],
        "the others were touched"
    );
    world.finish(operator).await
}

/// Waits for GARM, which takes a minute or three to try a stopped manager again, depending on its version.
async fn poll_manager(world: &World<'_>, name: &str) -> Result<Value> {
    poll_until(
        Duration::from_secs(200),
        &format!("the manager of {name} runs"),
        async || {
            let object = world.object("repository", name).await?;
            Ok(Seen::when(object, |object| {
                condition(object, "PoolManager")["status"] == "True"
                    && condition(object, "Ready")["status"] == "True"
            }))
        },
    )
    .await
}

async fn moved(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    world.apply(&two_credentials(&world)).await?;
    for name in ["good-one", "good-two", "bad-one", "bad-two"] {
        world.wait_ready("repository", name).await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    let mark = world.mark();
    let other = json!({"spec": {"credentialsRef": {"name": "bad"}}});
    world.change("repository", "good-one", other).await?;
    for (name, users) in [
        ("pat", json!(["good-two"])),
        ("bad", json!(["bad-one", "bad-two", "good-one"])),
    ] {
        world
            .wait("githubcredential", name, "its users follow", |object| {
                object["status"]["repositories"] == users
            })
            .await?;
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(
        writes == ["PUT /repositories/{id} {\"credentials_name\":\"bad\"}"],
        "{writes:?}"
    );
    world.finish(operator).await
}

async fn balancer(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    let path = format!("/repositories/{}", world.id("repository", "tools").await?);
    let mark = world.mark();
    let mut expected: Vec<String> = Vec::new();
    for (spec, put) in [
        (json!("roundrobin"), None),
        (json!("pack"), Some("pack")),
        (json!(null), Some("roundrobin")),
        (json!("pack"), Some("pack")),
        (json!(""), Some("roundrobin")),
    ] {
        let change = json!({"spec": {"poolBalancerType": spec}});
        world.change("repository", "tools", change).await?;
        let put =
            put.map(|put| format!("PUT /repositories/{{id}} {{\"pool_balancer_type\":\"{put}\"}}"));
        expected.extend(put);
        let writes = told(&world.garm_writes(mark));
        ensure!(writes == expected, "{spec}: {writes:?}");
    }
    world
        .garm
        .api()
        .put(&path, &json!({"pool_balancer_type": "pack"}))
        .await?;
    expected.push("PUT /repositories/{id} {\"pool_balancer_type\":\"roundrobin\"}".to_owned());
    let put_back = async || {
        Ok(Seen::when(told(&world.garm_writes(mark)), |writes| {
            *writes == expected
        }))
    };
    poll_until(SOON, "the balancer is put back", put_back).await?;
    resyncs(&world, 2).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes == expected, "{writes:?}");
    world.finish(operator).await
}
