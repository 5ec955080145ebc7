//! Metrics of the connection to GARM.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use axum::body::Bytes;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use http::StatusCode;
use serde_json::{Value, json};

use super::is_call;
use super::scrape::Scrape;
use crate::world::{Mark, SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm(
        "requests_to_garm_are_counted_as_they_were_sent_and_answered",
        requests,
    );
    suite.test_on_each_garm(
        "events_and_resyncs_are_counted_while_the_socket_comes_and_goes",
        events,
    );
    suite.test(
        "objects_of_garm_that_cannot_be_read_are_counted",
        unreadable,
    );
    suite.test(
        "sizes_of_mirror_and_stores_follow_what_comes_and_goes",
        sizes,
    );
}

/// Method, route and status, and how often.
type Counts = BTreeMap<(String, String, String), u64>;

/// What the proxy has seen.
fn sent(world: &World<'_>) -> Counts {
    let mut counts = Counts::new();
    for request in world
        .garm_requests(Mark::START)
        .iter()
        .filter(|one| is_call(one))
    {
        let route = request.route.split_once(' ').map_or("", |(_, route)| route);
        let status = request
            .status
            .map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        let key = (request.method.to_string(), route.to_owned(), status);
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// What the metrics tell.
fn counted(scrape: &Scrape) -> Result<Counts> {
    let samples = scrape.all("garm_operator_garm_requests_total", &[]);
    samples
        .map(|sample| {
            let label = |name: &str| sample.labels.get(name).cloned().context("a label");
            let key = (label("method")?, label("route")?, label("status")?);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            Ok((key, sample.value as u64))
        })
        .collect()
}

async fn requests(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let refuse = Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "not now");
    let proxy = world.garm.proxy();
    proxy.rule(Matcher::route("PUT /pools/{id}").times(1), refuse);
    let closed = proxy.rule(
        Matcher::route("POST /github/credentials").times(1),
        Fault::Close,
    );
    let operator = world.settled_operator(&world.command()).await?;
    ensure!(closed.hits() == 1, "no connection was closed");
    world.delete("pool", "large").await?;
    world.wait_gone("pool", "large").await?;

    // Requests may be under way while one looks.
    let scrape = poll_until(SOON, "the same counts", async || {
        let before = sent(&world);
        let scrape = Scrape::of(&operator).await?;
        let told = counted(&scrape)?;
        Ok(if told == before {
            Seen::Yes(scrape)
        } else {
            let differ = |(key, count): (&_, &u64)| before.get(key) != Some(count);
            let wrong: Vec<_> = told.iter().filter(|one| differ(*one)).collect();
            Seen::NotYet(format!("{wrong:?} of {before:?}"))
        })
    })
    .await?;
    let told = counted(&scrape)?;
    for (method, route, status) in [
        ("POST", "/github/credentials", "<error>"),
        ("POST", "/github/credentials", "200"),
        ("PUT", "/pools/{id}", "400"),
        ("POST", "/repositories/{id}/pools", "200"),
        ("DELETE", "/pools/{id}", "200"),
        ("GET", "/instances", "200"),
    ] {
        let key = (method.to_owned(), route.to_owned(), status.to_owned());
        ensure!(told.contains_key(&key), "{key:?} is not in {told:?}");
        let labels = [("method", method), ("route", route)];
        let counts = told
            .iter()
            .filter(|((m, r, _), _)| m == method && r == route);
        let counts: u64 = counts.map(|(_, count)| count).sum();
        let name = "garm_operator_garm_request_duration_seconds_count";
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let expected = Some(counts as f64);
        ensure!(
            scrape.value(name, &labels) == expected,
            "{method} {route} took no time"
        );
    }
    world.finish(operator).await
}

async fn wait_value(
    operator: &Operator,
    name: &str,
    labels: &[(&str, &str)],
    fits: impl Fn(Option<f64>) -> bool,
) -> Result<f64> {
    let what = format!("{name} {labels:?}");
    let value = poll_until(SOON * 2, &what, async || {
        let value = Scrape::of(operator).await?.value(name, labels);
        Ok(Seen::when(value, |value| fits(*value)))
    });
    Ok(value.await?.unwrap_or_default())
}

async fn events(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let (up, age) = (
        "garm_operator_garm_events_connected",
        "garm_operator_garm_event_age_seconds",
    );
    let (events, resyncs) = (
        "garm_operator_garm_events_total",
        "garm_operator_garm_resyncs_total",
    );
    let success = [("result", "success")];
    wait_value(&operator, up, &[], |up| up == Some(1.0)).await?;
    let scrape = Scrape::of(&operator).await?;
    let heard = scrape.value(events, &[]).context("no events")?;
    ensure!(heard > 0.0, "GARM told of nothing");
    ensure!(scrape.value(age, &[]).is_some(), "no age");
    let listed = scrape.value(resyncs, &success).context("no resyncs")?;

    let proxy = world.garm.proxy();
    proxy.refuse(true);
    proxy.drop_sockets();
    wait_value(&operator, up, &[], |up| up == Some(0.0)).await?;
    wait_value(&operator, "garm_operator_garm_ready", &[], |ready| {
        ready == Some(0.0)
    })
    .await?;
    proxy.refuse(false);
    wait_value(&operator, up, &[], |up| up == Some(1.0)).await?;
    wait_value(&operator, resyncs, &success, |now| now > Some(listed)).await?;
    wait_value(&operator, "garm_operator_garm_ready", &[], |ready| {
        ready == Some(1.0)
    })
    .await?;
    let change = json!({"spec": {"maxRunners": 7}});
    world.change("pool", "small", change).await?;
    wait_value(&operator, events, &[], |now| now > Some(heard)).await?;
    world.finish(operator).await
}

async fn unreadable(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    // A resync each 6 s.
    let command = world.command().argument("--timings-scale=0.02");
    let operator = world.settled_operator(&command).await?;
    let id = world.id("pool", "small").await?;
    let spoil = move |body: Bytes| {
        let Ok(Value::Array(mut pools)) = serde_json::from_slice(&body) else {
            return body;
        };
        for pool in pools.iter_mut().filter(|pool| pool["id"] == id.as_str()) {
            pool["max_runners"] = json!("many");
        }
        serde_json::to_vec(&pools).map_or(body, Into::into)
    };
    let list = Matcher::route("GET /pools");
    let spoilt = world
        .garm
        .proxy()
        .rule(list, Fault::Rewrite(Arc::new(spoil)));
    let name = "garm_operator_mirror_unreadable_objects";
    let pools = [("kind", "pools")];
    wait_value(&operator, name, &pools, |count| count == Some(1.0)).await?;
    // What was read before is still known.
    let objects = Scrape::of(&operator).await?;
    let objects = objects.value("garm_operator_mirror_objects", &pools);
    ensure!(objects == Some(2.0), "{objects:?}");
    spoilt.remove();
    wait_value(&operator, name, &pools, |count| count == Some(0.0)).await?;
    world.finish(operator).await
}

async fn sizes(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let (mirror, cached) = (
        "garm_operator_mirror_objects",
        "garm_operator_cached_objects",
    );
    let scrape = Scrape::of(&operator).await?;
    for (kind, count) in [
        // With the built-in one.
        ("endpoints", 2.0),
        ("credentials", 1.0),
        ("repositories", 1.0),
        ("organizations", 0.0),
        ("enterprises", 0.0),
        ("pools", 2.0),
        ("instances", 2.0),
    ] {
        let found = scrape.value(mirror, &[("kind", kind)]);
        ensure!(found == Some(count), "{kind}: {found:?}");
        let unreadable = "garm_operator_mirror_unreadable_objects";
        ensure!(
            scrape.value(unreadable, &[("kind", kind)]) == Some(0.0),
            "{kind}"
        );
    }
    for (kind, count) in [
        ("Enterprise", 0.0),
        ("GarmServerConfig", 0.0),
        ("GitHubCredential", 1.0),
        ("GitHubEndpoint", 1.0),
        ("Image", 1.0),
        ("Organization", 0.0),
        ("Pool", 2.0),
        ("Repository", 1.0),
        ("Runner", 2.0),
        ("Secret", 2.0),
    ] {
        let found = scrape.value(cached, &[("kind", kind)]);
        ensure!(found == Some(count), "{kind}: {found:?}");
        let invalid = scrape.value("garm_operator_invalid_objects", &[("kind", kind)]);
        ensure!(invalid == Some(0.0), "{kind}: {invalid:?}");
    }
    world.delete("pool", "large").await?;
    world.wait_gone("pool", "large").await?;
    for (name, kind) in [
        (mirror, "pools"),
        (mirror, "instances"),
        (cached, "Pool"),
        (cached, "Runner"),
    ] {
        wait_value(&operator, name, &[("kind", kind)], |count| {
            count == Some(1.0)
        })
        .await?;
    }
    world.finish(operator).await
}
