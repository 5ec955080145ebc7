//! A control plane whose kinds are converted by our webhook.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use axum::routing::post;
use garm_operator::admission::convert::review;
use garm_operator::generate::crds;
use garm_operator_ground::{Authority, ControlPlane, ConversionEndpoint, Ground};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A control plane with our CRDs, and what converts their objects.
pub struct Converting {
    /// The servers.
    pub plane: ControlPlane,
    /// The webhook.
    pub endpoint: ConversionEndpoint,
}

/// The one that tests share which do nothing to the CRDs.
pub async fn converting(ground: &Ground) -> Result<&'static Converting> {
    static SHARED: OnceCell<Converting> = OnceCell::const_new();
    let start = async || {
        let plane =
            ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
        let endpoint = serve().await?;
        plane
            .install_crds(crds::definitions(), Some(&endpoint))
            .await?;
        anyhow::Ok(Converting { plane, endpoint })
    };
    SHARED.get_or_try_init(start).await
}

/// Serves `/convert` until the tests end.
pub async fn serve() -> Result<ConversionEndpoint> {
    let authority = Authority::new()?;
    let certificate = authority.issue()?;
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificate.certificate_pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes())?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain?, key)?;
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("https://{}/convert", tcp.local_addr()?);
    let listener = Listener {
        tcp,
        acceptor: TlsAcceptor::from(Arc::new(config)),
    };
    let router = Router::new().route(
        "/convert",
        post(async |body: Bytes| {
            let (status, body) = review(&body);
            (status, [(CONTENT_TYPE, "application/json")], body).into_response()
        }),
    );
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(ConversionEndpoint {
        url,
        ca_pem: authority.pem().to_owned(),
    })
}

struct Listener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.tcp.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// A client that trusts the webhook.
pub fn client(endpoint: &ConversionEndpoint) -> Result<reqwest::Client> {
    let ca = reqwest::Certificate::from_pem(endpoint.ca_pem.as_bytes())?;
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([ca])
        .build()
        .context("make a client")
}
