//! Plain HTTP listeners of the process: probes and metrics, on ports of their own.

pub mod health;
pub mod metrics;

use std::{io, net::SocketAddr};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Listens on `address` in Go's form: `:8080` is every interface, IPv6 where the system has it.
///
/// The error names the address, as the user gave it.
pub async fn bind(address: &str) -> io::Result<TcpListener> {
    let bound = match address.strip_prefix(':') {
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            // A machine without IPv6 refuses the address family.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(format!("0.0.0.0:{port}")).await
            }
            bound => bound,
        },
        None => TcpListener::bind(address).await,
    };
    bound.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen on {address:?}: {error}"),
        )
    })
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
    axum::serve(listener, router)
        .with_graceful_shutdown(token.cancelled_owned())
        .await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn listens_on_a_bare_port_and_stops_with_the_token() {
        let listener = bind(":0").await.unwrap();
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
        let taken = bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        assert!(
            bind(&address)
                .await
                .unwrap_err()
                .to_string()
                .contains(&address)
        );
    }
}
