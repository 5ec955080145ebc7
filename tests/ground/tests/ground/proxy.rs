//! The proxy in front of a GARM: counts and faults.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{SinkExt, StreamExt};
use garm_operator_ground::{
    Garm, Ground,
    harness::Suite,
    poll::{Seen, poll_until},
    proxy::{Fault, Matcher, Release},
    servers::GarmVersion,
};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

pub fn add(suite: &mut Suite) {
    suite
        .test("faults_are_played", faults_are_played)
        .test("answers_are_lost_and_held", answers_are_lost_and_held)
        .test_on_each_garm(
            "sockets_are_tunnelled_and_cut",
            sockets_are_tunnelled_and_cut,
        );
}

/// Asks as the operator does, by the proxy.
async fn ask(garm: &Garm, method: Method, path: &str, body: Value) -> Result<(StatusCode, String)> {
    let client = Client::builder()
        .timeout(Duration::from_secs(2))
        .no_proxy()
        .build()?;
    let url = format!("{}/api/v1{path}", garm.url());
    let answer = client
        .request(method, url)
        .bearer_auth(garm.api().token().await?)
        .json(&body)
        .send()
        .await?;
    Ok((answer.status(), answer.text().await?))
}

async fn faults_are_played(ground: &Ground) -> Result<()> {
    let garm = ground.garm(GarmVersion::V0_1_5).await?;
    let proxy = garm.proxy();
    let get = async || ask(&garm, Method::GET, "/controller", Value::Null).await;

    let error = Fault::garm_error(StatusCode::INTERNAL_SERVER_ERROR, "Server error", "");
    let rule = proxy.rule(Matcher::route("GET /controller").times(1), error);
    let (status, body) = get().await?;
    ensure!(
        status == 500 && body.contains("Server error"),
        "{status} {body}"
    );
    ensure!(get().await?.0 == 200 && rule.hits() == 1);

    proxy.rule(Matcher::any().times(1), Fault::html(StatusCode::OK));
    ensure!(get().await?.1.contains("<html>"));
    let slow = proxy.rule(Matcher::any(), Fault::Delay(Duration::from_millis(300)));
    let started = Instant::now();
    ensure!(get().await?.0 == 200 && started.elapsed() >= Duration::from_millis(300));
    slow.remove();
    let rewrite = Arc::new(|_| r#"{"version":"v9"}"#.into());
    proxy.rule(Matcher::any().times(1), Fault::Rewrite(rewrite));
    ensure!(get().await?.1 == r#"{"version":"v9"}"#);
    proxy.rule(Matcher::any().times(1), Fault::Close);
    ensure!(get().await.is_err());
    proxy.rule(Matcher::any().times(1), Fault::Blackhole);
    ensure!(get().await.is_err_and(|error| {
        error
            .downcast_ref::<reqwest::Error>()
            .is_some_and(reqwest::Error::is_timeout)
    }));

    proxy.refuse(true);
    ensure!(get().await.is_err());
    proxy.refuse(false);
    ensure!(get().await?.0 == 200);
    garm.stop().await?;
    ensure!(get().await.is_err(), "a stopped server answered");
    Ok(())
}

async fn answers_are_lost_and_held(ground: &Ground) -> Result<()> {
    let garm = ground.garm(GarmVersion::V0_2_1).await?;
    let proxy = garm.proxy();
    let endpoint = |name: &str| json!({ "name": name, "api_base_url": "http://e", "upload_base_url": "http://e", "base_url": "http://e" });
    let exists = async |name: &str| -> Result<bool> {
        Ok(garm
            .api()
            .call("GET", &format!("/github/endpoints/{name}"), &Value::Null)
            .await?
            .status
            == 200)
    };

    let mark = proxy.mark();
    proxy.rule(
        Matcher::route("POST /github/endpoints").times(1),
        Fault::LoseAnswer,
    );
    ensure!(
        ask(&garm, Method::POST, "/github/endpoints", endpoint("lost"))
            .await
            .is_err()
    );
    ensure!(exists("lost").await?);
    let writes = proxy.writes_since(mark);
    ensure!(
        writes.len() == 1 && writes[0].status.is_none() && writes[0].json()["name"] == "lost",
        "{writes:?}"
    );
    ensure!(proxy.count(mark, "POST /github/endpoints") == 1);

    let release = Release::new();
    let rule = proxy.rule(
        Matcher::any().method(Method::POST),
        Fault::HoldAnswer(release.clone()),
    );
    let held = ask(&garm, Method::POST, "/github/endpoints", endpoint("held"));
    let meanwhile = async {
        poll_until(Duration::from_secs(1), "the endpoint exists", async || {
            Ok(Seen::when(exists("held").await?, |there| *there))
        })
        .await?;
        ensure!(
            rule.hits() == 1
                && proxy
                    .requests()
                    .last()
                    .is_some_and(|last| last.status.is_none())
        );
        release.release();
        Ok(())
    };
    let (held, watched) = tokio::join!(held, meanwhile);
    watched?;
    ensure!(held?.0 == 200);
    proxy.clear_rules();
    Ok(())
}

async fn sockets_are_tunnelled_and_cut(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    let url = format!(
        "{}/api/v1/ws/events",
        garm.url().replace("http://", "ws://")
    );
    let mut request = url.into_client_request()?;
    let token = format!("Bearer {}", garm.api().token().await?);
    request
        .headers_mut()
        .insert("Authorization", token.parse()?);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await?;
    socket
        .send(Message::text(r#"{"send-everything":true}"#))
        .await?;
    socket.send(Message::Ping("sync".into())).await?;
    let mut next = async || -> Result<Option<Message>> {
        Ok(tokio::time::timeout(Duration::from_secs(10), socket.next())
            .await?
            .transpose()?)
    };
    while !matches!(next().await?.context("the socket ended")?, Message::Pong(_)) {}
    ensure!(garm.proxy().sockets() == 1);

    let endpoint = json!({ "name": "e", "api_base_url": "http://e", "upload_base_url": "http://e", "base_url": "http://e" });
    garm.api().post("/github/endpoints", &endpoint).await?;
    let event = next().await?.context("the socket ended")?.into_text()?;
    ensure!(event.contains("github_endpoint"), "{event}");

    garm.proxy().drop_sockets();
    let end = next().await;
    ensure!(!matches!(end, Ok(Some(Message::Text(_)))), "{end:?}");
    poll_until(Duration::from_secs(5), "the socket is closed", async || {
        Ok(Seen::when(garm.proxy().sockets(), |open| *open == 0))
    })
    .await?;
    Ok(())
}
