//! The webhook listener: HTTP/2 and HTTP/1.1 over TLS, with a certificate that changes while it serves.
//!
//! Each connection is a task of its own from the first byte on, so that a slow client holds up nobody. Connections opened with an earlier
//! certificate end in good order soon after a new one has come: clients of a cluster keep one connection for hours, and would never see it.

mod certificate;
mod connection;
#[cfg(test)]
mod tests;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{NoServerSessionStorage, ResolvesServerCert},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::connection::Connections;
use crate::config::WebhookTimings;

pub use self::certificate::{Pair, PairError, ServerCertificate, not_after};

/// Connections at once; more wait in the system's queue. An API server needs a handful.
const CONNECTIONS_MAX: usize = 1_024;

/// Pause after a failure to accept, which mostly means that the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` until `stop` is cancelled and the time to serve on is over; then lets requests under way end.
///
/// Without a certificate handshakes are refused, so that the API server acts on its failure policy at once. Fails only when there is no common
/// TLS version, which the provider rules out.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    certificate: Arc<ServerCertificate>,
    times: WebhookTimings,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let address = listener
        .local_addr()
        .as_ref()
        .map_or_else(|_| String::new(), SocketAddr::to_string);
    tracing::info!(listener = "webhook", address, "listening");
    let config = tls_config(Arc::clone(&certificate) as _)?;
    let connections = Arc::new(Connections::new(router, config, certificate, times));
    let tasks = TaskTracker::new();
    let limit = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let last_call = async {
        stop.cancelled().await;
        sleep(times.serve_on).await;
    };
    let mut last_call = std::pin::pin!(last_call);
    loop {
        let accepted = tokio::select! {
            () = &mut last_call => break,
            accepted = accept(&listener, &limit) => accepted,
        };
        match accepted {
            Ok((stream, permit)) => {
                let connections = Arc::clone(&connections);
                tasks.spawn(async move {
                    connections.run(stream).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(listener = "webhook", %error, "no connection could be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.drain.cancel();
    tasks.close();
    if timeout(times.drain, tasks.wait()).await.is_err() {
        tracing::warn!(
            connections = tasks.len(),
            "webhook connections were cut: their requests took too long"
        );
    }
    connections.cut.cancel();
    Ok(())
}

/// Waits for room and for a client.
async fn accept(
    listener: &TcpListener,
    limit: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(limit).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Small answers must not wait for more.
                let _ = stream.set_nodelay(true);
                return Ok((stream, permit));
            }
            // The client went away before its turn came.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

fn tls_config(certificate: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would go on under the certificate of its beginning.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
