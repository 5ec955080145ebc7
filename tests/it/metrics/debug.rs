//! What people see who look for a fault: the state as JSON, and more lines in the log.

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Ground, Operator};
use http::StatusCode;
use serde_json::{Value, json};

use super::probe;
use super::scrape::Scrape;
use crate::world::{SOON, World};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test_on_each_garm("the_state_names_what_fails_and_shows_no_secret", diagnosis);
    suite.test("a_standby_shows_who_leads_and_no_work", standby);
    suite.test(
        "the_log_verbosity_changes_while_the_process_runs",
        verbosity,
    );
}

async fn state(operator: &Operator) -> Result<Value> {
    let (status, body) = probe(operator, "/debug/state").await?;
    ensure!(status == 200, "{status}: {body}");
    Ok(serde_json::from_str(&body)?)
}

async fn diagnosis(ground: &Ground, version: GarmVersion) -> Result<()> {
    let world = World::new(ground, version).await?;
    let operator = world.settled_operator(&world.command()).await?;
    let refuse = Fault::garm_error(StatusCode::BAD_REQUEST, "Bad Request", "not today");
    let rule = world
        .garm
        .proxy()
        .rule(Matcher::route("PUT /pools/{id}"), refuse);
    let change = json!({"spec": {"maxRunners": 9}});
    world.patch("pool", "large", change).await?;
    let object = format!("{}/large", world.namespace);
    let seen = poll_until(SOON, "the Pool backs off", async || {
        let state = state(&operator).await?;
        let worst = &state["queues"]["pool"]["backOff"]["worst"][0];
        let backs_off = worst["object"] == object.as_str() && worst["attempts"].as_u64() >= Some(2);
        Ok(if backs_off {
            Seen::Yes(state)
        } else {
            Seen::NotYet(state.to_string())
        })
    })
    .await?;
    let queue = &seen["queues"]["pool"];
    ensure!(
        queue["concurrency"] == 10 && queue["backOff"]["count"] == 1,
        "{queue}"
    );
    ensure!(
        queue["inFlight"]["count"].is_u64() && queue["ready"].is_u64(),
        "{queue}"
    );
    let pools = &seen["watches"]["Pool"];
    ensure!(
        pools["objects"] == 2 && pools["loaded"] == true && pools["undecodable"] == 0,
        "{pools}"
    );
    ensure!(
        pools["scopes"][0]["namespace"] == world.namespace.as_str(),
        "{pools}"
    );
    let garm = &seen["garm"];
    ensure!(garm["ready"] == true && garm["message"].is_null(), "{garm}");
    ensure!(
        garm["events"]["connected"] == true && garm["events"]["lastSecondsAgo"].is_number(),
        "{garm}"
    );
    let mirrored = &garm["mirror"]["pools"];
    ensure!(
        mirrored["objects"] == 2 && mirrored["listedSecondsAgo"].is_number(),
        "{mirrored}"
    );
    ensure!(
        seen["lease"] == json!({"election": false, "works": true}),
        "{}",
        seen["lease"]
    );
    ensure!(
        seen["loops"]["garm-lists"]["turnedSecondsAgo"].is_number(),
        "{}",
        seen["loops"]
    );
    ensure!(
        seen["logVerbosity"] == json!({"now": 1, "configured": 1}),
        "{seen}"
    );
    let text = seen.to_string();
    for planted in [
        "ghp_planted-token",
        "planted-webhook-secret",
        world.garm.password(),
    ] {
        ensure!(!text.contains(planted), "the state shows a secret");
    }

    rule.remove();
    world
        .change("pool", "large", json!({"spec": {"maxRunners": 2}}))
        .await?;
    poll_until(SOON, "nothing backs off", async || {
        let queue = state(&operator).await?["queues"]["pool"].take();
        Ok(Seen::when(queue, |queue| queue["backOff"]["count"] == 0))
    })
    .await?;
    world.finish(operator).await
}

async fn standby(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true")
        .argument("--operator-state-metrics=true");
    world.apply(&world.manifests()).await?;
    let first = world.start(&command).await?;
    let leads = async |operator: &Operator| {
        poll_until(SOON, "a known leader", async || {
            let state = state(operator).await?;
            let known = state["lease"]["holder"] != "";
            Ok(Seen::when(state, |_| known))
        })
        .await
    };
    let leader = leads(&first).await?;
    let identity = leader["lease"]["identity"]
        .as_str()
        .context("no identity")?;
    ensure!(
        leader["lease"]["holder"] == identity && leader["lease"]["works"] == true,
        "{leader}"
    );
    let second = world.start(&command).await?;
    let seen = leads(&second).await?;
    ensure!(seen["lease"]["holder"] == identity, "{seen}");
    ensure!(
        seen["lease"]["works"] == false && seen["lease"]["trouble"].is_null(),
        "{seen}"
    );
    ensure!(
        seen["garm"].is_null() && seen["queues"] == json!({}),
        "{seen}"
    );
    ensure!(
        seen["watches"]["Pool"]["loaded"].is_boolean(),
        "it watches: {seen}"
    );
    let scrape = Scrape::of(&second).await?;
    let of_the_leader = [
        "garm_operator_garm_ready",
        "garm_operator_mirror_objects",
        "garm_operator_pool_info",
    ];
    for name in of_the_leader {
        ensure!(scrape.all(name, &[]).count() == 0, "{name} on a standby");
    }
    world.finish(first).await?;
    poll_until(SOON, "the second works", async || {
        let state = state(&second).await?;
        Ok(Seen::when(state, |state| state["lease"]["works"] == true))
    })
    .await?;
    let scrape = Scrape::of(&second).await?;
    for name in of_the_leader {
        ensure!(scrape.all(name, &[]).count() > 0, "no {name}");
    }
    world.finish(second).await
}

async fn verbosity(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let command = world.command().argument("--operator-log-verbosity-level=0");
    let operator = world.settled_operator(&command).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    let put = async |body: &'static str| {
        let url = operator.health_url("/debug/flags/v");
        let answer = http.put(url).body(body).send().await?;
        anyhow::Ok((answer.status().as_u16(), answer.text().await?))
    };
    ensure!(
        probe(&operator, "/debug/flags/v").await? == (200, "0\n".to_owned()),
        "as configured"
    );
    ensure!(!operator.stderr().contains("DEBUG"), "it talks too much");
    let (status, text) = put("5").await?;
    ensure!(status == 400 && text.contains("0 to 4"), "{status}: {text}");
    let (status, text) = put("1").await?;
    ensure!(
        status == 200 && text.contains("for 15 minutes, then 0 again"),
        "{status}: {text}"
    );
    let shown = state(&operator).await?["logVerbosity"].take();
    ensure!(shown == json!({"now": 1, "configured": 0}), "{shown}");
    let dials = async || {
        let proxy = world.garm.proxy();
        let closed = operator.stderr().matches("socket to GARM closed").count();
        proxy.refuse(true);
        proxy.drop_sockets();
        poll_until(SOON, "GARM is away", async || {
            let log = operator.stderr();
            let told = log.matches("GARM is not ready").count();
            Ok(Seen::when(told, |told| *told > closed))
        })
        .await?;
        proxy.refuse(false);
        world
            .wait_for("the socket is up", || proxy.sockets() == 1)
            .await
    };
    dials().await?;
    ensure!(
        operator.stderr().contains("DEBUG"),
        "no more than before: {}",
        operator.stderr()
    );
    let (status, text) = put("0").await?;
    ensure!(
        status == 200 && text.contains("as configured"),
        "{status}: {text}"
    );
    let before = operator.stderr().matches("DEBUG").count();
    dials().await?;
    let after = operator.stderr().matches("DEBUG").count();
    ensure!(after == before, "it goes on talking");
    world.finish(operator).await
}
