//! Clients of a webhook port, as an API server is one: by HTTP/2 and HTTP/1.1, on connections that are kept and on new ones.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use axum::body::{Body, to_bytes};
use http::{HeaderValue, Request};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A webhook that looks at one object alone.
pub const PATH: &str = "/validate-garm-operator-mercedes-benz-com-v1beta1-githubendpoint";

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Several calls at once.
    Http2,
    /// One after the other.
    Http1,
}

/// Opens a connection; the server has to show a certificate for this name or address by one of these CAs.
pub async fn dial(
    address: SocketAddr,
    name: &str,
    ca_pem: &str,
    protocol: Protocol,
) -> Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.context("read the bundle")?)?;
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![match protocol {
        Protocol::Http2 => b"h2".to_vec(),
        Protocol::Http1 => b"http/1.1".to_vec(),
    }];
    let stream = TcpStream::connect(address).await.context("connect")?;
    let name = ServerName::try_from(name.to_owned()).context("the server's name")?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    connected.await.context("shake hands")
}

/// The certificate that is shown to somebody who trusts these CAs.
pub async fn shown(address: SocketAddr, ca_pem: &str) -> Result<CertificateDer<'static>> {
    let stream = dial(address, "127.0.0.1", ca_pem, Protocol::Http2).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let first = certificates.and_then(<[_]>::first);
    Ok(first.context("no certificate")?.clone().into_owned())
}

fn review() -> Request<Body> {
    let object = json!({
        "apiVersion": "garm-operator.mercedes-benz.com/v1beta1",
        "kind": "GitHubEndpoint",
        "metadata": { "name": "ghes", "namespace": "elsewhere", "uid": "u" },
        "spec": { "apiBaseUrl": "https://a.example", "uploadBaseUrl": "https://a.example", "baseUrl": "https://a.example" },
    });
    let kind = json!({ "group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "kind": "GitHubEndpoint" });
    let resource = json!({ "group": "garm-operator.mercedes-benz.com", "version": "v1beta1", "resource": "githubendpoints" });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "name": "ghes", "namespace": "elsewhere",
            "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "userInfo": { "username": "test" }, "object": object, "dryRun": true,
        },
    });
    let mut request = Request::new(Body::from(review.to_string()));
    *request.method_mut() = http::Method::POST;
    request
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("application/json"));
    request
}

/// A connection that is kept as long as the server allows it.
pub enum Kept {
    /// By HTTP/2.
    Http2(http2::SendRequest<Body>),
    /// By HTTP/1.1.
    Http1(http1::SendRequest<Body>),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an answer; the connection is good for more.
    Answered,
    /// With an answer, the last on this connection.
    AnsweredLast,
    /// It was not begun: the server had said goodbye before. Every client sends it again on a new connection.
    NotBegun,
}

impl Kept {
    /// Makes a connection ready for calls.
    pub async fn over(stream: TlsStream<TcpStream>, protocol: Protocol) -> Result<Self> {
        let io = TokioIo::new(stream);
        Ok(match protocol {
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                tokio::spawn(connection);
                Self::Http2(sender)
            }
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Self::Http1(sender)
            }
        })
    }

    /// Asks for a verdict.
    pub async fn call(&mut self) -> Result<Ended> {
        let mut request = review();
        let answer = match self {
            Self::Http2(sender) => {
                if sender.ready().await.is_err() {
                    return Ok(Ended::NotBegun);
                }
                *request.uri_mut() = format!("https://localhost{PATH}").parse()?;
                match sender.try_send_request(request).await {
                    Ok(answer) => answer,
                    Err(mut error) => {
                        let told = format!("{:?}", error.error());
                        let goodbye = told.contains("GoAway(b\"\", NO_ERROR, Remote)");
                        if goodbye || error.take_message().is_some() {
                            return Ok(Ended::NotBegun);
                        }
                        bail!("the call broke: {told}");
                    }
                }
            }
            Self::Http1(sender) => {
                sender.ready().await.context("the connection broke")?;
                *request.uri_mut() = PATH.parse()?;
                let host = HeaderValue::from_static("localhost");
                request.headers_mut().insert("host", host);
                sender
                    .send_request(request)
                    .await
                    .context("the call broke")?
            }
        };
        let is_last = answer.headers().contains_key("connection");
        ensure!(answer.status() == 200, "answered {}", answer.status());
        let body = to_bytes(Body::new(answer.into_body()), usize::MAX).await?;
        let body: Value = serde_json::from_slice(&body)?;
        ensure!(body["response"]["allowed"] == true, "{body}");
        Ok(if is_last {
            Ended::AnsweredLast
        } else {
            Ended::Answered
        })
    }
}
