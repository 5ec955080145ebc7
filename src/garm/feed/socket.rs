//! The events socket: dials, tells GARM to send everything, waits for the proof that it does, and listens.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio::time::{interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
};

use super::super::auth::Session;
use super::super::error::{Error, Refusal, Transport, refusal};
use super::super::handle::Shared;
use super::super::http::cause;
use super::super::observer::Loop;
use super::frames;
use super::pause::Pause;

/// The only filter that every version understands: naming a kind that GARM does not know closes the socket.
const SEND_EVERYTHING: &str = r#"{"send-everything": true}"#;

/// An event of a pool carries all its instances.
const MAX_MESSAGE: usize = 64 << 20;

/// Tells our first ping's pong from those of later ones.
const FIRST_PING: &[u8] = b"filter";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Runs until it is dropped: one dial at a time, each with a token that is good.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut pause = Pause::new(shared.settings.timings.dial_backoff);
    loop {
        shared.observer.turned(Loop::Events);
        match dial(&shared).await {
            Ok(socket) => {
                let why = listen(&shared, socket, &mut pause).await;
                if shared.socket_is_up.swap(false, Ordering::Relaxed) {
                    tracing::info!(why, "the events socket to GARM closed");
                    shared.observer.socket(false);
                }
                // Perhaps GARM is going down.
                shared.client.doubt.notify_one();
            }
            Err(error) => {
                tracing::debug!(%error, "the events socket to GARM could not be opened");
                // The polls that stand in for the socket tell soon enough whether GARM is there.
                let is_lost = matches!(error, Error::Transport(_) | Error::Timeout);
                let is_polled = shared.settings.poll_instances;
                if error.is_about_garm() && !(is_lost && is_polled) {
                    shared.client.doubt.notify_one();
                }
            }
        }
        pause.wait().await;
    }
}

/// Opens a socket; a token that GARM refuses is replaced once.
async fn dial(shared: &Shared) -> Result<Socket, Error> {
    let client = &shared.client;
    let session = client.auth.session(&client.http).await?;
    match open(shared, &session).await? {
        Ok(socket) => Ok(socket),
        Err(Refusal::Final(error)) => Err(error),
        Err(Refusal::Token) => {
            let session = client.auth.renew(&client.http, Some(&session)).await?;
            match open(shared, &session).await? {
                Ok(socket) => Ok(socket),
                Err(Refusal::Final(error)) => Err(error),
                Err(Refusal::Token) => Err(Error::LoginRefused),
            }
        }
    }
}

async fn open(shared: &Shared, session: &Session) -> Result<Result<Socket, Refusal>, Error> {
    let (url, tls) = shared.client.http.socket().await?;
    let other = |error: &SocketError| Error::Transport(Transport::Other(error.to_string()));
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|error| other(&error))?;
    let token = format!("Bearer {}", session.token.expose_secret());
    if let Ok(mut value) = http::HeaderValue::from_str(&token) {
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let connect =
        connect_async_tls_with_config(request, Some(config), true, tls.map(Connector::Rustls));
    match timeout(shared.settings.timings.connect, connect).await {
        Err(_) => Err(Error::Transport(Transport::NoConnection)),
        Ok(Ok((socket, _))) => Ok(Ok(socket)),
        Ok(Err(SocketError::Http(response))) => {
            let body = response.body().as_deref().unwrap_or_default();
            Ok(Err(refusal(
                "events",
                response.status().as_u16(),
                "",
                None,
                body,
            )))
        }
        Ok(Err(error)) => Err(Error::Transport(cause(&error, true))),
    }
}

/// Listens until the socket ends; says why it did.
async fn listen(shared: &Shared, mut socket: Socket, pause: &mut Pause) -> &'static str {
    let timings = &shared.settings.timings;
    if socket.send(Message::text(SEND_EVERYTHING)).await.is_err()
        || socket.send(Message::Ping(FIRST_PING.into())).await.is_err()
    {
        return "it broke";
    }
    let mut pings = interval(timings.ping);
    pings.reset();
    let mut deadline = Instant::now() + timings.connect;
    loop {
        shared.observer.turned(Loop::Events);
        tokio::select! {
            message = socket.next() => {
                match message {
                    Some(Ok(Message::Text(text))) => frames::take(shared, text.as_str()),
                    Some(Ok(Message::Pong(payload))) if payload.as_ref() == FIRST_PING => {
                        pause.reset();
                        came_up(shared);
                    }
                    Some(Ok(Message::Close(_))) | None => return "GARM closed it",
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return "it broke",
                }
                if shared.socket_is_up.load(Ordering::Relaxed) {
                    deadline = Instant::now() + timings.silence;
                }
            }
            _ = pings.tick() => {
                if socket.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return "it broke";
                }
            }
            () = sleep_until(deadline.into()) => return "it fell silent",
        }
    }
}

/// GARM handles messages one by one, so this pong means that the filter works: from now on nothing is missed, and what was
/// missed before comes with a list.
fn came_up(shared: &Shared) {
    tracing::info!("the events socket to GARM is up");
    shared.socket_is_up.store(true, Ordering::Relaxed);
    shared.observer.socket(true);
    shared.socket_came_up.send_modify(|times| *times += 1);
}
