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
    proxy::{Fault, Frame, Matcher, Release},
    servers::GarmVersion,
};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

pub fn add(suite: &mut Suite) {
    suite
        .test("faults_are_played", faults_are_played)
        .test("answers_are_lost_and_held", answers_are_lost_and_held)
        .test_on_each_garm(
            "sockets_are_tunnelled_and_cut",
            sockets_are_tunnelled_and_cut,
        )
        .test(
            "frames_are_held_changed_and_slipped_in",
            frames_are_held_changed_and_slipped_in,
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
    let time = Duration::from_millis(300);
    for slow in [Fault::Delay(time), Fault::Lag(time)] {
        let rule = proxy.rule(Matcher::any(), slow);
        let started = Instant::now();
        ensure!(get().await?.0 == 200 && started.elapsed() >= time);
        rule.remove();
    }
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

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Listens to GARM's events by the proxy.
async fn listen(garm: &Garm) -> Result<Socket> {
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
    while !matches!(next(&mut socket).await?, Message::Pong(_)) {}
    Ok(socket)
}

async fn next(socket: &mut Socket) -> Result<Message> {
    let message = tokio::time::timeout(Duration::from_secs(10), socket.next()).await?;
    Ok(message.context("the socket ended")??)
}

/// Waits for the next event; answers the name of what it is about.
async fn next_name(socket: &mut Socket) -> Result<Value> {
    let event: Value = serde_json::from_str(next(socket).await?.to_text()?)?;
    Ok(event["payload"]["name"].clone())
}

/// Makes an endpoint, of which GARM tells.
async fn make(garm: &Garm, name: &str) -> Result<()> {
    let endpoint = json!({ "name": name, "api_base_url": "http://e", "upload_base_url": "http://e", "base_url": "http://e" });
    garm.api()
        .post("/github/endpoints", &endpoint)
        .await
        .map(drop)
}

async fn sockets_are_tunnelled_and_cut(ground: &Ground, version: GarmVersion) -> Result<()> {
    let garm = ground.garm(version).await?;
    let mut socket = listen(&garm).await?;
    ensure!(garm.proxy().sockets() == 1);

    make(&garm, "e").await?;
    let event = next(&mut socket).await?.into_text()?;
    ensure!(event.contains("github_endpoint"), "{event}");

    garm.proxy().drop_sockets();
    let end = next(&mut socket).await;
    ensure!(!matches!(end, Ok(Message::Text(_))), "{end:?}");
    poll_until(Duration::from_secs(5), "the socket is closed", async || {
        Ok(Seen::when(garm.proxy().sockets(), |open| *open == 0))
    })
    .await?;
    Ok(())
}

async fn frames_are_held_changed_and_slipped_in(ground: &Ground) -> Result<()> {
    let garm = ground.garm(GarmVersion::V0_2_1).await?;
    let proxy = garm.proxy();
    let mut socket = listen(&garm).await?;

    proxy.hold_frames(true);
    make(&garm, "held").await?;
    let quiet = tokio::time::timeout(Duration::from_millis(500), socket.next()).await;
    ensure!(quiet.is_err(), "not held: {quiet:?}");
    proxy.hold_frames(false);
    ensure!(next_name(&mut socket).await? == "held");

    proxy.edit_frames(|text| {
        let other = text.replace("changed", "another");
        if text.contains("dropped") {
            Vec::new()
        } else {
            vec![other, text]
        }
    });
    make(&garm, "dropped").await?;
    make(&garm, "changed").await?;
    ensure!(next_name(&mut socket).await? == "another");
    ensure!(next_name(&mut socket).await? == "changed");
    proxy.pass_frames();

    proxy.slip_frame(Frame::Text("hello".to_owned()));
    ensure!(next(&mut socket).await?.to_text()? == "hello");
    proxy.slip_frame(Frame::Close(1000));
    let end = next(&mut socket).await?;
    ensure!(
        matches!(&end, Message::Close(Some(frame)) if frame.code == CloseCode::Normal),
        "{end:?}"
    );
    Ok(())
}
