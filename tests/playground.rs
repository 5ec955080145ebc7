//! A playground: a real control plane and a real GARM with fakes around it, the operator between them, and some objects.
//!
//! `cargo run --example playground` stays up for you to try things; `-- --once` shows that all becomes ready, cleans up and ends.
#![expect(clippy::print_stdout, reason = "it is there to show something")]

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use garm_operator::cli::{self, Task};
use garm_operator::generate::crds;
use garm_operator::generate::webhooks::{self, CaBundle};
use garm_operator_ground::{
    Certificates, ControlPlane, ConversionEndpoint, Garm, Ground, Job, Operator, Owner,
    poll::Patience,
    servers::{GarmVersion, Server},
    webhooks_at,
};
use serde_json::Value;
use tokio::sync::mpsc;

/// Makes another process of this executable the operator: an example has no other program at hand.
const OPERATOR: &str = "GARM_OPERATOR_PLAYGROUND";

const NAMESPACE: &str = "playground";
const SAMPLES: &str = include_str!("../manifests/samples/all.yaml");
/// As in the samples.
const WEBHOOK_SECRET: &str = "a-webhook-secret";

/// The kinds that show whether they are ready.
const WITH_CONDITIONS: &str =
    "garmserverconfigs,githubendpoints,githubcredentials,repositories,pools";
/// What is shown when everything is ready.
const SHOWN: [&str; 7] = [
    "garmserverconfigs",
    "githubendpoints",
    "githubcredentials",
    "repositories",
    "images",
    "pools",
    "runners",
];

/// How long everything may take to become ready: GARM itself takes 10 to 15 s to make a runner.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Real etcd, kube-apiserver, kube-controller-manager and GARM, the operator, and some objects to play with.
#[derive(Debug, Parser)]
#[command(name = "playground")]
struct Options {
    /// Show everything ready, clean up and end; the exit code tells whether it worked.
    #[arg(long)]
    once: bool,
    /// GARM's version: v0.1.5 or v0.2.1.
    #[arg(long, default_value = "v0.2.1")]
    garm: GarmVersion,
}

fn main() -> ExitCode {
    garm_operator_ground::entry();
    if std::env::var_os(OPERATOR).is_some() {
        match cli::parse(std::env::args_os(), std::env::vars_os()) {
            Task::Exit(code) => code,
            Task::Run(config) => garm_operator_ground::run(garm_operator::run::run(*config)),
        }
    } else {
        garm_operator_ground::run(play(Options::parse()))
    }
}

/// Brings everything up and ends it, whatever happens in between.
async fn play(options: Options) -> Result<()> {
    let started = Instant::now();
    let played = Ground::play(options.garm, async |ground| {
        scene(ground, &options, started).await
    });
    played.await.map(drop)
}

async fn scene(ground: &Ground, options: &Options, started: Instant) -> Result<()> {
    let say = |text: &str| println!("[{:5.1} s] {text}", started.elapsed().as_secs_f32());
    let plane = ground.control_plane().await?;
    say("Kubernetes is up");
    let garm = ground.garm(options.garm).await?;
    say(&format!(
        "GARM {} is up, with a fake GitHub and a fake provider",
        garm.version()
    ));
    plane.install_crds(crds::definitions(), None).await?;
    plane
        .kubectl_ok(&["create", "namespace", NAMESPACE], "")
        .await?;
    let proxy = plane.proxy().await?;
    let certificates = Certificates::new()?;
    let folder = ground.directory().join("certificates");
    std::fs::create_dir_all(&folder).context("make a folder for certificates")?;
    std::fs::write(folder.join("tls.crt"), &certificates.certificate_pem)?;
    std::fs::write(folder.join("tls.key"), &certificates.key_pem)?;
    let mut operator = ground
        .operator(
            std::env::current_exe().context("find this executable, which also is the operator")?,
        )
        .variable(OPERATOR, "1")
        .kubernetes(&proxy)
        .garm(&garm)
        .webhooks()
        .argument("--operator-webhook-cert-dir")
        .argument(folder)
        .argument("--operator-runner-reconciliation=true")
        .start()?;
    operator.wait_ready(Duration::from_secs(30)).await?;
    ask_webhooks(plane, &operator, &certificates).await?;
    say("the operator is up, and the API server asks it");

    let samples = SAMPLES
        .replace("https://github.example.com", &garm.github().url())
        .replace("http://garm.example.com:9997", &garm.direct_url());
    plane
        .kubectl_ok(&["-n", NAMESPACE, "apply", "-f", "-"], &samples)
        .await?;
    say("the samples are applied");
    wait_ready(plane, &mut operator).await?;
    say("everything is ready:\n");
    for kind in SHOWN {
        println!(
            "{}",
            plane
                .kubectl_ok(&["-n", NAMESPACE, "get", kind], "")
                .await?
        );
    }
    if options.once {
        clean_up(plane, &garm, &samples).await?;
        say("everything is gone, from Kubernetes and from GARM");
        let status = operator.terminate(Duration::from_secs(15)).await?;
        if !status.success() {
            bail!(
                "the operator ended with {status}; its log:\n{}",
                operator.stderr()
            );
        }
        return Ok(());
    }
    tell_what_to_try(ground, plane)?;
    stay(plane, &garm, &mut operator).await
}

/// Lets the API server ask the operator about each write, and for conversions.
async fn ask_webhooks(
    plane: &ControlPlane,
    operator: &Operator,
    certificates: &Certificates,
) -> Result<()> {
    let address = operator.webhook_address();
    let url = format!("https://{address}");
    let conversion = ConversionEndpoint {
        url: format!("{url}/convert"),
        ca_pem: certificates.ca_pem.clone(),
    };
    plane
        .install_crds(crds::definitions(), Some(&conversion))
        .await?;
    let shipped = webhooks::objects(CaBundle::Open);
    for object in webhooks_at(&url, shipped, Some(&certificates.ca_pem), &[])? {
        plane
            .kubectl_ok(&["apply", "-f", "-"], &object.to_string())
            .await?;
    }
    Ok(())
}

/// Waits until every object says that it is ready and every pool has its idle runners.
async fn wait_ready(plane: &ControlPlane, operator: &mut Operator) -> Result<()> {
    let patience =
        Patience::new(READY_LIMIT, "everything is ready").every(Duration::from_millis(250));
    loop {
        operator.check_running()?;
        let objects = list(plane, WITH_CONDITIONS).await?;
        let mut missing: Vec<String> = objects.iter().filter_map(why_not_ready).collect();
        let wanted: i64 = objects
            .iter()
            .filter_map(|object| object["spec"]["minIdleRunners"].as_i64())
            .sum();
        let idle = list(plane, "runners")
            .await?
            .iter()
            .filter(|runner| runner["status"]["status"] == "idle")
            .count();
        if i64::try_from(idle).unwrap_or(i64::MAX) < wanted {
            missing.push(format!("{idle} of {wanted} runners are idle"));
        }
        if missing.is_empty() {
            return Ok(());
        }
        patience.pause(missing.join("; ")).await?;
    }
}

/// What keeps an object from being ready, in its own words.
fn why_not_ready(object: &Value) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = format!(
        "{} {}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    );
    match ready {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) => Some(format!(
            "{name}: {}: {}",
            text(&ready["reason"]),
            text(&ready["message"])
        )),
        None => Some(format!("{name}: no status yet")),
    }
}

async fn list(plane: &ControlPlane, kinds: &str) -> Result<Vec<Value>> {
    let text = plane
        .kubectl_ok(&["-n", NAMESPACE, "get", kinds, "-o", "json"], "")
        .await?;
    let mut list: Value = serde_json::from_str(&text).context("decode kubectl's answer")?;
    Ok(list["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default())
}

/// Deletes all objects and their namespace, and looks whether GARM is empty again.
async fn clean_up(plane: &ControlPlane, garm: &Garm, samples: &str) -> Result<()> {
    plane
        .kubectl_ok(
            &["-n", NAMESPACE, "delete", "--timeout=90s", "-f", "-"],
            samples,
        )
        .await?;
    plane
        .kubectl_ok(&["delete", "namespace", NAMESPACE, "--timeout=90s"], "")
        .await?;
    for path in [
        "/instances",
        "/pools",
        "/repositories",
        "/github/credentials",
    ] {
        let left = garm.api().list(path).await?;
        if !left.is_empty() {
            bail!("GARM still has {path}: {}", Value::Array(left));
        }
    }
    Ok(())
}

fn tell_what_to_try(ground: &Ground, plane: &ControlPlane) -> Result<()> {
    println!(
        "export KUBECONFIG={kubeconfig}
alias kubectl={kubectl}

Things to try in another terminal:
  kubectl -n {NAMESPACE} get runners -w
  kubectl -n {NAMESPACE} scale pool cheap --replicas=2
  kubectl -n {NAMESPACE} patch image ubuntu --type=merge -p '{{\"spec\":{{\"tag\":\"ubuntu:26.04\"}}}}'
  kubectl -n {NAMESPACE} patch pool cheap --type=merge -p '{{\"spec\":{{\"extraSpecs\":\"{{\"}}}}'
  kubectl -n {NAMESPACE} get pools.v1alpha1.garm-operator.mercedes-benz.com
  kubectl -n {NAMESPACE} delete pool fast
  kubectl -n {NAMESPACE} describe pool cheap
  kubectl -n {NAMESPACE} get events

Enter runs a job of 10 s on an idle runner; Ctrl-C ends everything.",
        kubeconfig = plane.kubeconfig_path().display(),
        kubectl = ground.servers().path(Server::Kubectl)?.display(),
    );
    Ok(())
}

/// Runs a job for each line on standard input, until the operator ends.
async fn stay(plane: &ControlPlane, garm: &Garm, operator: &mut Operator) -> Result<()> {
    let mut lines = lines_of_stdin();
    loop {
        tokio::select! {
            Some(()) = lines.recv() => {
                if let Err(error) = run_job(plane, garm).await {
                    println!("no job: {error:#}");
                }
            }
            () = tokio::time::sleep(Duration::from_secs(1)) => operator.check_running()?,
        }
    }
}

/// Signals each line; read on a thread of its own, which the end of the process does not wait for.
fn lines_of_stdin() -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn run_job(plane: &ControlPlane, garm: &Garm) -> Result<()> {
    let runners = list(plane, "runners").await?;
    let idle = runners
        .iter()
        .find(|runner| runner["status"]["status"] == "idle")
        .context("no runner is idle")?;
    let name = idle["status"]["name"]
        .as_str()
        .context("the runner has no name")?;
    let job = Job::new(
        Owner::repository("acme", "shop"),
        WEBHOOK_SECRET,
        &["self-hosted"],
    );
    garm.job_queued(&job).await?;
    garm.job_in_progress(&job, name).await?;
    println!("a job runs on {name}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    garm.job_completed(&job, name).await?;
    println!("the job on {name} has ended");
    Ok(())
}
