//! One connection: handshake, requests, and an end that loses none.

use std::{
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Router, body::Body};
use http::{HeaderValue, Request, Response, header::CONNECTION};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use rustls::{AlertDescription, ServerConfig};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::certificate::{Pair, ServerCertificate};
use crate::config::WebhookTimings;

/// Least time between two warnings about clients that do not trust us: each of their calls fails.
const DISTRUST_PAUSE: Duration = Duration::from_secs(60);

/// What all connections share.
pub(super) struct Connections {
    router: Router,
    acceptor: TlsAcceptor,
    certificate: Arc<ServerCertificate>,
    times: WebhookTimings,
    /// Ends all connections after the requests under way.
    pub(super) drain: CancellationToken,
    /// Ends all connections at once.
    pub(super) cut: CancellationToken,
    distrusted: Mutex<Option<Instant>>,
}

impl Connections {
    pub(super) fn new(
        router: Router,
        config: ServerConfig,
        certificate: Arc<ServerCertificate>,
        times: WebhookTimings,
    ) -> Self {
        Self {
            router,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
            times,
            drain: CancellationToken::new(),
            cut: CancellationToken::new(),
            distrusted: Mutex::default(),
        }
    }

    /// Serves one client until it, the certificate or the process goes.
    pub(super) async fn run(&self, stream: TcpStream) {
        let born = Instant::now();
        // From before the handshake: a certificate that comes during it counts as a later one.
        let changes = self.certificate.changes();
        // Most of a connection's memory is needed only once its handshake is done; boxed, the task itself stays small.
        let served = Box::pin(self.serve(stream, changes, born));
        let served = self.cut.run_until_cancelled(served);
        if let Some(Err(error)) = served.await {
            // The API server opens spare connections that it never uses, clients go away: all of it is ordinary.
            tracing::debug!(error = &*error, "a webhook connection ended early");
        }
    }

    async fn serve(
        &self,
        stream: TcpStream,
        changes: watch::Receiver<Option<Pair>>,
        born: Instant,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let handshake = timeout(self.times.handshake, self.acceptor.accept(stream));
        let stream = match handshake.await? {
            Ok(stream) => stream,
            Err(error) => {
                self.note_distrust(&error);
                return Err(error.into());
            }
        };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.serve_http2(stream, changes, born).await
        } else {
            self.serve_http1(stream, changes).await
        }
    }

    /// HTTP/2 tells its client to open another connection (GOAWAY), and answers what is under way.
    async fn serve_http2(
        &self,
        stream: TlsStream<TcpStream>,
        mut changes: watch::Receiver<Option<Pair>>,
        born: Instant,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let router = self.router.clone();
        let (begun, mut has_begun) = watch::channel(false);
        let service = service_fn(move |request| {
            begun.send_replace(true);
            router.clone().call(request)
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(self.times.ping)
            .keep_alive_timeout(self.times.ping)
            .serve_connection(TokioIo::new(stream), service);
        let old = async {
            // The sender lives as long as we do.
            let _ = changes.changed().await;
            sleep_until(born + self.times.connection_age_min).await;
            // A client that has not said a word yet may be about to: it would find the door shut.
            let _ = has_begun.wait_for(|begun| *begun).await;
        };
        let end = async {
            tokio::select! {
                () = self.drain.cancelled() => {}
                () = old => {}
            }
        };
        Ok(until_end(connection, end).await?)
    }

    /// HTTP/1.1 has no such word: an idle connection that closes may meet a request. So the next answer ends it.
    async fn serve_http1(
        &self,
        stream: TlsStream<TcpStream>,
        changes: watch::Receiver<Option<Pair>>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let router = self.router.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = router.clone().call(request);
            let changes = changes.clone();
            async move {
                let mut answer: Response<Body> = answer.await?;
                if changes.has_changed().unwrap_or(true) {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.times.idle)
            .serve_connection(TokioIo::new(stream), service);
        Ok(until_end(connection, self.drain.cancelled()).await?)
    }

    /// Says so when a client refuses our certificate: then every call of that API server fails.
    fn note_distrust(&self, error: &io::Error) {
        let alert = error.get_ref().and_then(|error| error.downcast_ref());
        let Some(rustls::Error::AlertReceived(alert)) = alert else {
            return;
        };
        let is_distrust = matches!(
            alert,
            AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
        );
        let mut last = self
            .distrusted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if is_distrust && last.is_none_or(|last| last.elapsed() >= DISTRUST_PAUSE) {
            *last = Some(Instant::now());
            tracing::warn!(
                alert = ?alert,
                "a client refused the webhook certificate; the caBundle of webhook configurations and CRDs has to hold its CA"
            );
        }
    }
}

/// Drives a connection until it ends by itself, or to its good end once `end` has come.
async fn until_end<C: GracefulConnection>(
    connection: C,
    end: impl Future<Output = ()>,
) -> Result<(), C::Error> {
    let mut connection = pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return result,
        () = end => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}
