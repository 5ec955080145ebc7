//! What admission makes of a Pool that equals another one: refused, warned of or let pass, told by kubectl.

use std::process::Output;
use std::slice::from_ref;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground};
use serde_json::json;

use crate::conversion::endpoint::converting;
use crate::hooks;
use crate::world::{World, condition, image, join, message, pool};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "the_same_pool_again_is_refused_by_name_and_any_other_is_not",
        compared,
    );
    suite.test(
        "equal_pools_of_other_namespaces_are_no_duplicates",
        elsewhere,
    );
    suite.test(
        "an_update_into_a_duplicate_is_refused_and_one_of_a_duplicate_is_not",
        updated,
    );
    suite.test(
        "an_old_client_is_told_of_duplicates_and_given_defaults_as_a_new_one_is",
        by_old_client,
    );
    suite.test(
        "duplicates_are_warned_of_or_allowed_where_the_operator_says_so",
        modes,
    );
}

/// Type of the condition of a duplicate.
pub const DUPLICATE: &str = "DuplicatePoolFound";

const REFUSED: &str = "Duplicate value: ";

/// A Pool that is the same as all others made so, whatever its name.
pub fn twin(name: &str) -> String {
    pool("twin", "flavor: tiny\n  minIdleRunners: 0\n  maxRunners: 2")
        .replace("name: twin}", &format!("name: {name}}}"))
}

/// What kubectl says to these documents, and whether it is content.
pub async fn tried(
    world: &World<'_>,
    arguments: &[&str],
    documents: &[String],
) -> Result<(bool, String)> {
    let mut all = vec!["-n", world.namespace.as_str()];
    all.extend(arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = world
        .plane
        .kubectl_with_input(&all, &join(documents))
        .await?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    Ok((status.success(), said))
}

/// Whether a Pool may be made, without making it.
async fn may_be_made(world: &World<'_>, document: &str) -> Result<bool> {
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    let (is_fine, said) = tried(world, &arguments, &[document.to_owned()]).await?;
    ensure!(is_fine != said.contains(REFUSED), "{said}");
    Ok(is_fine)
}

async fn compared(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let extra = "\n  extraSpecs: '{\"a\": 1, \"b\": [1, 2]}'";
    let base = twin("a").trim_end().to_owned() + extra;
    let images = [
        image("runner", "runner:1"),
        image("alias", "runner:1"),
        image("other", "other:1"),
    ];
    world.apply(&images).await?;
    world.apply(from_ref(&base)).await?;

    let again = base.replace("name: a}", "name: b}");
    let (is_fine, said) = tried(&world, &["create", "-f", "-"], from_ref(&again)).await?;
    let expected = "The Pool \"b\" is invalid: spec: Duplicate value: Pool \"a\" has the same scope, provider, image, flavor, osType, osArch, tags, extraSpecs, runner group and prefix; raise its maxRunners instead, or let the two differ in one of these\n";
    ensure!(!is_fine && said == expected, "{said}");
    ensure!(world.get("pool", "b").await?.is_none());

    for (was, is) in [
        ("maxRunners: 2", "maxRunners: 9"),
        ("minIdleRunners: 0", "minIdleRunners: 1"),
        ("enabled: true", "enabled: false"),
        ("runnerBootstrapTimeout: 20", "runnerBootstrapTimeout: 30"),
        ("enabled: true", "enabled: true\n  priority: 7"),
        ("name: b}", "name: b, labels: {team: x}}"),
        ("tags: [twin, linux]", "tags: [Linux, TWIN, linux]"),
        ("{\"a\": 1, \"b\": [1, 2]}", "{ \"b\":[1,2],\"a\":1 }"),
        (
            "enabled: true",
            "enabled: true\n  githubRunnerGroup: DEFAULT",
        ),
        ("enabled: true", "enabled: true\n  runnerPrefix: garm"),
        ("imageName: runner", "imageName: alias"),
        ("osType: linux\n  ", ""),
    ] {
        let same = again.replace(was, is);
        ensure!(same != again, "{was}");
        ensure!(!may_be_made(&world, &same).await?, "{was} → {is}");
    }
    for (was, is) in [
        ("kind: Repository", "kind: Organization"),
        ("name: tools", "name: others"),
        ("providerName: fake", "providerName: other"),
        ("imageName: runner", "imageName: other"),
        ("imageName: runner", "imageName: missing"),
        ("flavor: tiny", "flavor: Tiny"),
        ("osType: linux", "osType: windows"),
        ("osArch: amd64", "osArch: arm64"),
        ("tags: [twin, linux]", "tags: [twin]"),
        ("\"a\": 1", "\"a\": 1.0"),
        (extra, ""),
        (
            "enabled: true",
            "enabled: true\n  githubRunnerGroup: shared",
        ),
        ("enabled: true", "enabled: true\n  runnerPrefix: Garm"),
    ] {
        let other = again.replace(was, is);
        ensure!(other != again, "{was}");
        ensure!(may_be_made(&world, &other).await?, "{was} → {is}");
    }
    // Neither a refused one nor one that was only tried has left a trace.
    let (fresh, free) = (
        again.replace("name: b}", "name: c}"),
        ("flavor: tiny", "flavor: Tiny"),
    );
    world.apply(&[fresh.replace(free.0, free.1)]).await?;
    world
        .kubectl(&["replace", "--force", "-f", "-"], &join(&[base]))
        .await?;
    world.finish(operator).await
}

async fn elsewhere(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let second = world.plane.create_namespace("second").await?;
    let unwatched = world.plane.create_namespace("unwatched").await?;
    let command = world.command_watching(&[&world.namespace, &second]);
    let operator = hooks::start(ground, &world, &command, &[&second, &unwatched]).await?;
    world.apply(&[twin("a")]).await?;
    let make = async |namespace: &str, name: &str| {
        let arguments = ["-n", namespace, "create", "-f", "-"];
        world
            .plane
            .kubectl_ok(&arguments, &join(&[twin(name)]))
            .await
    };
    make(&second, "b").await?;
    ensure!(make(&second, "c").await.is_err());
    for name in ["d", "e"] {
        make(&unwatched, name).await?;
    }
    world.finish(operator).await
}

async fn updated(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    // Two that are the same from the time without a webhook.
    world.apply(&[twin("a"), twin("b")]).await?;
    let command = world.command();
    let operator = hooks::start(ground, &world, &command, &[]).await?;
    world
        .apply(&[twin("c").replace("flavor: tiny", "flavor: other")])
        .await?;
    let into = [
        "patch",
        "pool",
        "c",
        "--type=merge",
        "-p",
        r#"{"spec":{"flavor":"tiny"}}"#,
    ];
    let (is_fine, said) = tried(&world, &into, &[]).await?;
    ensure!(
        !is_fine && said.contains("Pool \"a\" has the same"),
        "{said}"
    );

    world
        .kubectl(&["scale", "pool", "b", "--replicas=1"], "")
        .await?;
    world.kubectl(&["label", "pool", "b", "team=x"], "").await?;
    world
        .patch(
            "pool",
            "b",
            json!({"spec": {"enabled": false, "maxRunners": 5}}),
        )
        .await?;
    world
        .patch("pool", "b", json!({"spec": {"tags": ["LINUX", "twin"]}}))
        .await?;
    world
        .patch("pool", "b", json!({"metadata": {"finalizers": null}}))
        .await?;
    let shown = world
        .wait("pool", "b", "shows that it is a duplicate", |pool| {
            condition(pool, DUPLICATE)["status"] == "True"
        })
        .await?;
    ensure!(message(&shown, DUPLICATE).starts_with("Pool \"a\" "));
    // One that goes is nobody's double, however long that takes.
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.patch("pool", "a", hold).await?;
    for name in ["a", "b"] {
        world.delete("pool", name).await?;
    }
    world.wait_gone("pool", "b").await?;
    world.kubectl(&into, "").await?;
    world.object("pool", "a").await?;
    world
        .patch("pool", "a", json!({"metadata": {"finalizers": null}}))
        .await?;

    // Two at once may slip through; then the younger says so.
    world
        .apply(&["d", "e"].map(|name| twin(name).replace("tiny", name)))
        .await?;
    let change = |name| world.patch("pool", name, json!({"spec": {"flavor": "both"}}));
    let (one, two) = tokio::join!(change("d"), change("e"));
    if one.is_ok() && two.is_ok() {
        world
            .wait_condition("pool", "e", DUPLICATE, "True", "")
            .await?;
    } else {
        ensure!(one.is_ok() || two.is_ok());
    }
    world.finish(operator).await
}

async fn modes(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    for (mode, names) in [("warn", ["a", "b"]), ("allow", ["c", "d"])] {
        let command = world
            .command()
            .argument(format!("--operator-duplicate-pools={mode}"));
        let operator = hooks::start(ground, &world, &command, &[]).await?;
        let twins = names.map(|name| twin(name).replace("tiny", mode));
        let (is_fine, said) = tried(&world, &["apply", "-f", "-"], &twins).await?;
        ensure!(is_fine, "{said}");
        let first = format!("Pool {:?} has the same scope", names[0]);
        ensure!(said.contains(&first) == (mode == "warn"), "{said}");
        world
            .wait_condition("pool", names[1], DUPLICATE, "True", "")
            .await?;
        world.finish(operator).await?;
    }
    Ok(())
}

async fn by_old_client(ground: &Ground) -> Result<()> {
    let plane = &converting(ground).await?.plane;
    let world = World::on(ground, plane, GarmVersion::V0_2_1, GarmOptions::default()).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let old = |name: &str| {
        let old = "apiVersion: garm-operator.mercedes-benz.com/v1alpha1\n".to_owned() + &twin(name);
        old.replace("osType: linux\n  osArch: amd64\n  ", "")
    };
    world.apply(&[old("a")]).await?;
    let spec = world.object("pool", "a").await?["spec"].clone();
    ensure!(
        spec["osType"] == "linux" && spec["osArch"] == "amd64",
        "{spec}"
    );
    for document in [old("b"), twin("b")] {
        ensure!(!may_be_made(&world, &document).await?, "{document}");
    }
    ensure!(may_be_made(&world, &old("b").replace("tiny", "other")).await?);
    world.finish(operator).await
}
