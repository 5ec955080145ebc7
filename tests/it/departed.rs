//! An object goes while it is made in GARM, in spite of its finalizer: what was made goes as well, and nothing else.

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Release};
use garm_operator_ground::servers::GarmVersion;
use serde_json::json;

use crate::world::{SOON, World, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "what_is_made_for_an_object_that_goes_meanwhile_goes_as_well",
        each_kind,
    );
    suite.test_on_each_garm(
        "an_object_that_is_made_anew_meanwhile_has_one_object_in_garm",
        made_anew,
    );
}

/// Kind and name, the route that makes it, and the list that shows it.
const CREATES: [(&str, &str, &str, &str); 4] = [
    (
        "githubendpoint",
        "ghes",
        "POST /github/endpoints",
        "/github/endpoints",
    ),
    (
        "githubcredential",
        "pat",
        "POST /github/credentials",
        "/github/credentials",
    ),
    ("repository", "tools", "POST /repositories", "/repositories"),
    ("pool", "small", "POST /repositories/{id}/pools", "/pools"),
];

async fn wait_count(world: &World<'_>, list: &str, wanted: usize) -> Result<()> {
    poll_until(SOON, &format!("{wanted} of {list}"), async || {
        let found = world.garm.api().list(list).await?;
        Ok(Seen::when(found, |found| found.len() == wanted).map(drop))
    })
    .await
}

/// Makes an object and takes it away while GARM's answer to its creation is on the way. Answers what lets the answer through.
async fn take_away(
    world: &World<'_>,
    (kind, name, route, list): (&str, &str, &str, &str),
    document: &str,
) -> Result<Release> {
    let before = world.garm.api().list(list).await?.len();
    let answer = Release::new();
    let proxy = world.garm.proxy();
    let next = Matcher::route(route).times(1);
    let held = proxy.rule(next, Fault::HoldAnswer(answer.clone()));
    world.apply(&[document.to_owned()]).await?;
    wait_count(world, list, before + 1).await?;
    ensure!(held.hits() == 1, "{route}: {} times", held.hits());
    let bare = json!({"metadata": {"finalizers": null}});
    world.patch(kind, name, bare).await?;
    world.delete(kind, name).await?;
    world.wait_gone(kind, name).await?;
    Ok(answer)
}

/// The document of an object in the whole set.
fn document(world: &World<'_>, kind: &str, name: &str) -> Result<String> {
    let is_it = |document: &String| {
        let text = document.to_lowercase();
        text.contains(&format!("kind: {kind}\n")) && text.contains(&format!("name: {name}}}"))
    };
    let found = world.manifests().into_iter().find(is_it);
    found.with_context(|| format!("no {kind} {name}"))
}

/// Everything that objects refer to and that GARM does not hold.
async fn base(world: &World<'_>) -> Result<()> {
    let mut documents = world.manifests();
    documents
        .retain(|document| document.contains("kind: Secret") || document.contains("kind: Image"));
    world.apply(&documents).await.map(drop)
}

async fn each_kind(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    base(&world).await?;
    for create in CREATES {
        let (kind, name, _, list) = create;
        let document = document(&world, kind, name)?;
        let before = world.garm.api().list(list).await?.len();
        let answer = take_away(&world, create, &document).await?;
        answer.release();
        wait_count(&world, list, before).await?;
        // What stays is not touched, and the next one of that name is an object like any other.
        world.apply(&[document]).await?;
        world.wait_ready(kind, name).await?;
        wait_count(&world, list, before + 1).await?;
    }
    world.finish(operator).await
}

async fn made_anew(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.operator().await?;
    base(&world).await?;
    for create in CREATES {
        let (kind, name, _, list) = create;
        let document = document(&world, kind, name)?;
        let before = world.garm.api().list(list).await?.len();
        let answer = take_away(&world, create, &document).await?;
        world.apply(&[document]).await?;
        answer.release();
        world.wait_ready(kind, name).await?;
        wait_count(&world, list, before + 1).await?;
    }
    let id = world.id("pool", "small").await?;
    let pools = world.garm.api().list("/pools").await?;
    ensure!(
        pools.len() == 1 && pools[0]["id"] == id.as_str(),
        "{id}: {pools:?}"
    );
    ensure!(
        pools[0]["enabled"] == true && pools[0]["runner_prefix"] == "garm",
        "{pools:?}: {:#?}",
        told(&world.garm_writes(crate::world::Mark::START))
    );
    world.finish(operator).await
}
