//! Whom it reaches: namespaces that are not watched, clients of the old version, and the configurations as they are shipped.

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{GarmOptions, Ground};

use super::{ensure_refused, kubectl, told};
use crate::conversion::converting;
use crate::documents::join;
use crate::hooks;
use crate::place::Place;
use crate::world::{World, image, pool};

const APPLY: &[&str] = &["apply", "-f", "-"];

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "of_a_namespace_that_is_not_watched_only_fields_are_judged",
        elsewhere,
    );
    suite.test("a_write_in_the_old_version_is_judged_too", old_version);
    suite.test("the_shipped_configurations_are_accepted", shipped);
}

async fn elsewhere(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[0]).await?;
    let other = Place::new(world.plane).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[&other.namespace]).await?;
    let fields = |max: i32| format!("flavor: a\n  minIdleRunners: 0\n  maxRunners: {max}");
    // Neither a word about what is absent, nor a duplicate, nor an Image that is kept.
    for document in [
        image("runner", "runner:1"),
        pool("one", &fields(1)),
        pool("one", &fields(1)).replace("name: one}", "name: two}"),
    ] {
        let output = kubectl(&other, APPLY, &join(&[document])).await?;
        ensure!(
            output.status.success() && told(&output).is_empty(),
            "{}",
            told(&output)
        );
    }
    other.kubectl(&["delete", "image", "runner"], "").await?;
    ensure_refused(
        &other,
        APPLY,
        &[pool("three", &fields(0))],
        "The Pool \"three\" is invalid: spec.maxRunners: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    )
    .await?;
    world.finish(operator).await
}

async fn old_version(ground: &Ground) -> Result<()> {
    let plane = &converting(ground).await?.plane;
    let version = GarmVersion::ALL[1];
    let world = World::on(ground, plane, version, GarmOptions::default()).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let old = |fields: &str| {
        let fields = format!("flavor: a\n  minIdleRunners: 0\n  {fields}");
        format!(
            "apiVersion: garm-operator.mercedes-benz.com/v1alpha1\n{}",
            pool("old", &fields)
        )
    };
    let refused = kubectl(&world, APPLY, &join(&[old("maxRunners: 0")])).await?;
    let told = told(&refused);
    ensure!(
        !refused.status.success()
            && told.contains(
                "The Pool \"old\" is invalid: spec.maxRunners: Invalid value: 0: must be between 1"
            ),
        "{told}"
    );
    world.apply(&[old("maxRunners: 1")]).await?;
    let change = [
        "patch",
        "pools.v1alpha1.garm-operator.mercedes-benz.com",
        "old",
        "--type=merge",
        "-p",
        r#"{"spec":{"providerName":"other"}}"#,
    ];
    let refused = kubectl(&world, &change, "").await?;
    let told = super::told(&refused);
    ensure!(
        !refused.status.success() && told.contains("cannot be changed from \"fake\""),
        "{told}"
    );
    world.finish(operator).await
}

async fn shipped(ground: &Ground) -> Result<()> {
    let place = Place::new(ground.control_plane().await?).await?;
    // The namespace of the Service is that of the installation; all the rest is as shipped.
    for file in garm_operator::generate::webhooks::files()? {
        let text = file.text.replace("garm-operator-system", &place.namespace);
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let said = place.plane.kubectl_ok(&apply, &text).await?;
        ensure!(said.lines().count() == 3, "{said}");
    }
    Ok(())
}
