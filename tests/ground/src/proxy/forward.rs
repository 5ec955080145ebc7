//! One request through the proxy.

use std::{future::pending, sync::Arc, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, Result};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{self, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, UPGRADE},
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Bytes, Incoming},
    upgrade::{self, OnUpgrade},
};
use hyper_util::rt::TokioIo;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Fault, Shared, current, record::Dialect};

pub(super) type Body = BoxBody<Bytes, hyper::Error>;

/// Headers about one connection, which are not passed on.
const HOP_BY_HOP: [HeaderName; 5] = [
    CONNECTION,
    UPGRADE,
    header::TRANSFER_ENCODING,
    header::TE,
    HeaderName::from_static("keep-alive"),
];

/// Answers a request, or cancels `cut` and never returns, which closes its connection.
pub(super) async fn serve(
    shared: Arc<Shared>,
    cut: CancellationToken,
    request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    if let Ok(Some(response)) = answer(&shared, request).await {
        return Ok(response);
    }
    // A server that cannot be reached looks to the client as it would without us: a closed connection.
    cut.cancel();
    pending().await
}

/// The answer; `None` when the connection is to be closed instead.
async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Option<Response<Body>>> {
    let (mut parts, body) = request.into_parts();
    let client_side = parts.extensions.remove::<OnUpgrade>();
    // Writes are small; read whole, they are on record even if they are never forwarded.
    let (recorded, body) = if parts.method == Method::GET {
        (Bytes::new(), body.boxed())
    } else {
        let bytes = body.collect().await.context("read the request")?.to_bytes();
        (bytes.clone(), whole(bytes))
    };
    let (seq, route) = shared
        .records
        .arrived(&parts.method, &parts.uri, &parts.headers, &recorded);
    let fault = shared.rules.fault_for(&parts.method, &parts.uri, &route);
    match &fault {
        Some(Fault::Delay(time)) => tokio::time::sleep(*time).await,
        Some(Fault::Close) => return Ok(None),
        Some(Fault::Blackhole) => pending().await,
        Some(Fault::Status {
            code,
            body,
            content_type,
            headers,
        }) => {
            let mut response = Response::builder()
                .status(*code)
                .header(CONTENT_TYPE, content_type);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            shared.records.answered(seq, *code);
            return Ok(Some(
                response
                    .body(whole(Bytes::from(body.clone())))
                    .context("make the answer")?,
            ));
        }
        Some(Fault::Answer(answer)) => {
            if let Some((code, body)) = answer(parts.uri.path()) {
                shared.records.answered(seq, code);
                let response = Response::builder()
                    .status(code)
                    .header(CONTENT_TYPE, "application/json")
                    .body(whole(Bytes::from(body)));
                return Ok(Some(response.context("make the answer")?));
            }
        }
        Some(Fault::LoseAnswer | Fault::HoldAnswer(_) | Fault::Rewrite(_) | Fault::Lag(_))
        | None => {}
    }
    let response = send(shared, parts, body).await?;
    let response = note_lock(shared, seq, response).await?;
    let response = match fault {
        Some(Fault::LoseAnswer) => {
            // Read to the end: the server has carried it out.
            response
                .into_body()
                .collect()
                .await
                .context("read the answer")?;
            return Ok(None);
        }
        Some(Fault::HoldAnswer(release)) => {
            release.released().await;
            response
        }
        Some(Fault::Rewrite(rewrite)) => {
            let (mut parts, body) = response.into_parts();
            let body = rewrite(body.collect().await.context("read the answer")?.to_bytes());
            parts.headers.remove(CONTENT_LENGTH);
            Response::from_parts(parts, whole(body))
        }
        Some(Fault::Lag(time)) => response.map(|body| lagging(body, time)),
        _ => response,
    };
    let response = if shared.records.keeps_answer(seq) {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context("read the answer")?.to_bytes();
        shared.records.keep_answer(seq, &body);
        Response::from_parts(parts, whole(body))
    } else {
        response
    };
    shared.records.answered(seq, response.status());
    tunnel_if_upgraded(shared, client_side, response).map(Some)
}

/// Notes an answer of GARM's locked database.
async fn note_lock(
    shared: &Shared,
    seq: usize,
    response: Response<Body>,
) -> Result<Response<Body>> {
    if shared.records.dialect() != Dialect::Garm
        || response.status() != http::StatusCode::INTERNAL_SERVER_ERROR
    {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = body.collect().await.context("read the answer")?.to_bytes();
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    if said["details"] == "" {
        shared.records.locked(seq);
    }
    Ok(Response::from_parts(parts, whole(body)))
}

/// Sends a request to the server.
async fn send(
    shared: &Shared,
    mut parts: http::request::Parts,
    body: Body,
) -> Result<Response<Body>> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = format!("{}{path}", shared.upstream.url)
        .parse::<Uri>()
        .context("make the server's URI")?;
    pass_on_headers(&mut parts.headers);
    if let Some(token) = &shared.upstream.bearer {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .context("the token is no header value")?;
        value.set_sensitive(true);
        parts.headers.insert(AUTHORIZATION, value);
    }
    let response = shared
        .client
        .request(Request::from_parts(parts, body))
        .await
        .context("ask the server")?;
    Ok(response.map(BodyExt::boxed))
}

/// Drops what is about the connection only; a wish for another protocol is passed on.
fn pass_on_headers(headers: &mut HeaderMap) {
    let wanted = headers.get(UPGRADE).cloned();
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    if let Some(protocol) = wanted {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
}

/// Joins both sides when the server agreed to another protocol, else just passes the answer on.
fn tunnel_if_upgraded(
    shared: &Arc<Shared>,
    client_side: Option<OnUpgrade>,
    mut response: Response<Body>,
) -> Result<Response<Body>> {
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        for name in HOP_BY_HOP {
            response.headers_mut().remove(name);
        }
        return Ok(response);
    }
    let client_side = client_side.context("the client asked for no upgrade")?;
    let server_side = upgrade::on(&mut response);
    let shared = Arc::clone(shared);
    let cut = current(&shared.tunnels);
    tokio::spawn(async move {
        let (Ok(client), Ok(server)) = tokio::join!(client_side, server_side) else {
            return;
        };
        let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
        let (from_server, to_server) = tokio::io::split(TokioIo::new(server));
        shared.open_tunnels.fetch_add(1, Ordering::SeqCst);
        // Either side may close at any time.
        tokio::select! {
            () = cut.cancelled() => {}
            _ = shared.frames.relay(from_server, to_client) => {}
            _ = shared.frames.overhear(from_client, to_server) => {}
        }
        shared.open_tunnels.fetch_sub(1, Ordering::SeqCst);
    });
    Ok(response)
}

/// Gives each piece of a body this long after it came.
fn lagging(mut body: Body, time: Duration) -> Body {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // Ends with the body, and with the client, which drops the other end.
        while let Some(piece) = tokio::select! {
            piece = body.frame() => piece,
            () = arrived.closed() => None,
        } {
            let _ = arrived.send((Instant::now() + time, piece));
        }
    });
    let pieces = futures::stream::unfold(arrivals, async |mut arrivals| {
        let (due, piece) = arrivals.recv().await?;
        tokio::time::sleep_until(due).await;
        Some((piece, arrivals))
    });
    BodyExt::boxed(StreamBody::new(pieces))
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}
