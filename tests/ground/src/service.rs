//! What a Service of Kubernetes does for a webhook.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

/// A probe that takes longer has failed, as with kubelet.
const PROBE: Duration = Duration::from_secs(1);

/// One address for several replicas: each new connection goes to one that is ready, in turn, and is closed when none is.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    replicas: Arc<Mutex<Replicas>>,
    accepting: AbortHandle,
}

#[derive(Debug, Default)]
struct Replicas {
    all: Vec<Replica>,
    turn: usize,
}

#[derive(Clone, Debug)]
struct Replica {
    ready_url: String,
    address: SocketAddr,
}

impl Service {
    /// Opens the address.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("open the address of the service")?;
        let address = listener.local_addr()?;
        let replicas = Arc::<Mutex<Replicas>>::default();
        let http = reqwest::Client::builder()
            .timeout(PROBE)
            .no_proxy()
            .build()
            .context("make an HTTP client")?;
        let accepting = tokio::spawn({
            let replicas = Arc::clone(&replicas);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(connect(client, http.clone(), Arc::clone(&replicas)));
                }
            }
        });
        Ok(Self {
            address,
            replicas,
            accepting: accepting.abort_handle(),
        })
    }

    /// A URL of the service, for TLS.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Adds a replica that serves at a port of this machine while `ready_url` answers with success.
    pub fn add(&self, ready_url: String, port: u16) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut replicas = lock(&self.replicas);
        replicas.all.push(Replica { ready_url, address });
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(replicas: &Mutex<Replicas>) -> std::sync::MutexGuard<'_, Replicas> {
    replicas.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a connection on, if there is one to pass it to.
async fn connect(mut client: TcpStream, http: reqwest::Client, replicas: Arc<Mutex<Replicas>>) {
    let candidates = {
        let mut replicas = lock(&replicas);
        let mut all = replicas.all.clone();
        let turn = replicas.turn % all.len().max(1);
        replicas.turn += 1;
        all.rotate_left(turn);
        all
    };
    for replica in candidates {
        let probe = http.get(&replica.ready_url).send().await;
        if probe.is_ok_and(|answer| answer.status().is_success())
            && let Ok(mut server) = TcpStream::connect(replica.address).await
        {
            // How it ends is told by what goes through.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}
