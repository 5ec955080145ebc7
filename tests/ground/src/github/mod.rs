//! A fake GitHub, as an Enterprise Server shows itself to GARM.
//!
//! It knows runners, hooks and runner groups of repositories, organizations and enterprises, and believes every token until told
//! otherwise. A counting proxy stands in front of it, so every fault of [`crate::proxy`] can be played on GARM's calls as well.

mod routes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::proxy::{Dialect, Proxy, Upstream};

/// A running fake GitHub; it ends with the value.
#[derive(Debug)]
pub struct FakeGithub {
    state: Arc<State>,
    proxy: Proxy,
    stop: CancellationToken,
}

/// A runner as GitHub knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubRunner {
    /// Where it is registered, as in `repos/OWNER/NAME`, `orgs/NAME` or `enterprises/NAME`.
    pub scope: String,
    /// Its id, which is GARM's `agent_id`.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its labels, GARM's own included.
    pub labels: Vec<String>,
    /// Whether it is connected.
    pub online: bool,
    /// Whether it runs a job; GitHub refuses to delete a busy one.
    pub busy: bool,
}

impl GithubRunner {
    fn to_json(&self) -> Value {
        let labels = self
            .labels
            .iter()
            .map(|name| json!({ "id": 0, "name": name, "type": "custom" }));
        json!({
            "id": self.id,
            "name": self.name,
            "os": "linux",
            "status": if self.online { "online" } else { "offline" },
            "busy": self.busy,
            "labels": labels.collect::<Vec<_>>(),
        })
    }
}

#[derive(Debug, Default)]
struct State(Mutex<Inner>);

/// What the runners do on GitHub; clones share it with the [`FakeGithub`] it is from.
#[derive(Clone, Debug)]
pub(crate) struct SharedGithub(Arc<State>);

impl SharedGithub {
    pub fn runner(&self, name: &str) -> Option<GithubRunner> {
        self.0.with(|state| {
            state
                .runners
                .values()
                .find(|runner| runner.name == name)
                .cloned()
        })
    }

    /// Registers a runner as a machine without a just-in-time configuration does; returns the one of that name if there is one.
    pub fn register_runner(&self, scope: &str, name: &str, labels: &[String]) -> GithubRunner {
        self.0.with(|state| {
            let existing = state.find_runner(scope, name).cloned();
            existing.unwrap_or_else(|| state.add_runner(scope, name, labels))
        })
    }

    pub fn set_online(&self, name: &str, online: bool) {
        self.change_runner(name, |runner| runner.online = online);
    }

    fn change_runner(&self, name: &str, change: impl FnOnce(&mut GithubRunner)) {
        self.0.with(|state| {
            state
                .runners
                .values_mut()
                .find(|runner| runner.name == name)
                .map(change)
        });
    }
}

#[derive(Debug, Default)]
struct Inner {
    last_id: u64,
    runners: BTreeMap<u64, GithubRunner>,
    /// Hooks by scope and id.
    hooks: BTreeMap<(String, u64), Value>,
    refused_tokens: BTreeSet<String>,
    delay: Duration,
    fail_jitconfig: bool,
}

impl Inner {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn find_runner(&self, scope: &str, name: &str) -> Option<&GithubRunner> {
        self.runners
            .values()
            .find(|runner| runner.scope == scope && runner.name == name)
    }

    fn add_runner(&mut self, scope: &str, name: &str, labels: &[String]) -> GithubRunner {
        let id = self.next_id();
        let (scope, name, labels) = (scope.to_owned(), name.to_owned(), labels.to_vec());
        let runner = GithubRunner {
            scope,
            id,
            name,
            labels,
            online: false,
            busy: false,
        };
        self.runners.insert(id, runner.clone());
        runner
    }
}

impl State {
    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FakeGithub {
    /// Starts a fake GitHub on ephemeral loopback ports.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("bind the fake GitHub")?;
        let address = listener
            .local_addr()
            .context("find the fake GitHub's port")?;
        let state = Arc::new(State::default());
        let stop = CancellationToken::new();
        let served = axum::serve(listener, routes::router(Arc::clone(&state)));
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                // It ends with the listener only.
                _ = served.into_future() => {}
            }
        });
        let proxy = Proxy::start(
            Dialect::Github,
            Upstream::plain(format!("http://{address}")),
        )
        .await?;
        Ok(Self { state, proxy, stop })
    }

    /// The address: base, API and upload URL of a GARM endpoint at once.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The proxy in front: counts requests (as in `GET /repos/{owner}/{repo}/actions/runners`) and plays faults.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Answers 401 to this token from now on.
    pub fn refuse_token(&self, token: &str) {
        self.state
            .with(|state| state.refused_tokens.insert(token.to_owned()));
    }

    /// Believes this token again.
    pub fn accept_token(&self, token: &str) {
        self.state.with(|state| state.refused_tokens.remove(token));
    }

    /// Takes this long for every answer from now on.
    pub fn delay(&self, time: Duration) {
        self.state.with(|state| state.delay = time);
    }

    /// While `true`, answers 500 when asked for a just-in-time runner.
    pub fn fail_jitconfig(&self, fail: bool) {
        self.state.with(|state| state.fail_jitconfig = fail);
    }

    /// While `true`, closes every connection.
    pub fn unreachable(&self, unreachable: bool) {
        self.proxy.refuse(unreachable);
    }

    /// All runners.
    pub fn runners(&self) -> Vec<GithubRunner> {
        self.state
            .with(|state| state.runners.values().cloned().collect())
    }

    /// The runner of this name.
    pub fn runner(&self, name: &str) -> Option<GithubRunner> {
        self.runners()
            .into_iter()
            .find(|runner| runner.name == name)
    }

    /// Shows a runner as connected or not.
    pub fn set_online(&self, name: &str, online: bool) {
        self.share().set_online(name, online);
    }

    /// Shows a runner as busy or not; a busy one cannot be deleted (422).
    pub fn set_busy(&self, name: &str, busy: bool) {
        self.share()
            .change_runner(name, |runner| runner.busy = busy);
    }

    /// Takes a runner away, as GitHub does with an ephemeral one after its job.
    pub fn remove_runner(&self, name: &str) {
        self.state
            .with(|state| state.runners.retain(|_, runner| runner.name != name));
    }

    /// The hooks of a scope such as `repos/OWNER/NAME`.
    pub fn hooks(&self, scope: &str) -> Vec<Value> {
        self.state.with(|state| {
            let hooks = state.hooks.iter().filter(|((owner, _), _)| owner == scope);
            hooks.map(|(_, hook)| hook.clone()).collect()
        })
    }

    /// Takes all hooks of a scope away, as an administrator of GitHub may.
    pub fn remove_hooks(&self, scope: &str) {
        self.state
            .with(|state| state.hooks.retain(|(owner, _), _| owner != scope));
    }

    /// What the runners need of it.
    pub(crate) fn share(&self) -> SharedGithub {
        SharedGithub(Arc::clone(&self.state))
    }
}

impl Drop for FakeGithub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
