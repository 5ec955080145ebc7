//! A client of webhooks as the API server is one: over TLS, on connections that stay open, on a thread of its own.

use std::{
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use garm_operator_ground::Certificates;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{net::TcpStream, runtime, sync::oneshot, task::JoinSet};
use tokio_rustls::TlsConnector;

/// Makes the body of the review of this number.
pub type Body = Arc<dyn Fn(usize) -> String + Send + Sync>;

/// What is asked, and how.
#[derive(Clone)]
pub struct Load {
    /// Where.
    pub address: SocketAddr,
    /// What the server shows.
    pub certificates: Certificates,
    /// The path of the webhook.
    pub path: &'static str,
    /// The status that is right.
    pub status: u16,
    /// What is asked.
    pub body: Body,
    /// Over how many connections.
    pub clients: usize,
    /// How often on each.
    pub each: usize,
    /// Time from one review of a connection to its next; zero: at once.
    pub pace: Duration,
}

impl Load {
    /// Asks everything; answers how long each answer took, in milliseconds, and the last answer.
    pub async fn run(self) -> Result<(Vec<f64>, String)> {
        let (send, receive) = oneshot::channel();
        // Clients and proxies of the benchmark share threads; these have one for themselves.
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime
                .map_err(anyhow::Error::from)
                .and_then(|runtime| runtime.block_on(self.all()));
            // Who no longer waits was interrupted.
            let _ = send.send(result);
        });
        receive.await.context("the thread of the clients")?
    }

    async fn all(self) -> Result<(Vec<f64>, String)> {
        let this = Arc::new(self);
        let mut clients = JoinSet::new();
        for client in 0..this.clients {
            clients.spawn(Arc::clone(&this).one(client));
        }
        let (mut times, mut last) = (Vec::new(), String::new());
        while let Some(ended) = clients.join_next().await {
            let (more, answer) = ended??;
            times.extend(more);
            last = answer;
        }
        Ok((times, last))
    }

    async fn one(self: Arc<Self>, client: usize) -> Result<(Vec<f64>, String)> {
        let mut sender = self.connect().await?;
        let share = self.pace / u32::try_from(self.clients)?;
        tokio::time::sleep(share * u32::try_from(client)?).await;
        let (mut times, mut last) = (Vec::with_capacity(self.each), String::new());
        for number in 0..self.each {
            let body = (self.body)(client * self.each + number);
            let request = Request::post(self.path)
                .header(HOST, "localhost")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(body)))?;
            let begun = Instant::now();
            let answer = sender.send_request(request).await?;
            let status = answer.status().as_u16();
            let text = answer.into_body().collect().await?.to_bytes();
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            ensure!(
                status == self.status,
                "{status}: {}",
                String::from_utf8_lossy(&text)
            );
            last = String::from_utf8_lossy(&text).into_owned();
            if !self.pace.is_zero() {
                tokio::time::sleep(self.pace.saturating_sub(begun.elapsed())).await;
            }
        }
        Ok((times, last))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(
            self.certificates.ca_pem.as_bytes(),
        )?)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| anyhow!("open an HTTP connection: {error}"))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}
