//! A counting and lying reverse proxy, put in front of GARM and of the Kubernetes API server.
//!
//! It listens on HTTP/1.1, plain or behind TLS, forwards to `http://` or `https://`, records every request, tunnels websockets and carries out
//! faults that a test switches on and off while it runs.

mod fault;
mod forward;
mod frames;
mod record;
mod tls;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use hyper::{server::conn::http1, service::service_fn};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

pub use fault::{AnswerPath, Fault, Matcher, Release, RewriteBody, Rule};
pub use frames::{EditFrame, Frame};
pub use record::{Dialect, Recorded};

use crate::certificates::Certificates;

use fault::Rules;
use forward::Body;
use frames::Frames;
use record::Records;
use tls::Tls;

/// Keeps idle connections for less time than GARM does (60 s), so that we never write into one it is closing.
const IDLE: Duration = Duration::from_secs(20);

/// What a proxy forwards to.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Scheme, host and port, as in `https://127.0.0.1:6443`.
    pub url: String,
    /// Certificates to trust, as PEM; for `https` only.
    pub ca_pem: Option<String>,
    /// A token that replaces whatever the client sends as `Authorization`.
    pub bearer: Option<String>,
}

impl Upstream {
    /// A plain server whose clients authenticate themselves.
    pub fn plain(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_pem: None,
            bearer: None,
        }
    }
}

/// A running proxy; it ends with the value.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Debug)]
struct Shared {
    upstream: Upstream,
    client: Client<HttpsConnector<HttpConnector>, Body>,
    records: Records,
    rules: Rules,
    refusing: AtomicBool,
    stop: CancellationToken,
    /// Cancelled to close all connections of the moment, then replaced.
    connections: Mutex<CancellationToken>,
    /// The same for tunnelled websockets.
    tunnels: Mutex<CancellationToken>,
    open_tunnels: AtomicUsize,
    frames: Frames,
    tls: Tls,
}

impl Proxy {
    /// Starts a proxy on an ephemeral loopback port.
    pub async fn start(dialect: Dialect, upstream: Upstream) -> Result<Self> {
        Self::start_with(dialect, upstream, Tls::default()).await
    }

    /// Starts a proxy that clients reach by TLS only.
    pub async fn start_tls(
        dialect: Dialect,
        upstream: Upstream,
        certificates: &Certificates,
    ) -> Result<Self> {
        let tls = Tls::default();
        tls.show(certificates)?;
        Self::start_with(dialect, upstream, tls).await
    }

    async fn start_with(dialect: Dialect, upstream: Upstream, tls: Tls) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("bind the proxy")?;
        let address = listener.local_addr().context("find the proxy's port")?;
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector(&upstream)?);
        let shared = Arc::new(Shared {
            upstream,
            client,
            records: Records::new(dialect),
            rules: Rules::default(),
            refusing: AtomicBool::new(false),
            stop: CancellationToken::new(),
            connections: Mutex::default(),
            tunnels: Mutex::default(),
            open_tunnels: AtomicUsize::new(0),
            frames: Frames::default(),
            tls,
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, address })
    }

    /// Where clients connect to, as in `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.shared.tls.scheme(), self.address)
    }

    /// Shows another certificate from now on, and closes all connections of the moment.
    pub fn show_certificate(&self, certificates: &Certificates) -> Result<()> {
        self.shared.tls.show(certificates)?;
        self.drop_connections();
        Ok(())
    }

    /// Everything requested so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.since(0)
    }

    /// A mark for "from now on".
    pub fn mark(&self) -> usize {
        self.shared.records.len()
    }

    /// Everything requested since the mark.
    pub fn since(&self, mark: usize) -> Vec<Recorded> {
        self.shared.records.since(mark)
    }

    /// Looks at everything requested since the mark without copying it; requests wait meanwhile.
    pub fn look<T>(&self, mark: usize, look: impl FnOnce(&[Recorded]) -> T) -> T {
        self.shared.records.look(mark, look)
    }

    /// How often a route such as `PUT /pools/{id}` was requested since the mark.
    pub fn count(&self, mark: usize, route: &str) -> usize {
        self.since(mark)
            .iter()
            .filter(|request| request.route == route)
            .count()
    }

    /// The requests since the mark that change something: for GARM POST, PUT and DELETE but login and first run; for Kubernetes
    /// POST, PUT, PATCH and DELETE but leases, access reviews and events.
    pub fn writes_since(&self, mark: usize) -> Vec<Recorded> {
        let mut requests = self.since(mark);
        requests.retain(Recorded::is_write);
        requests
    }

    /// The Kubernetes events written since the mark.
    pub fn events_since(&self, mark: usize) -> Vec<Recorded> {
        let mut requests = self.since(mark);
        requests.retain(Recorded::is_event);
        requests
    }

    /// Switches a fault on for the requests that match; of several rules the oldest that matches counts.
    pub fn rule(&self, matcher: Matcher, fault: Fault) -> Rule {
        self.shared.rules.add(matcher, fault)
    }

    /// Removes all rules; requests that are held or swallowed already stay so.
    pub fn clear_rules(&self) {
        self.shared.rules.clear();
    }

    /// Cuts all websockets.
    pub fn drop_sockets(&self) {
        cut(&self.shared.tunnels);
    }

    /// How many websockets are open.
    pub fn sockets(&self) -> usize {
        self.shared.open_tunnels.load(Ordering::SeqCst)
    }

    /// From now on, what `edit` gives for a text that the server sends on a websocket goes to the client in its place.
    pub fn edit_frames(&self, edit: impl Fn(String) -> Vec<String> + Send + Sync + 'static) {
        self.shared.frames.edit(Some(Arc::new(edit)));
    }

    /// What the client of each websocket said first, oldest first, where that was a short text.
    pub fn openings(&self) -> Vec<String> {
        self.shared.frames.openings()
    }

    /// Ends [`Proxy::edit_frames`].
    pub fn pass_frames(&self) {
        self.shared.frames.edit(None);
    }

    /// While `true`, websockets stay open and nothing comes out of them, pongs included; it comes afterwards.
    pub fn hold_frames(&self, hold: bool) {
        self.shared.frames.hold(hold);
    }

    /// Has all websockets of the moment say this, as if the server did.
    pub fn slip_frame(&self, frame: Frame) {
        self.shared.frames.slip(frame);
    }

    /// Closes all connections of the moment without another byte: running requests, watches and websockets.
    pub fn drop_connections(&self) {
        cut(&self.shared.connections);
        cut(&self.shared.tunnels);
    }

    /// While `true`, closes every connection, those that are open included, as if the server were gone.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refusing.store(refuse, Ordering::SeqCst);
        if refuse {
            self.drop_connections();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        self.drop_connections();
    }
}

/// Cancels the token of the moment and puts a fresh one in its place.
fn cut(token: &Mutex<CancellationToken>) {
    std::mem::take(&mut *lock(token)).cancel();
}

fn current(token: &Mutex<CancellationToken>) -> CancellationToken {
    lock(token).clone()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // The token is taken before the look at `refusing`: of two threads one sees the other.
        let cut = current(&shared.connections).child_token();
        if shared.refusing.load(Ordering::SeqCst) {
            continue;
        }
        // Small answers must not wait for more to send.
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let closed = cut.clone();
            let served = async {
                match shared.tls.acceptor() {
                    None => serve(&shared, cut, stream).await,
                    Some(acceptor) => {
                        // A client that does not trust us goes away.
                        if let Ok(stream) = acceptor.accept(stream).await {
                            serve(&shared, cut, stream).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = closed.cancelled() => {}
                () = served => {}
            }
        });
    }
}

/// Serves one connection until it ends; clients may go away at any time.
async fn serve(
    shared: &Arc<Shared>,
    cut: CancellationToken,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let service = service_fn(|request| forward::serve(Arc::clone(shared), cut.clone(), request));
    let mut server = http1::Builder::new();
    let connection = server
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let _ = connection.await;
}

fn connector(upstream: &Upstream) -> Result<HttpsConnector<HttpConnector>> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &upstream.ca_pem {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots
                .add(certificate.context("read the upstream's CA")?)
                .context("trust the upstream's CA")?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("set TLS up")?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http))
}
