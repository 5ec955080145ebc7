//! Installed as people do it: the shipped overlays on a real API server, and the operator with the rights, settings and webhooks they give it.

mod audit;
mod dry;
pub mod overlay;
mod scenario;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, GarmOptions, Ground};

use self::overlay::{ACCOUNT, NAMESPACE, Overlay};
use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "installed_for_all_namespaces_the_operator_uses_each_of_its_rights_and_needs_no_other",
        async |ground: &Ground| lives_by_its_rights(ground, "self-managed").await,
    );
    suite.test(
        "installed_for_one_namespace_the_operator_uses_each_of_its_rights_and_needs_no_other",
        async |ground: &Ground| lives_by_its_rights(ground, "namespaced").await,
    );
    dry::register(suite);
}

/// Installs an overlay, lets the operator live a whole life by it, and reads in the audit log what it asked for.
async fn lives_by_its_rights(ground: &Ground, name: &str) -> Result<()> {
    // The names of what is installed are one for all namespaces.
    let plane = ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
    let result = life(ground, &plane, name).await;
    plane.stop().await?;
    result
}

async fn life(ground: &Ground, plane: &ControlPlane, name: &str) -> Result<()> {
    let overlay = Overlay::render(ground, name)?;
    let port = crate::hooks::free_port()?;
    overlay.install(plane, port).await?;
    let world = World::on(ground, plane, GarmVersion::V0_2_1, GarmOptions::default()).await?;
    let world = world.acting_as(NAMESPACE, ACCOUNT).await?;
    let world = match overlay.watched() {
        Some(namespace) => world.moved_to(namespace),
        None => world,
    };
    scenario::run(&world, &overlay.command(world.any_command(), port)).await?;

    let asked = audit::asked(&plane.audited(NAMESPACE, ACCOUNT)?);
    let refused = audit::refused(&asked);
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    let mut granted = overlay.granted()?;
    let idle = audit::idle(&granted, &asked);
    ensure!(idle.is_empty(), "granted and never used: {idle:#?}");
    // One right more would be noticed.
    granted.push(overlay::one_more());
    let idle = audit::idle(&granted, &asked);
    ensure!(idle == ["more (everywhere): patch images any"], "{idle:?}");
    Ok(())
}
