//! GARM comes back: with what it had, with nothing, or with other tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Rule};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Setup};
use http::StatusCode;

use crate::world::{SOON, World, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("a_wiped_garm_is_filled_again_once", wiped);
    suite.test_on_each_garm("a_restarted_garm_is_no_event", restarted);
    suite.test_on_each_garm("dropped_tokens_cost_one_login", tokens);
    suite.test_on_each_garm("an_error_is_not_absence", errors);
}

/// What has an id of its own in GARM.
const OBJECTS: [(&str, &str); 3] = [
    ("repository", "tools"),
    ("pool", "small"),
    ("pool", "large"),
];

async fn wiped(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mut before = Vec::new();
    for (kind, name) in OBJECTS {
        before.push(world.id(kind, name).await?);
    }
    let mark = world.mark();
    world.garm.wipe(Setup::Complete).await?;
    for ((kind, name), before) in OBJECTS.into_iter().zip(&before) {
        poll_until(
            SOON * 2,
            &format!("{kind} {name} is made again"),
            async || {
                let id = world.id(kind, name).await?;
                Ok(Seen::when(id, |id| id != before))
            },
        )
        .await?;
    }
    world.wait_all_ready().await?;
    world.wait_idle_runners(2).await?;
    for (route, times) in [
        ("POST /github/endpoints", 1),
        ("POST /github/credentials", 1),
        ("POST /repositories", 1),
        ("POST /repositories/{id}/pools", 2),
        ("PUT /pools/{id}", 2),
    ] {
        let count = world.garm_count(mark, route);
        ensure!(
            count == times,
            "{count} times {route}: {:#?}",
            told(&world.garm_writes(mark))
        );
    }
    let deletes = told(&world.garm_writes(mark));
    ensure!(
        !deletes.iter().any(|write| write.starts_with("DELETE")),
        "{deletes:?}"
    );
    let pools = world.garm.api().list("/pools").await?;
    let in_garm: BTreeSet<&str> = pools
        .iter()
        .filter_map(|pool| pool["id"].as_str())
        .collect();
    let (small, large) = (
        world.id("pool", "small").await?,
        world.id("pool", "large").await?,
    );
    ensure!(in_garm == BTreeSet::from([small.as_str(), large.as_str()]));
    world.finish(operator).await
}

async fn restarted(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let mark = world.mark();
    world.garm.restart().await?;
    poll_until(SOON, "all was listed on a new socket", async || {
        let lists = world.garm_count(mark, "GET /instances");
        Ok(Seen::when(
            (lists, world.garm.proxy().sockets()),
            |(lists, sockets)| *lists > 0 && *sockets == 1,
        ))
    })
    .await?;
    world.wait_calm(Duration::from_secs(4)).await?;
    world.wait_all_ready().await?;
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");
    let runners = world.list("runner").await?;
    ensure!(
        runners
            .iter()
            .all(|runner| runner["metadata"]["deletionTimestamp"].is_null()),
        "{runners:?}"
    );
    // GARM's pool managers start anew, which the repository shows; nothing else is worth a word.
    let mut kube = told(&world.kube_writes(mark));
    kube.retain(|write| !write.starts_with("PATCH /repositories/{name}/status"));
    ensure!(kube.is_empty(), "{kube:#?}");
    world.finish(operator).await
}

async fn errors(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    world.finish(operator).await?;
    let mut before = Vec::new();
    for (kind, name) in OBJECTS {
        before.push(world.id(kind, name).await?);
    }
    let mark = world.mark();
    let proxy = world.garm.proxy();
    let server_error = |details: &str| {
        Fault::garm_error(StatusCode::INTERNAL_SERVER_ERROR, "Server error", details)
    };
    // What fails without details is a locked database, and tried again at once; the rest is not.
    let rules = [
        ("GET /pools", server_error("disk full")),
        ("GET /pools/{id}", server_error("")),
        ("GET /repositories", Fault::Close),
        ("GET /github/credentials", Fault::html(StatusCode::OK)),
        ("GET /github/endpoints", server_error("")),
        ("GET /instances", server_error("disk full")),
    ]
    .map(|(route, fault)| proxy.rule(Matcher::route(route).times(2), fault));
    let operator = world.operator().await?;
    poll_until(SOON, "every fault was met that can be", async || {
        let hits: Vec<usize> = rules.iter().map(Rule::hits).collect();
        // Pools are read by id only where their lists do not tell enough.
        let met = hits.iter().filter(|hits| **hits == 2).count();
        Ok(Seen::when((met, hits), |(met, _)| *met >= 5))
    })
    .await?;
    world.wait_all_ready().await?;
    world.wait_calm(Duration::from_secs(4)).await?;
    world.wait_all_ready().await?;
    for ((kind, name), before) in OBJECTS.into_iter().zip(&before) {
        ensure!(world.id(kind, name).await? == *before, "{kind} {name}");
    }
    let writes = told(&world.garm_writes(mark));
    ensure!(writes.is_empty(), "{writes:?}");
    ensure!(world.wait_idle_runners(2).await.is_ok());
    world.finish(operator).await
}

async fn tokens(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let many: Vec<String> = (0..20)
        .map(|number| {
            let fields = format!("flavor: f{number}\n  minIdleRunners: 0\n  maxRunners: 1");
            pool(&format!("pool-{number}"), &fields)
        })
        .collect();
    let mark = world.mark();
    world.garm.drop_tokens().await?;
    world.apply(&many).await?;
    for number in 0..many.len() {
        world.wait_ready("pool", &format!("pool-{number}")).await?;
    }
    let logins = world.garm_count(mark, "POST /auth/login");
    ensure!(logins == 1, "{logins} logins");
    ensure!(world.garm_count(mark, "POST /first-run") == 0);
    ensure!(world.garm.api().list("/pools").await?.len() == many.len() + 2);
    world.finish(operator).await
}
