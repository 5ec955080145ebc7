//! The reference: what the operator wrote, written again by a plain client into a fresh namespace and a fresh GARM.
//!
//! The writes of one object are made in their order, those of different objects over [`CONNECTIONS`] connections at once. What another
//! server gave a name of its own is put in its place: ids of GARM, uids and versions of objects, and the namespace. The client goes
//! through the same kind of proxies as the operator did, so that their cost is in both figures.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use garm_operator_ground::{Garm, proxy::Recorded};
use reqwest::{
    Client, Method,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    load::CONNECTIONS,
    stage::{Mark, Stage},
};

/// Stands for the version of an object in a recorded body.
const VERSION: &str = "@version@";
/// How long the client waits after GARM's 500, which v0.1.5 answers when its database is locked.
const PAUSE: Duration = Duration::from_millis(10);
/// How often it tries.
const TRIES: usize = 200;

/// What took the client how long.
#[derive(Debug)]
pub struct Replayed {
    /// From the first write to the last answer.
    pub took: Duration,
    /// How many writes.
    pub writes: usize,
    /// How often GARM answered 500.
    pub failures: usize,
}

/// The writes of one run, ready to be made again.
pub struct Script {
    /// What everything else in GARM needs: endpoints and credentials.
    first: Vec<Call>,
    chains: Vec<Vec<Call>>,
    made: HashSet<String>,
    namespace: String,
}

/// One write as it was recorded.
struct Call {
    to_garm: bool,
    method: Method,
    path: String,
    body: Option<String>,
    headers: HeaderMap,
    /// The object it writes, as in `pools/small`.
    object: String,
    /// The id that GARM gave to what it made.
    makes: Option<String>,
}

impl Script {
    /// What the operator of the stage wrote from one moment to another, events included.
    pub fn new(stage: &Stage<'_>, mark: Mark, until: Instant) -> Self {
        let writes = |requests: &[Recorded]| -> Vec<Recorded> {
            let succeeded = |one: &&Recorded| one.status.is_some_and(|status| status < 300);
            let all = requests.iter().filter(succeeded);
            all.filter(|one| (one.is_write() || one.is_event()) && one.at <= until)
                .cloned()
                .collect()
        };
        let garm = stage.garm.proxy().look(mark.garm, writes);
        let kube = stage.kube.look(mark.kube, writes);
        let mut made = HashSet::new();
        let mut calls = Vec::new();
        for (request, to_garm) in garm
            .into_iter()
            .map(|one| (one, true))
            .chain(kube.into_iter().map(|one| (one, false)))
        {
            let call = Call::new(&request, to_garm);
            made.extend(call.makes.clone());
            calls.push((request.at, call));
        }
        calls.sort_by_key(|(at, _)| *at);
        // An Event of before, which counts once more, is not there.
        let posts = calls.iter().filter(|(_, call)| call.method == Method::POST);
        let posted: HashSet<String> = posts.map(|(_, call)| call.object.clone()).collect();
        calls.retain(|(_, call)| {
            !call.object.starts_with("events/") || posted.contains(&call.object)
        });
        let (first, calls) = calls
            .into_iter()
            .map(|(_, call)| call)
            .partition(|call| call.to_garm && call.path.contains("/github/"));
        Self {
            first,
            chains: chains(calls, &made),
            made,
            namespace: stage.namespace.clone(),
        }
    }

    /// Writes everything again. `known` tells what stands for ids and uids that were there before; all objects that are not made by the
    /// script itself are there.
    pub async fn play(
        self,
        stage: &Stage<'_>,
        garm: &Garm,
        namespace: &str,
        known: HashMap<String, String>,
    ) -> Result<Replayed> {
        let mut ids: HashMap<String, watch::Sender<Option<String>>> = known
            .into_iter()
            .map(|(old, new)| (old, watch::channel(Some(new)).0))
            .collect();
        ids.extend(
            self.made
                .iter()
                .map(|old| (old.clone(), watch::channel(None).0)),
        );
        let mut versions = HashMap::new();
        for kind in ["Pool", "Repository", "GitHubCredential", "GitHubEndpoint"] {
            for object in stage.list(namespace, kind).await? {
                let plural = format!("{}s", kind.to_lowercase()).replace("ys", "ies");
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let version = object["metadata"]["resourceVersion"].as_str();
                versions.insert(
                    format!("{plural}/{name}"),
                    version.unwrap_or_default().to_owned(),
                );
            }
        }
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", garm.api().token().await?))?;
        bearer.set_sensitive(true);
        let writes = self.first.len() + self.chains.iter().map(Vec::len).sum::<usize>();
        let player = Arc::new(Player {
            chains: self.chains,
            next: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            ids,
            versions,
            namespaces: (self.namespace, namespace.to_owned()),
            kube: stage.kube.url(),
            garm: garm.url(),
            bearer,
        });
        let begun = Instant::now();
        player.write(&connection()?, &self.first).await?;
        let mut connections = JoinSet::new();
        for _ in 0..CONNECTIONS {
            connections.spawn(Arc::clone(&player).play());
        }
        while let Some(ended) = connections.join_next().await {
            ended??;
        }
        Ok(Replayed {
            took: begun.elapsed(),
            writes,
            failures: player.failures.load(Ordering::Relaxed),
        })
    }
}

impl Call {
    fn new(request: &Recorded, to_garm: bool) -> Self {
        let mut body = request.json();
        if let Some(version) = body.pointer_mut("/metadata/resourceVersion") {
            *version = VERSION.into();
        }
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (CONTENT_TYPE, &request.content_type),
            (ACCEPT, &request.accept),
        ] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        let answer = request.answer.as_deref().unwrap_or_default();
        let made = serde_json::from_slice::<Value>(answer).unwrap_or_default();
        let makes = made["id"].as_str().map(ToOwned::to_owned);
        let query = match request.query.as_str() {
            "" => String::new(),
            query => format!("?{query}"),
        };
        let object = match (&makes, to_garm) {
            (Some(id), _) => id.clone(),
            (None, true) => last_segment(&request.path),
            (None, false) => kube_object(request, &body),
        };
        Self {
            to_garm,
            method: request.method.clone(),
            path: format!("{}{query}", request.path),
            body: (!body.is_null()).then(|| body.to_string()),
            headers,
            object,
            makes,
        }
    }
}

fn last_segment(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Kind and name of the object of a path or, for one that is made, of its body.
fn kube_object(request: &Recorded, body: &Value) -> String {
    let path = request.path.trim_end_matches("/status");
    let in_namespace = path.split("/namespaces/").nth(1).unwrap_or(path);
    let object = in_namespace.split_once('/').map_or("", |(_, rest)| rest);
    match body["metadata"]["name"].as_str() {
        Some(name) if request.method == Method::POST => format!("{object}/{name}"),
        _ => object.to_owned(),
    }
}

/// Groups calls by what they write: an object, together with what it stands for in GARM, as its `status.id` tells.
fn chains(calls: Vec<Call>, made: &HashSet<String>) -> Vec<Vec<Call>> {
    let mut stands_for = HashMap::new();
    for call in calls.iter().filter(|call| !call.to_garm) {
        let body = call
            .body
            .as_deref()
            .and_then(|body| serde_json::from_str(body).ok());
        let body: Value = body.unwrap_or_default();
        if let Some(id) = body["status"]["id"].as_str()
            && made.contains(id)
        {
            stands_for.insert(id.to_owned(), call.object.clone());
        }
    }
    let mut places = HashMap::new();
    let mut chains: Vec<Vec<Call>> = Vec::new();
    for call in calls {
        let key = stands_for.get(&call.object).unwrap_or(&call.object);
        let place = *places.entry(key.clone()).or_insert_with(|| {
            chains.push(Vec::new());
            chains.len() - 1
        });
        chains[place].push(call);
    }
    chains
}

/// What the connections share.
struct Player {
    chains: Vec<Vec<Call>>,
    next: AtomicUsize,
    failures: AtomicUsize,
    /// What now stands for what was recorded; without a value until it is made.
    ids: HashMap<String, watch::Sender<Option<String>>>,
    versions: HashMap<String, String>,
    /// That of the records, and that of now.
    namespaces: (String, String),
    kube: String,
    garm: String,
    bearer: HeaderValue,
}

impl Player {
    /// Takes chain after chain. Those that wait for another's id come after it, so that somebody works on what is waited for.
    async fn play(self: Arc<Self>) -> Result<()> {
        let http = connection()?;
        while let Some(chain) = self.chains.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            self.write(&http, chain).await?;
        }
        Ok(())
    }

    /// Makes the writes of one object.
    async fn write(&self, http: &Client, chain: &[Call]) -> Result<()> {
        let mut version = None;
        for call in chain {
            let answer = self.make(http, call, version.as_deref()).await?;
            if call.to_garm {
                self.learn(call, &answer);
            } else {
                version = version_in(&answer).or(version);
            }
        }
        Ok(())
    }

    fn learn(&self, call: &Call, answer: &str) {
        let made = serde_json::from_str::<Value>(answer).unwrap_or_default();
        if let (Some(old), Some(new)) = (&call.makes, made["id"].as_str())
            && let Some(id) = self.ids.get(old)
        {
            id.send_replace(Some(new.to_owned()));
        }
    }

    async fn make(&self, http: &Client, call: &Call, version: Option<&str>) -> Result<String> {
        let path = self.put_in_place(&call.path).await;
        let mut headers = call.headers.clone();
        let server = if call.to_garm {
            headers.insert(AUTHORIZATION, self.bearer.clone());
            &self.garm
        } else {
            &self.kube
        };
        let body = match &call.body {
            Some(body) => {
                let known = self.versions.get(&call.object).map(String::as_str);
                let version = version.or(known).unwrap_or_default();
                Some(self.put_in_place(body).await.replace(VERSION, version))
            }
            None => None,
        };
        for _ in 0..TRIES {
            let mut request = http
                .request(call.method.clone(), format!("{server}{path}"))
                .headers(headers.clone());
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let answer = request.send().await.context("replay a write")?;
            let status = answer.status();
            let text = answer.text().await.context("replay a write")?;
            if status.is_success() {
                return Ok(text);
            }
            if !call.to_garm || status != 500 {
                bail!("replay {} {path}: {status}: {text}", call.method);
            }
            self.failures.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
        bail!("replay {} {path}: GARM answers 500 only", call.method);
    }

    /// A recorded text with all names of now; waits for those that are not made yet.
    async fn put_in_place(&self, text: &str) -> String {
        let (before, now) = &self.namespaces;
        let text = text.replace(before, now);
        let mut placed = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = next_uuid(rest) {
            let (old, after) = rest[start..].split_at(UUID);
            placed.push_str(&rest[..start]);
            match self.ids.get(old) {
                Some(id) => {
                    let mut id = id.subscribe();
                    // It ends with ourselves only.
                    let new = id.wait_for(Option::is_some).await.ok();
                    placed.push_str(new.as_ref().and_then(|new| new.as_deref()).unwrap_or(old));
                }
                None => placed.push_str(old),
            }
            rest = after;
        }
        placed.push_str(rest);
        placed
    }
}

/// One connection to each server.
fn connection() -> Result<Client> {
    let client = Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(1)
        .tcp_nodelay(true);
    client.build().context("make an HTTP client")
}

/// The length of a UUID as text.
const UUID: usize = 36;

/// Where the next UUID begins.
fn next_uuid(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_uuid = |window: &[u8]| {
        window.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    bytes.windows(UUID).position(is_uuid)
}

/// The version of the object that the API server answers with.
fn version_in(answer: &str) -> Option<String> {
    let (_, rest) = answer.split_once("\"resourceVersion\":\"")?;
    rest.split_once('"').map(|(version, _)| version.to_owned())
}
