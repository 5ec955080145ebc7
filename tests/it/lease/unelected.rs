//! Two operators work at once by mistake, neither of which knows of the Lease.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Proxy;
use garm_operator_ground::servers::GarmVersion;
use serde_json::Value;

use super::Replica;
use crate::world::{SOON, World, pool, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "two_operators_without_a_lease_make_and_remove_each_object_once",
        both_at_once,
    );
}

const POOLS: usize = 20;

/// Everything at once: an endpoint, two credentials, a repository, an organization and their Pools.
fn documents(world: &World<'_>) -> Vec<String> {
    let mut all = world.manifests();
    all.retain(|document| !document.starts_with("kind: Pool"));
    let mut more = Vec::new();
    for document in &all {
        if document.starts_with("kind: GitHubCredential") {
            more.push(document.replace("name: pat}", "name: second}"));
        }
    }
    more.push(crate::documents::entity(
        "Organization",
        "umbrella",
        "second",
    ));
    for number in 0..POOLS {
        let name = format!("p{number}");
        let fields = format!("flavor: {name}\n  minIdleRunners: 0\n  maxRunners: 1");
        let mut document = pool(&name, &fields);
        if number % 2 == 1 {
            document = document.replace(
                "kind: Repository, name: tools",
                "kind: Organization, name: umbrella",
            );
        }
        more.push(document);
    }
    all.extend(more);
    all
}

/// What an operator of our own has made in GARM, which knows an endpoint of its own.
async fn made(world: &World<'_>, path: &str) -> Result<Vec<Value>> {
    let mut all = world.garm.api().list(path).await?;
    all.retain(|one| one["name"] != "github.com");
    Ok(all)
}

const PATHS: [(&str, usize); 5] = [
    ("/github/endpoints", 1),
    ("/github/credentials", 2),
    ("/repositories", 1),
    ("/organizations", 1),
    ("/pools", POOLS),
];

async fn both_at_once(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let mut both = Vec::new();
    for _ in 0..2 {
        both.push(Replica::start_alone(&world).await?);
    }
    let documents = documents(&world);
    world.apply(&documents).await?;
    for (kind, name) in [
        ("githubendpoint", "ghes"),
        ("githubcredential", "pat"),
        ("githubcredential", "second"),
        ("repository", "tools"),
        ("organization", "umbrella"),
    ] {
        world.wait_ready(kind, name).await?;
    }
    for number in 0..POOLS {
        world.wait_ready("pool", &format!("p{number}")).await?;
    }
    poll_until(SOON, "one object in GARM for each", async || {
        let mut counts = Vec::new();
        for (path, _) in PATHS {
            counts.push(made(&world, path).await?.len());
        }
        Ok(Seen::when(counts, |counts| {
            counts
                .iter()
                .zip(PATHS)
                .all(|(count, (_, wanted))| *count == wanted)
        })
        .map(drop))
    })
    .await?;
    ensure_known(&world).await?;
    ensure!(
        both.iter().all(|one| !one.garm.writes_since(0).is_empty()),
        "one of them had nothing to do"
    );
    // They agree: neither undoes what the other one does.
    rest(&both).await?;
    ensure_known(&world).await?;

    let input = crate::documents::join(&documents);
    world
        .kubectl(&["delete", "--wait=false", "-f", "-"], &input)
        .await?;
    for kind in [
        "pool",
        "repository",
        "organization",
        "githubcredential",
        "githubendpoint",
    ] {
        poll_until(SOON * 2, &format!("no {kind} is left"), async || {
            Ok(Seen::when(world.list(kind).await?.len(), |count| *count == 0).map(drop))
        })
        .await?;
    }
    for (path, _) in PATHS {
        let left = made(&world, path).await?;
        ensure!(left.is_empty(), "{path}: {left:#?}");
    }
    for replica in both {
        world.finish(replica.operator).await?;
    }
    Ok(())
}

/// Fails unless each Pool shows another pool of GARM, which is finished.
async fn ensure_known(world: &World<'_>) -> Result<()> {
    let pools = made(world, "/pools").await?;
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ids: BTreeSet<String> = pools.iter().map(|pool| id(&pool["id"])).collect();
    let objects = world.list("pool").await?;
    let shown: BTreeSet<String> = objects
        .iter()
        .map(|pool| id(&pool["status"]["id"]))
        .collect();
    ensure!(ids == shown && ids.len() == POOLS, "{ids:?} and {shown:?}");
    let is_finished = |pool: &Value| pool["runner_prefix"] == "garm" && pool["enabled"] == true;
    ensure!(pools.iter().all(is_finished), "{pools:#?}");
    Ok(())
}

/// Waits until neither has written anything anywhere for a while.
async fn rest(both: &[Replica]) -> Result<()> {
    let writes = || {
        let mut all = Vec::new();
        for Replica { garm, kube, .. } in both {
            let of = |proxy: &Proxy| proxy.writes_since(0);
            all.extend(of(garm));
            all.extend(of(kube));
        }
        all
    };
    poll_until(SOON * 2, "both rest", async || {
        let last = writes().into_iter().max_by_key(|one| one.at);
        Ok(match last {
            Some(last) if last.at.elapsed() < Duration::from_secs(6) => {
                Seen::NotYet(told(&[last]).concat())
            }
            _ => Seen::Yes(()),
        })
    })
    .await
}
