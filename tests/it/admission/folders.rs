//! A folder with a Pool and its Image is deleted with one kubectl, in either order.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::servers::GarmVersion;

use super::{kubectl, told};
use crate::documents::{image, join, pool};
use crate::hooks;
use crate::world::World;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "a_folder_of_a_pool_and_its_image_is_deleted_in_either_order",
        folders,
    );
}

/// How often the Pool goes first: its Image must not depend on how fast the deletion of the Pool comes round.
const TIMES: usize = 8;

const DENIED: &str = "denied the request: Image";

/// Writes the Pool and its Image in a folder, in the order of these names of files.
fn folder(ground: &Ground, world: &World<'_>, of_pool: &str, of_image: &str) -> Result<PathBuf> {
    let folder = ground
        .directory()
        .join(format!("{}-{of_pool}-{of_image}", world.namespace));
    std::fs::create_dir_all(&folder)?;
    let pool = pool(
        "small",
        "flavor: small\n  minIdleRunners: 1\n  maxRunners: 3",
    );
    std::fs::write(folder.join(format!("{of_pool}.yaml")), join(&[pool]))?;
    let image = image("runner", "runner:1");
    std::fs::write(folder.join(format!("{of_image}.yaml")), join(&[image]))?;
    Ok(folder)
}

async fn folders(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::ALL[1]).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let mut documents = world.manifests();
    documents.retain(|document| {
        !["kind: Pool", "kind: Image"]
            .iter()
            .any(|kind| document.starts_with(kind))
    });
    world.apply(&documents).await?;
    let pool_first = folder(ground, &world, "a", "b")?;
    let image_first = folder(ground, &world, "b", "a")?;
    let come_up = async |folder: &PathBuf| {
        world
            .kubectl(&["apply", "-f", &folder.to_string_lossy()], "")
            .await?;
        world.wait_ready("pool", "small").await
    };
    for _ in 0..TIMES {
        come_up(&pool_first).await?;
        let delete = ["delete", "-f", &pool_first.to_string_lossy()];
        let output = kubectl(&world, &delete, "").await?;
        ensure!(output.status.success(), "{}", told(&output));
        world.wait_gone("pool", "small").await?;
        world.wait_gone("image", "runner").await?;
    }

    come_up(&image_first).await?;
    let delete = ["delete", "-f", &image_first.to_string_lossy()];
    let output = kubectl(&world, &delete, "").await?;
    let words = told(&output);
    ensure!(
        !output.status.success()
            && words.contains(DENIED)
            && words.contains("is used by Pool small"),
        "{words}"
    );
    world.wait_gone("pool", "small").await?;
    ensure!(world.get("image", "runner").await?.is_some(), "it went");
    // The Pool is gone by now, of which kubectl complains unless told otherwise; that is its way.
    let output = kubectl(&world, &delete, "").await?;
    ensure!(!told(&output).contains(DENIED), "{}", told(&output));
    world.wait_gone("image", "runner").await?;
    world.finish(operator).await
}
