//! Listeners of the process: probes and metrics on plain HTTP, webhooks over TLS, each on a port of its own.

pub mod certs;
pub mod debug;
pub mod health;
pub mod metrics;
#[cfg(test)]
mod testing;
pub mod tls;

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Listen;

/// Opens the port of `listen`; `None` when it is switched off. The error names the address.
pub async fn bind(listen: &Listen) -> io::Result<Option<TcpListener>> {
    let mut refused = None;
    for (host, port) in listen.candidates() {
        match TcpListener::bind((host, port)).await {
            Ok(listener) => return Ok(Some(listener)),
            // Taken on IPv6 is taken: IPv4 alone would work half.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                refused = Some(error);
                break;
            }
            Err(error) => refused = Some(error),
        }
    }
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"))
    };
    refused.map_or(Ok(None), |error| Err(named(error)))
}

/// Serves `router` until `token` is cancelled, then ends as soon as the requests under way are answered.
pub async fn serve(
    name: &'static str,
    listener: TcpListener,
    router: Router,
    token: CancellationToken,
) -> io::Result<()> {
    let address = listener
        .local_addr()
        .as_ref()
        .map_or_else(|_| String::new(), SocketAddr::to_string);
    tracing::info!(listener = name, address, "listening");
    // Some routes are only for who asks from within.
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service)
        .with_graceful_shutdown(token.cancelled_owned())
        .await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn listens_on_a_bare_port_and_stops_with_the_token() {
        let listen = Listen::On {
            host: String::new(),
            port: 0,
        };
        let listener = bind(&listen).await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let token = CancellationToken::new();
        let router = Router::new().route("/", axum::routing::get(|| async { "hello" }));
        let server = tokio::spawn(serve("test", listener, router, token.clone()));
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
        token.cancel();
        let ended = tokio::time::timeout(std::time::Duration::from_secs(10), server).await;
        ended.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_error_names_the_address() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let error = bind(&Listen::parse(&address).unwrap()).await.unwrap_err();
        assert!(error.to_string().contains(&address), "{error}");
    }

    #[tokio::test]
    async fn an_address_that_is_off_opens_nothing() {
        assert!(bind(&Listen::Off).await.unwrap().is_none());
    }
}
