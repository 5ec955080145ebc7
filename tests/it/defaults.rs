//! What a Pool gets where its manifest says nothing: once, for good, and in nobody's way.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use serde_json::{Value, json};

use crate::hooks;
use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "a_manifest_without_the_defaulted_fields_is_complete_and_applied_again_without_a_change",
        bare,
    );
    suite.test(
        "a_field_that_the_user_takes_away_goes_back_to_its_default",
        taken_away,
    );
    suite.test(
        "the_platform_team_gives_the_defaults_and_users_overrule_them",
        by_platform,
    );
}

/// A Pool that says only what nothing else can say, and these fields.
fn bare_pool(name: &str, fields: &str) -> String {
    format!(
        "apiVersion: garm-operator.mercedes-benz.com/v1beta1\nkind: Pool\nmetadata: {{name: {name}}}\nspec:\n  githubScopeRef: {{kind: Repository, name: tools}}\n  providerName: fake\n  imageName: runner\n  flavor: {name}\n  tags: [{name}]\n  maxRunners: 2\n  {fields}\n"
    )
}

/// The whole spec of a stored [`bare_pool`] but for the fields that have defaults.
fn without_defaults(name: &str) -> Value {
    json!({
        "githubScopeRef": {"kind": "Repository", "name": "tools"},
        "providerName": "fake", "imageName": "runner", "flavor": name, "tags": [name], "maxRunners": 2,
    })
}

/// A spec and more fields.
fn with(mut spec: Value, fields: &Value) -> Value {
    if let (Some(spec), Some(fields)) = (spec.as_object_mut(), fields.as_object()) {
        spec.extend(fields.clone());
    }
    spec
}

fn built_in() -> Value {
    json!({"osType": "linux", "osArch": "amd64", "enabled": true, "minIdleRunners": 0, "runnerBootstrapTimeout": 20})
}

async fn bare(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let version = async |name: &str| {
        let pool = world.object("pool", name).await?;
        anyhow::Ok(pool["metadata"]["resourceVersion"].clone())
    };

    let manifest = bare_pool("plain", "");
    let tried = ["apply", "--dry-run=server", "-o", "json", "-f", "-"];
    let shown: Value = serde_json::from_str(&world.kubectl(&tried, &manifest).await?)?;
    let expected = with(without_defaults("plain"), &built_in());
    ensure!(shown["spec"] == expected, "{}", shown["spec"]);
    ensure!(world.get("pool", "plain").await?.is_none());

    world.kubectl(&["apply", "-f", "-"], &manifest).await?;
    let stored = world.object("pool", "plain").await?;
    ensure!(stored["spec"] == expected, "{}", stored["spec"]);
    let again = world.kubectl(&["apply", "-f", "-"], &manifest).await?;
    ensure!(again.contains("unchanged"), "{again}");
    ensure!(world.object("pool", "plain").await?["spec"] == expected);
    // Fails when there is a difference.
    let difference = world.kubectl(&["diff", "-f", "-"], &manifest).await?;
    ensure!(difference.is_empty(), "{difference}");

    let manifest = bare_pool("server", "");
    for manager in ["one", "one", "two", "one"] {
        let manager = format!("--field-manager={manager}");
        let apply = ["apply", "--server-side", &manager, "-f", "-"];
        world.kubectl(&apply, &manifest).await?;
        let spec = world.object("pool", "server").await?["spec"].clone();
        ensure!(
            spec == with(without_defaults("server"), &built_in()),
            "{spec}"
        );
    }
    world.wait_calm(std::time::Duration::from_secs(2)).await?;
    let before = version("server").await?;
    let apply = ["apply", "--server-side", "--field-manager=one", "-f", "-"];
    world.kubectl(&apply, &manifest).await?;
    ensure!(version("server").await? == before, "it is as it was");
    world
        .kubectl(&["scale", "pool", "server", "--replicas=1"], "")
        .await?;
    ensure!(world.object("pool", "server").await?["spec"]["minIdleRunners"] == 1);
    world.finish(operator).await
}

async fn taken_away(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let given =
        "osArch: arm64\n  enabled: false\n  runnerBootstrapTimeout: 30\n  minIdleRunners: 1";
    for (name, apply) in [
        ("client", &["apply", "-f", "-"][..]),
        ("server", &["apply", "--server-side", "-f", "-"]),
    ] {
        world.kubectl(apply, &bare_pool(name, given)).await?;
        let spec = world.object("pool", name).await?["spec"].clone();
        let overruled = json!({
            "osType": "linux", "osArch": "arm64", "enabled": false, "minIdleRunners": 1, "runnerBootstrapTimeout": 30,
        });
        ensure!(spec == with(without_defaults(name), &overruled), "{spec}");
        world.kubectl(apply, &bare_pool(name, "")).await?;
        let spec = world.object("pool", name).await?["spec"].clone();
        ensure!(spec == with(without_defaults(name), &built_in()), "{spec}");
    }
    let nothing = bare_pool("nothing", "osType: null");
    let create = ["create", "--validate=false", "-f", "-"];
    world.kubectl(&create, &nothing).await?;
    ensure!(world.object("pool", "nothing").await?["spec"]["osType"] == "linux");
    world.finish(operator).await
}

async fn by_platform(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let file = ground.directory().join("pool-defaults.yaml");
    let settings = json!({"operator": {"poolDefaults": {
        "osType": "windows", "enabled": false, "runnerBootstrapTimeout": 45, "minIdleRunners": 1, "runnerPrefix": "acme", "githubRunnerGroup": "shared",
    }}});
    std::fs::write(&file, settings.to_string())?;
    let command = world
        .command()
        .argument("--config")
        .argument(&file)
        .argument("--operator-pool-defaults-os-arch=arm64");
    let operator = hooks::start(ground, &world, &command, &[]).await?;
    // The schema, which is the Go operator's, gives minIdleRunners its 0 before any webhook is asked.
    world.apply(&[bare_pool("given", "")]).await?;
    let defaults = json!({
        "osType": "windows", "osArch": "arm64", "enabled": false, "minIdleRunners": 0, "runnerBootstrapTimeout": 45,
        "runnerPrefix": "acme", "githubRunnerGroup": "shared",
    });
    let spec = world.object("pool", "given").await?["spec"].clone();
    ensure!(spec == with(without_defaults("given"), &defaults), "{spec}");
    let own = "osType: linux\n  enabled: true\n  runnerPrefix: mine";
    world.apply(&[bare_pool("own", own)]).await?;
    let spec = world.object("pool", "own").await?["spec"].clone();
    let overruled = json!({"osType": "linux", "enabled": true, "runnerPrefix": "mine"});
    let expected = with(with(without_defaults("own"), &defaults), &overruled);
    ensure!(spec == expected, "{spec}");
    world.finish(operator).await
}
