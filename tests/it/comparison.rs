//! What GARM normalises is no difference; what differs is one request with exactly that.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Recorded;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::documents::apart;
use crate::place::Place;
use crate::secrets::app_key;
use crate::world::{Mark, SOON, World, image, message, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("equal_pools_are_never_sent_again", equal_pools);
    suite.test_on_each_garm("each_field_of_a_pool_is_one_put_of_that_field", fields);
    suite.test_on_each_garm("what_is_changed_by_hand_is_put_back_once", drift);
    suite.test_on_each_garm("an_image_rolls_within_its_namespace_only", namespaces);
    suite.test_on_each_garm("what_garm_cannot_change_is_refused_once", immutable);
}

/// The bodies of all changes of pools since the mark; fails when anything else was written.
fn pool_puts(world: &World<'_>, mark: Mark) -> Result<Vec<Value>> {
    let writes = world.garm_writes(mark);
    ensure!(
        writes.iter().all(|write| write.route == "PUT /pools/{id}"),
        "{:?}",
        told(&writes)
    );
    Ok(writes.iter().map(Recorded::json).collect())
}

/// Makes everything but pools, and waits until a pool can be made.
async fn without_pools(world: &World<'_>) -> Result<()> {
    let mut documents = world.manifests();
    documents.retain(|document| !document.contains("kind: Pool"));
    world.apply(&documents).await?;
    world.wait_ready("repository", "tools").await?;
    Ok(())
}

/// Waits until GARM was compared with everything that many times since now.
pub async fn resyncs(world: &World<'_>, times: usize) -> Result<()> {
    let mark = world.mark();
    let lists = async || {
        // The first may have begun before.
        let count = world.garm_count(mark, "GET /pools");
        Ok(Seen::when(count, |count| *count > times))
    };
    poll_until(SOON * 6, &format!("{times} resyncs"), lists).await?;
    Ok(())
}

async fn equal_pools(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // A resync each 1.5 s.
    let command = world.command().argument("--timings-scale=0.005");
    let operator = world.start(&command).await?;
    without_pools(&world).await?;
    // Its spelling of a tag is the one that GARM keeps.
    world
        .apply(&[pool(
            "first",
            "flavor: first\n  minIdleRunners: 0\n  maxRunners: 1",
        )
        .replace("tags: [first, linux]", "tags: [gpu, x]")])
        .await?;
    world.wait_ready("pool", "first").await?;
    let odd = pool("odd", "flavor: odd\n  minIdleRunners: 0\n  maxRunners: 1\n  runnerPrefix: \"\"\n  githubRunnerGroup: Default\n  extraSpecs: \"{ \\\"a\\\": 1,\\n\\\"b\\\":2 }\"")
        .replace("tags: [odd, linux]", "tags: [linux-amd64-ubuntu, GPU, gpu, X]")
        .replace("runnerBootstrapTimeout: 20", "runnerBootstrapTimeout: 0");
    let mark = world.mark();
    world.apply(std::slice::from_ref(&odd)).await?;
    world.wait_ready("pool", "odd").await?;
    let writes = world.garm_writes(mark);
    ensure!(writes.len() == 2, "{:?}", told(&writes));
    let post = writes[0].json();
    ensure!(
        post["runner_bootstrap_timeout"] == 20 && post["extra_specs"] == json!({"a": 1, "b": 2}),
        "{post}"
    );

    let id = world.id("pool", "odd").await?;
    let before = world.garm.api().get(&format!("/pools/{id}")).await?;
    let mark = world.mark();
    resyncs(&world, 10).await?;
    for same in [
        json!({"extraSpecs": "{\"b\": 2, \"a\": 1}"}),
        json!({"tags": ["x", "LINUX-amd64-ubuntu", "gpu"]}),
        json!({"runnerBootstrapTimeout": 20}),
        json!({"githubRunnerGroup": null, "runnerPrefix": "garm"}),
    ] {
        world.change("pool", "odd", json!({"spec": same})).await?;
    }
    resyncs(&world, 2).await?;
    ensure!(
        pool_puts(&world, mark)?.is_empty(),
        "{:?}",
        told(&world.garm_writes(mark))
    );
    let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(
        pool["generation"] == before["generation"],
        "{before} became {pool}"
    );
    let tags = pool["tags"].as_array().into_iter().flatten();
    let tags = tags.filter_map(|tag| Some(tag["name"].as_str()?.to_lowercase()));
    ensure!(
        tags.collect::<BTreeSet<_>>().len() == 3,
        "no tag is added: {pool}"
    );

    let change = json!({"spec": {"extraSpecs": "{\"b\": 2, \"a\": 2}"}});
    world.change("pool", "odd", change).await?;
    resyncs(&world, 2).await?;
    ensure!(
        pool_puts(&world, mark)? == [json!({"extra_specs": {"a": 2, "b": 2}})],
        "{:?}",
        told(&world.garm_writes(mark))
    );
    let pool = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(
        version.is_0_1() || pool["generation"] != before["generation"],
        "{pool}"
    );
    world.finish(operator).await
}

/// Changes of a Pool's spec one after the other, and the request that each has to cause, or null.
fn field_changes() -> Vec<(Value, Value)> {
    vec![
        (json!({"enabled": false}), json!({"enabled": false})),
        (json!({"maxRunners": 9}), json!({"max_runners": 9})),
        (json!({"minIdleRunners": 2}), json!({"min_idle_runners": 2})),
        (json!({"minIdleRunners": 0}), json!({"min_idle_runners": 0})),
        (json!({"flavor": "big"}), json!({"flavor": "big"})),
        (json!({"osArch": "arm64"}), json!({"os_arch": "arm64"})),
        (json!({"osType": "windows"}), json!({"os_type": "windows"})),
        (json!({"imageName": "other"}), json!({"image": "other:1"})),
        (json!({"tags": ["a", "b"]}), json!({"tags": ["a", "b"]})),
        (json!({"tags": ["B", "a"]}), Value::Null),
        (
            json!({"runnerBootstrapTimeout": 30}),
            json!({"runner_bootstrap_timeout": 30}),
        ),
        (
            json!({"runnerBootstrapTimeout": 0}),
            json!({"runner_bootstrap_timeout": 20}),
        ),
        (json!({"priority": 5}), json!({"priority": 5})),
        (json!({"priority": 0}), json!({"priority": 0})),
        (json!({"priority": 7}), json!({"priority": 7})),
        // Not managed any more.
        (json!({"priority": null}), Value::Null),
        (
            json!({"githubRunnerGroup": "special"}),
            json!({"github-runner-group": "special"}),
        ),
        (
            json!({"githubRunnerGroup": "default"}),
            json!({"github-runner-group": "default"}),
        ),
        (
            json!({"githubRunnerGroup": "special"}),
            json!({"github-runner-group": "special"}),
        ),
        (
            json!({"githubRunnerGroup": null}),
            json!({"github-runner-group": ""}),
        ),
        (
            json!({"runnerPrefix": "team"}),
            json!({"runner_prefix": "team"}),
        ),
        (
            json!({"runnerPrefix": ""}),
            json!({"runner_prefix": "garm"}),
        ),
        (
            json!({"extraSpecs": "{\"a\": 1}"}),
            json!({"extra_specs": {"a": 1}}),
        ),
        (json!({"extraSpecs": "{ \"a\" : 1 }"}), Value::Null),
        (json!({"extraSpecs": null}), json!({"extra_specs": {}})),
        (json!({"extraSpecs": "{}"}), Value::Null),
        (
            json!({"flavor": "small", "maxRunners": 3, "runnerPrefix": "x"}),
            json!({"flavor": "small", "max_runners": 3, "runner_prefix": "x"}),
        ),
    ]
}

async fn fields(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    without_pools(&world).await?;
    let fields = "flavor: small\n  minIdleRunners: 0\n  maxRunners: 3";
    world
        .apply(&[image("other", "other:1"), pool("small", fields)])
        .await?;
    world.wait_ready("pool", "small").await?;
    let mark = world.mark();
    let mut expected = Vec::new();
    for (spec, put) in field_changes() {
        world.change("pool", "small", json!({"spec": spec})).await?;
        expected.extend(Some(put).filter(|put| !put.is_null()));
        let puts = pool_puts(&world, mark)?;
        ensure!(
            puts == expected,
            "{spec}: expected {expected:?}, sent {puts:?}"
        );
    }
    world.wait_calm(Duration::from_secs(2)).await?;
    let puts = pool_puts(&world, mark)?;
    ensure!(
        puts == expected,
        "sent later: {:?}",
        &puts[expected.len()..]
    );
    let id = world.id("pool", "small").await?;
    let left = world.garm.api().get(&format!("/pools/{id}")).await?;
    ensure!(
        left["priority"] == 7 && left["extra_specs"] == json!({}) && left["os_type"] == "windows",
        "{left}"
    );
    world.finish(operator).await
}

/// Changes by hand, and the request that puts them back, or null for what an object without the field does not manage.
fn hand_changes() -> Vec<(Value, Value)> {
    vec![
        (json!({"priority": 9}), Value::Null),
        (
            json!({"runner_prefix": "hand"}),
            json!({"runner_prefix": "garm"}),
        ),
        (
            json!({"github-runner-group": "hand"}),
            json!({"github-runner-group": ""}),
        ),
        (
            json!({"extra_specs": {"hand": 1}}),
            json!({"extra_specs": {}}),
        ),
        (
            json!({"max_runners": 7, "image": "hand", "tags": ["hand"]}),
            json!({"max_runners": 3, "image": "runner:1", "tags": ["small", "linux"]}),
        ),
    ]
}

async fn drift(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    // What no event tells shows at a resync, which comes each 3 s.
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    without_pools(&world).await?;
    let fields = "flavor: small\n  minIdleRunners: 0\n  maxRunners: 3";
    world.apply(&[pool("small", fields)]).await?;
    world.wait_ready("pool", "small").await?;
    let path = format!("/pools/{}", world.id("pool", "small").await?);
    let mark = world.mark();
    let mut expected = Vec::new();
    for (by_hand, put) in hand_changes() {
        world.garm.api().put(&path, &by_hand).await?;
        if put.is_null() {
            resyncs(&world, 2).await?;
        } else {
            expected.push(put);
        }
        let put_back = async || {
            Ok(Seen::when(pool_puts(&world, mark)?, |puts| {
                *puts == expected
            }))
        };
        poll_until(SOON, &format!("{by_hand} is put back"), put_back).await?;
    }
    resyncs(&world, 2).await?;
    let puts = pool_puts(&world, mark)?;
    ensure!(puts == expected, "{puts:?}");
    ensure!(
        world.garm.api().get(&path).await?["priority"] == 9,
        "an admin's priority is gone"
    );
    world.finish(operator).await
}

async fn namespaces(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let other = Place::new(world.plane).await?;
    let command = world.command_watching(&[&world.namespace, &other.namespace]);
    let operator = world.start(&command).await?;
    let mut documents = world.manifests();
    documents.push(pool(
        "third",
        "flavor: third\n  minIdleRunners: 0\n  maxRunners: 1",
    ));
    world.apply(&documents).await?;
    other.apply(&apart(&world.manifests())).await?;
    for (place, pools) in [(&*world, ["small", "third"]), (&other, ["small", "large"])] {
        for name in pools {
            place.wait_ready("pool", name).await?;
        }
    }
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    world.wait_calm(Duration::from_secs(3)).await?;
    let runners = world.list("runners").await?.len() + other.list("runners").await?.len();
    ensure!(
        runners == 4,
        "each Runner is in its Pool's namespace: {runners}"
    );

    let mark = world.mark();
    world
        .patch("image", "runner", json!({"spec": {"tag": "runner:2"}}))
        .await?;
    let put = json!({"image": "runner:2"});
    let three = async || Ok(Seen::when(pool_puts(&world, mark)?, |puts| puts.len() == 3));
    poll_until(SOON, "three pools are changed", three).await?;
    world.wait_calm(Duration::from_secs(2)).await?;
    let puts = pool_puts(&world, mark)?;
    ensure!(puts == [put.clone(), put.clone(), put], "{puts:?}");
    let old = world.garm.api().list("/pools").await?;
    let old = old
        .iter()
        .filter(|pool| pool["image"] == "runner:1")
        .count();
    ensure!(
        old == 2,
        "the pools of the other namespace keep their image"
    );
    world.finish(operator).await
}

async fn immutable(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let command = world.command().argument("--timings-scale=0.01");
    let operator = world.start(&command).await?;
    world.apply(&world.manifests()).await?;
    world.apply(&apart(&world.manifests())[2..4]).await?;
    world.wait_all_ready().await?;
    world.wait_ready("githubcredential", "pat-b").await?;
    let app = json!({"authType": "app", "appId": 1, "installationId": 2, "secretRef": {"name": "app-key", "key": "key"}});
    world.apply(&[app_key("app-key")]).await?;
    let mark = world.mark();
    for (kind, name, change, field) in [
        (
            "githubcredential",
            "pat",
            json!({"endpointRef": {"name": "ghes-b"}}),
            "spec.endpointRef",
        ),
        ("githubcredential", "pat", app, "spec.authType"),
        (
            "repository",
            "tools",
            json!({"credentialsRef": {"name": "pat-b"}}),
            "spec.credentialsRef",
        ),
        (
            "pool",
            "small",
            json!({"providerName": "another"}),
            "spec.providerName",
        ),
    ] {
        let before = world.object(kind, name).await?;
        world.patch(kind, name, json!({"spec": change})).await?;
        let refused = world
            .wait_condition(kind, name, "Ready", "False", "InvalidSpec")
            .await?;
        let told = message(&refused, "Ready");
        ensure!(told.contains(field) && told.contains("anew"), "{told}");
        resyncs(&world, 1).await?;
        let mut back = before["spec"].clone();
        if kind == "githubcredential" {
            // Null removes what the change has added.
            back["appId"] = Value::Null;
            back["installationId"] = Value::Null;
        }
        world.change(kind, name, json!({"spec": back})).await?;
    }
    resyncs(&world, 1).await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");
    world.finish(operator).await
}
