//! Instances of GARM and the Runner objects that show them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use futures::{SinkExt as _, StreamExt as _};
use garm_operator_ground::{Garm, Ground, proxy::Recorded};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest as _};

use crate::{
    figures::{Figure, Goal, count, percentile},
    fleet::{Fleet, wait_idle},
    options::Settings,
    reference::{Before, replay},
    replay::Script,
    stage::Stage,
};

const RUNNERS: usize = 1000;
const SIZES: [usize; 2] = [40, 1000];
const CHANGES: usize = 100;

/// How many are replaced at once: more would measure GARM's bursts.
const AT_ONCE: usize = 4;

/// An operator that sees many idle runners for the first time, until all have their objects.
pub async fn mirror(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let fleet = Fleet::of(settings.runners.unwrap_or(RUNNERS));
    let stage = Stage::new(ground, settings).await?;
    let without = stage
        .bare_command()?
        .argument("--operator-runner-reconciliation=false");
    let operator = fleet.make(&stage, &without).await?;
    stage.stop(operator).await?;

    let mark = stage.mark();
    let begun = Instant::now();
    let operator = stage.operator().await?;
    let last = stage.all_shown(mark, fleet.runners()).await?;
    stage.calm(Duration::from_secs(6)).await?;
    stage.stop(operator).await?;
    stage.tell(mark);
    let took = last.duration_since(begun).as_secs_f64();
    let writes = stage.kube.writes_since(mark.kube).len();
    let reads = stage.garm.proxy().since(mark.garm).len();
    let script = Script::new(&stage, mark, last);
    let before = Before {
        repositories: fleet.repositories,
        pools: &fleet.objects(),
        is_filled: true,
        with_status: &[],
    };
    let replayed = replay(&stage, script, before).await?;
    stage.end().await?;
    Ok(vec![
        Figure::new("all Runners with status", "s", took)
            .beside(replayed.took.as_secs_f64())
            .goal(Goal::Speed(0.6)),
        Figure::new(
            "writes to Kubernetes per runner",
            "",
            count(writes) / count(fleet.runners()),
        ),
        Figure::new(
            "requests to GARM per runner",
            "",
            count(reads) / count(fleet.runners()),
        ),
        Figure::new("writes replayed", "", count(replayed.writes)),
    ])
}

/// An instance appears, changes, goes: how soon its object shows it.
pub async fn runners(ground: &Ground, settings: &Settings) -> Result<Vec<Figure>> {
    let chosen = settings
        .runners
        .map_or_else(|| SIZES.to_vec(), |one| vec![one]);
    let mut figures = Vec::new();
    for runners in chosen {
        figures.extend(at(ground, settings, Fleet::of(runners)).await?);
    }
    Ok(figures)
}

async fn at(ground: &Ground, settings: &Settings, fleet: Fleet) -> Result<Vec<Figure>> {
    let stage = Stage::new(ground, settings).await?;
    let operator = fleet.make(&stage, &stage.command()?).await?;
    let listener = Listener::start(&stage.garm).await?;
    let wanted = settings.changes.unwrap_or(CHANGES);
    let mut replaced = HashSet::new();
    while listener.changes() < wanted {
        replace(&stage, fleet, &mut replaced).await?;
    }
    stage.calm(Duration::from_secs(6)).await?;
    let delays = delays(&listener.told(), &stage.kube.requests());
    stage.stop(operator).await?;
    stage.end().await?;
    let size = fleet.runners();
    let all: Vec<f64> = delays.values().flatten().copied().collect();
    let mut figures = vec![
        Figure::new(format!("at {size}: p50"), "ms", percentile(&all, 50.0)),
        Figure::new(format!("at {size}: p99"), "ms", percentile(&all, 99.0))
            .goal(Goal::AtMost(100.0)),
        Figure::new(format!("at {size}: changes"), "", count(all.len())),
    ];
    figures.extend(delays.iter().map(|(what, delays)| {
        let name = format!("at {size}: {what} p99");
        Figure::new(name, "ms", percentile(delays, 99.0))
    }));
    Ok(figures)
}

/// Deletes a few idle runners of different repositories, and waits until GARM has made others.
async fn replace(stage: &Stage<'_>, fleet: Fleet, replaced: &mut HashSet<String>) -> Result<()> {
    let github = stage.garm.github();
    let mut scopes = HashSet::new();
    let mut some = github.runners();
    some.retain(|one| !replaced.contains(&one.name) && scopes.insert(one.scope.clone()));
    if some.is_empty() {
        bail!("no runner is left to be replaced");
    }
    for runner in some.iter().take(AT_ONCE) {
        replaced.insert(runner.name.clone());
        let path = format!("/instances/{}", runner.name);
        stage.garm.api().delete(&path).await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    wait_idle(stage, fleet.runners()).await
}

/// What GARM tells of one instance.
#[derive(Clone, Debug)]
struct Told {
    at: Instant,
    name: String,
    state: State,
}

/// The states of machine and runner; `None` when there is no such instance any more.
type State = Option<(String, String)>;

/// Listens on GARM's events socket, as anybody may.
struct Listener {
    told: Arc<Mutex<Vec<Told>>>,
    task: AbortHandle,
}

impl Listener {
    async fn start(garm: &Garm) -> Result<Self> {
        let url = format!("{}/api/v1/ws/events", garm.direct_url()).replace("http://", "ws://");
        let mut request = url.into_client_request()?;
        let bearer = format!("Bearer {}", garm.api().token().await?);
        request
            .headers_mut()
            .insert("Authorization", bearer.parse()?);
        let (mut socket, _) = tokio_tungstenite::connect_async(request)
            .await
            .context("open the events socket")?;
        let everything = json!({"send-everything": true}).to_string();
        socket.send(Message::text(everything)).await?;
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let task = tokio::spawn({
            let told = Arc::clone(&told);
            async move {
                while let Some(Ok(message)) = socket.next().await {
                    let at = Instant::now();
                    if let Message::Text(text) = message
                        && let Some(event) = instance_event(at, &text)
                    {
                        told.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(event);
                    }
                }
            }
        });
        Ok(Self {
            told,
            task: task.abort_handle(),
        })
    }

    fn told(&self) -> Vec<Told> {
        let told = self.told.lock();
        told.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many changes of state were told.
    fn changes(&self) -> usize {
        by_instance(&self.told()).values().map(Vec::len).sum()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn instance_event(at: Instant, text: &str) -> Option<Told> {
    let event: Value = serde_json::from_str(text).ok()?;
    let payload = &event["payload"];
    let word = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
    let is_gone = event["operation"] == "delete";
    (event["entity-type"] == "instance").then(|| Told {
        at,
        name: word("name"),
        state: (!is_gone).then(|| (word("status"), word("runner_status"))),
    })
}

/// The changes of state of each instance, oldest first.
fn by_instance(told: &[Told]) -> BTreeMap<String, Vec<(Instant, State)>> {
    let mut all: BTreeMap<String, Vec<(Instant, State)>> = BTreeMap::new();
    for one in told {
        let states = all.entry(one.name.clone()).or_default();
        if states.last().is_none_or(|(_, last)| *last != one.state) {
            states.push((one.at, one.state.clone()));
        }
    }
    all
}

/// How long each change took to be shown, in milliseconds, by what it was. A state that was over before it could be written counts as shown
/// by the next one that is.
fn delays(told: &[Told], requests: &[Recorded]) -> BTreeMap<&'static str, Vec<f64>> {
    let shown = shown(requests);
    let mut delays: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (name, changes) in by_instance(told) {
        let mut next = 0;
        let empty = Vec::new();
        for (answered, state) in shown.get(&name).unwrap_or(&empty) {
            let found = changes[next..].iter().position(|(_, told)| told == state);
            let Some(found) = found else { continue };
            for (at, told) in &changes[next..=next + found] {
                let what = match told {
                    None => "goes",
                    Some((status, _)) if status == "pending_create" => "appears",
                    Some(_) => "changes",
                };
                let delay = answered.saturating_duration_since(*at);
                let delays = delays.entry(what).or_default();
                delays.push(delay.as_secs_f64() * 1000.0);
            }
            next += found + 1;
        }
        for _ in next..changes.len() {
            delays.entry("never").or_default().push(f64::INFINITY);
        }
    }
    delays
}

/// What the objects showed of each instance, and since when.
fn shown(requests: &[Recorded]) -> HashMap<String, Vec<(Instant, State)>> {
    let mut statuses: HashMap<String, Value> = HashMap::new();
    let mut shown: HashMap<String, Vec<(Instant, State)>> = HashMap::new();
    for request in requests {
        let (Some(answered), Some(200)) = (request.answered_at, request.status) else {
            continue;
        };
        let object = request.path.trim_end_matches("/status").to_owned();
        let status = statuses.entry(object).or_default();
        let state = match request.route.as_str() {
            "PATCH /runners/{name}/status" => {
                let body = request.json();
                for (key, value) in body["status"].as_object().into_iter().flatten() {
                    status[key] = value.clone();
                }
                let word = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
                Some((word("instanceStatus"), word("status")))
            }
            "DELETE /runners/{name}" => None,
            _ => continue,
        };
        let name = status["name"].as_str().unwrap_or_default().to_owned();
        shown.entry(name).or_default().push((answered, state));
    }
    shown
}
