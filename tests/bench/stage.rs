//! The servers of one run: a control plane, a GARM and counting proxies of its own, and the operator as a process.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use garm_operator::api::v1beta1::{
    GitHubCredential, GitHubEndpoint, Image, Pool, Repository, Runner,
};
use garm_operator::generate::crds;
use garm_operator_ground::{
    ControlPlane, Garm, GarmOptions, Ground, Operator, OperatorCommand,
    documents::is_ready,
    poll::Patience,
    proxy::{Proxy, Recorded},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
    discovery::ApiResource,
};
use serde_json::Value;

use crate::{load, objects, options::Settings};

/// How long anything may take; generous, as sizes are settable.
const LIMIT: Duration = Duration::from_secs(900);
/// Nothing has to be quicker to be noticed: times are taken from the records of the proxies.
const LOOK: Duration = Duration::from_millis(20);
/// How long the operator may take to start and to end.
const PROCESS_LIMIT: Duration = Duration::from_secs(30);

/// The servers of one run.
pub struct Stage<'a> {
    /// Where they are from.
    pub ground: &'a Ground,
    /// The control plane.
    pub plane: ControlPlane,
    /// What stands between the operator and the API server.
    pub kube: Proxy,
    /// The GARM, with what stands before it.
    pub garm: Garm,
    /// Where all objects are.
    pub namespace: String,
    /// What is measured, and how much of everything.
    pub settings: &'a Settings,
}

/// A moment in the records of both proxies.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// In those before GARM.
    pub garm: usize,
    /// In those before the API server.
    pub kube: usize,
}

impl<'a> Stage<'a> {
    /// Starts all servers, with our CRDs and an empty namespace.
    pub async fn new(ground: &'a Ground, settings: &'a Settings) -> Result<Self> {
        let plane =
            ControlPlane::start(ground.servers(), ground.guard(), ground.directory()).await?;
        plane.install_crds(crds::definitions(), None).await?;
        let garm = fresh_garm(ground, settings).await?;
        Ok(Self {
            kube: plane.proxy().await?,
            namespace: plane.create_namespace("bench").await?,
            ground,
            plane,
            garm,
            settings,
        })
    }

    /// Ends the servers.
    pub async fn end(self) -> Result<()> {
        self.garm.kill().await?;
        self.plane.stop().await
    }

    /// The command that runs the operator on the namespace, with Runner objects.
    pub fn command(&self) -> Result<OperatorCommand> {
        Ok(self
            .bare_command()?
            .argument("--operator-runner-reconciliation=true"))
    }

    /// The same with all defaults.
    pub fn bare_command(&self) -> Result<OperatorCommand> {
        let operator = self.settings.operator.clone();
        Ok(self
            .ground
            .operator(operator.context("no operator to measure")?)
            .kubernetes(&self.kube)
            .garm(&self.garm)
            .namespace(&self.namespace))
    }

    /// Starts the operator and waits until it serves.
    pub async fn operator(&self) -> Result<Operator> {
        self.start(&self.command()?).await
    }

    /// Starts a command and waits until it serves.
    pub async fn start(&self, command: &OperatorCommand) -> Result<Operator> {
        let mut operator = command.start()?;
        operator.wait_ready(PROCESS_LIMIT).await?;
        Ok(operator)
    }

    /// Ends an operator in good order.
    pub async fn stop(&self, mut operator: Operator) -> Result<()> {
        let status = operator.terminate(PROCESS_LIMIT).await?;
        if self.settings.timeline {
            eprintln!("the operator's log:\n{}", operator.stderr());
        }
        ensure!(
            status.success(),
            "the operator ended with {status}:\n{}",
            operator.stderr()
        );
        Ok(())
    }

    /// The objects of a kind in a namespace, past the proxy.
    pub fn objects(&self, namespace: &str, kind: &str) -> Result<Api<DynamicObject>> {
        let resource = match kind {
            "GitHubEndpoint" => ApiResource::erase::<GitHubEndpoint>(&()),
            "GitHubCredential" => ApiResource::erase::<GitHubCredential>(&()),
            "Repository" => ApiResource::erase::<Repository>(&()),
            "Image" => ApiResource::erase::<Image>(&()),
            "Pool" => ApiResource::erase::<Pool>(&()),
            "Runner" => ApiResource::erase::<Runner>(&()),
            "Secret" => ApiResource::erase::<Secret>(&()),
            other => bail!("the benchmark does not know the kind {other}"),
        };
        Ok(Api::namespaced_with(
            self.plane.client(),
            namespace,
            &resource,
        ))
    }

    /// Creates objects in a namespace, as a plain client does.
    pub async fn create(&self, namespace: &str, objects: &[Value]) -> Result<()> {
        load::each(objects, async |object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            let wanted = serde_json::from_value(object.clone())?;
            let api = self.objects(namespace, kind)?;
            api.create(&PostParams::default(), &wanted)
                .await
                .with_context(|| format!("create {kind} {}", object["metadata"]["name"]))?;
            Ok(())
        })
        .await
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Value>> {
        let list = self
            .objects(namespace, kind)?
            .list(&ListParams::default())
            .await?;
        let values = list.items.into_iter().map(serde_json::to_value);
        Ok(values.collect::<Result<_, _>>()?)
    }

    /// Creates what Pools need, and waits until the operator has made it and GARM works on it.
    pub async fn prepare(&self, repositories: usize) -> Result<()> {
        let foundation = objects::foundation(&self.garm.github().url(), repositories);
        self.create(&self.namespace, &foundation).await?;
        let patience = Patience::new(LIMIT, "all repositories are Ready");
        loop {
            let all = self.list(&self.namespace, "Repository").await?;
            let ready = all.iter().filter(|object| is_ready(object));
            let ready = ready.count();
            if ready == repositories {
                return self.calm(Duration::from_secs(2)).await.map(drop);
            }
            patience.pause(format!("{ready} of {repositories}")).await?;
        }
    }

    /// Marks this moment in the records of both proxies.
    pub fn mark(&self) -> Mark {
        Mark {
            garm: self.garm.proxy().mark(),
            kube: self.kube.mark(),
        }
    }

    /// Tells what was asked and written in each second since the mark, if that is wanted.
    pub fn tell(&self, mark: Mark) {
        if !self.settings.timeline {
            return;
        }
        let requests = self.garm.proxy().since(mark.garm).into_iter();
        let all: Vec<Recorded> = requests.chain(self.kube.since(mark.kube)).collect();
        let begun = all.iter().map(|one| one.at).min();
        let mut seconds: BTreeMap<(u64, String), (usize, Duration)> = BTreeMap::new();
        for one in all {
            let second = begun.map_or(0, |begun| one.at.duration_since(begun).as_secs());
            let status = one
                .status
                .map_or_else(|| "-".to_owned(), |status| status.to_string());
            let line = seconds
                .entry((second, format!("{} {status}", one.route)))
                .or_default();
            line.0 += 1;
            line.1 += one.took().unwrap_or_default();
        }
        for ((second, what), (number, took)) in seconds {
            eprintln!("{second:>5} s {number:>6} x {what}, {took:?} in all");
        }
    }

    /// Waits until the operator has asked nobody for anything for this long; answers when it did last. Watches and the events socket stay
    /// open and are renewed, and the lease is no work.
    pub async fn calm(&self, time: Duration) -> Result<Instant> {
        let begun = Instant::now();
        let patience = Patience::new(LIMIT, "the operator rests").every(LOOK);
        loop {
            let last = last_work(self.garm.proxy()).max(last_work(&self.kube));
            let last = last.unwrap_or(begun);
            if last.max(begun).elapsed() >= time {
                return Ok(last);
            }
            patience.pause("it does not").await?;
        }
    }

    /// Waits until the operator has shown so many Pools as Ready since the mark; answers when the last of these writes was answered.
    pub async fn all_ready(&self, mark: Mark, pools: usize) -> Result<Instant> {
        let patience = Patience::new(LIMIT, "all Pools are Ready").every(LOOK);
        let looked = RefCell::new(HashSet::new());
        let mut ready = HashMap::new();
        loop {
            let new = self.kube.look(mark.kube, |requests| {
                let writes = requests.iter().filter(|request| {
                    request.route == "PATCH /pools/{name}/status" && request.status == Some(200)
                });
                let new = writes.filter(|write| looked.borrow_mut().insert(write.seq));
                new.cloned().collect::<Vec<Recorded>>()
            });
            for write in new {
                if is_ready(&write.json())
                    && let Some(answered) = write.answered_at
                {
                    ready.insert(write.path, answered);
                }
            }
            match ready.values().max() {
                Some(last) if ready.len() == pools => return Ok(*last),
                _ => {
                    patience
                        .pause(format!("{} of {pools}", ready.len()))
                        .await?;
                }
            }
        }
    }

    /// Waits until so many Runners have got a status since the mark; answers when the last was written.
    pub async fn all_shown(&self, mark: Mark, runners: usize) -> Result<Instant> {
        let patience = Patience::new(LIMIT, "all Runners have a status");
        loop {
            let shown: HashMap<String, Instant> = self.kube.look(mark.kube, |requests| {
                let writes = requests.iter().filter(|one| {
                    one.route == "PATCH /runners/{name}/status" && one.status == Some(200)
                });
                writes
                    .filter_map(|one| Some((one.path.clone(), one.answered_at?)))
                    .collect()
            });
            match shown.values().max() {
                Some(last) if shown.len() == runners => return Ok(*last),
                _ => {
                    patience
                        .pause(format!("{} of {runners}", shown.len()))
                        .await?;
                }
            }
        }
    }
}

/// A GARM that logs as in production.
pub async fn fresh_garm(ground: &Ground, settings: &Settings) -> Result<Garm> {
    let options = GarmOptions {
        log_level: "info",
        ..GarmOptions::default()
    };
    ground.garm_with(settings.garm, options).await
}

/// When the last request of a proxy came that is work.
fn last_work(proxy: &Proxy) -> Option<Instant> {
    proxy.look(0, |requests| {
        requests
            .iter()
            .rfind(|request| is_work(request))
            .map(|request| request.answered_at.unwrap_or_else(Instant::now))
    })
}

/// Whether a request is more than staying connected.
pub fn is_work(request: &Recorded) -> bool {
    !request.query.contains("watch=true")
        && !request.route.contains("/ws/")
        && !request.route.contains("/leases")
}
