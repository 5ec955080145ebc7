//! Mixed load on a webhook port: through the API server and directly, on kept connections and on new ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use garm_operator::api::v1beta1::GitHubEndpoint;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::{Ended, Kept, Protocol, dial};

/// Clients at once.
const CLIENTS: usize = 20;

/// Between two calls of one client: the machine is shared.
const PAUSE: Duration = Duration::from_millis(40);

/// Load that runs until it is ended.
pub struct Load {
    end: CancellationToken,
    clients: JoinSet<Result<()>>,
    calls: Arc<AtomicUsize>,
}

impl Load {
    /// Starts all clients. The direct ones trust what `bundle` says at the moment; those of the API server what is stored there.
    pub fn start(
        address: SocketAddr,
        bundle: &watch::Receiver<String>,
        kube: &Client,
        namespace: &str,
    ) -> Self {
        let (end, calls) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let caller = Caller {
                address,
                bundle: bundle.clone(),
                end: end.clone(),
                calls: Arc::clone(&calls),
            };
            match number % 4 {
                0 => clients.spawn(caller.through(kube.clone(), namespace.to_owned(), number)),
                1 => clients.spawn(caller.keep(Protocol::Http2)),
                2 => clients.spawn(caller.keep(Protocol::Http1)),
                _ => clients.spawn(caller.renew()),
            };
        }
        Self {
            end,
            clients,
            calls,
        }
    }

    /// Fails as soon as a call has failed.
    pub async fn hold(&mut self, time: Duration) -> Result<()> {
        match tokio::time::timeout(time, self.clients.join_next()).await {
            Ok(Some(ended)) => ended?,
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Ends the load; answers how many calls there were, of which none failed.
    pub async fn finish(mut self) -> Result<usize> {
        self.end.cancel();
        while let Some(ended) = self.clients.join_next().await {
            ended??;
        }
        let calls = self.calls.load(Ordering::SeqCst);
        ensure!(calls > CLIENTS, "only {calls} calls");
        Ok(calls)
    }
}

/// One client.
struct Caller {
    address: SocketAddr,
    bundle: watch::Receiver<String>,
    end: CancellationToken,
    calls: Arc<AtomicUsize>,
}

impl Caller {
    async fn open(&self, protocol: Protocol) -> Result<Kept> {
        let bundle = self.bundle.borrow().clone();
        let stream = dial(self.address, "127.0.0.1", &bundle, protocol).await?;
        Kept::over(stream, protocol).await
    }

    async fn pause(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(PAUSE).await;
    }

    /// Keeps its connection while the server allows it.
    async fn keep(self, protocol: Protocol) -> Result<()> {
        while !self.end.is_cancelled() {
            let mut connection = self.open(protocol).await?;
            while !self.end.is_cancelled() && connection.call().await? == Ended::Answered {
                self.pause().await;
            }
        }
        Ok(())
    }

    /// Opens a connection for each call.
    async fn renew(self) -> Result<()> {
        let protocols = [Protocol::Http2, Protocol::Http1];
        for protocol in protocols.into_iter().cycle() {
            if self.end.is_cancelled() {
                break;
            }
            let ended = self.open(protocol).await?.call().await?;
            ensure!(ended != Ended::NotBegun, "a new connection said goodbye");
            self.pause().await;
        }
        Ok(())
    }

    /// Lets the API server ask, which keeps connections as it likes.
    async fn through(self, kube: Client, namespace: String, number: usize) -> Result<()> {
        let endpoints: Api<GitHubEndpoint> = Api::namespaced(kube, &namespace);
        let endpoint = serde_json::from_value(serde_json::json!({
            "apiVersion": "garm-operator.mercedes-benz.com/v1beta1",
            "kind": "GitHubEndpoint",
            "metadata": { "name": format!("load-{number}") },
            "spec": { "apiBaseUrl": "https://a.example", "uploadBaseUrl": "https://a.example", "baseUrl": "https://a.example" },
        }))?;
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        while !self.end.is_cancelled() {
            endpoints.create(&dry, &endpoint).await?;
            self.pause().await;
        }
        Ok(())
    }
}
