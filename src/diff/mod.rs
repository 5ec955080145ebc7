//! `garm-operator diff`: what the operator would change in GARM for the objects of a cluster, or of files.
//!
//! The controllers' own first two steps decide: each object is observed and planned for, and nothing is carried out. Objects stand on a shelf
//! instead of a watch; Secrets there hold a stand-in, since what GARM never shows cannot be compared.

mod objects;
mod report;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use jiff::Timestamp;
use kube::Resource as _;
use kube::core::object::HasStatus as _;

pub use report::{Differences, Line};

use crate::api::condition::{Conditions, reasons};
use crate::api::meta;
use crate::api::v1beta1::{Enterprise, Organization, Repository};
use crate::config::Config;
use crate::controllers::credential::Credentials;
use crate::controllers::driver::{Change, Controller, Plan, Verdict};
use crate::controllers::endpoint::Endpoints;
use crate::controllers::pool::Pools;
use crate::controllers::reaper::Reaper;
use crate::controllers::scope::Scopes;
use crate::controllers::server_config::ServerConfigs;
use crate::controllers::{Context, Hubs, wiring};
use crate::domain::lifecycle::{Disposition, disposition};
use crate::domain::pushed::Hasher;
use crate::garm::Garm;
use crate::look;
use crate::runtime::hub::{Hub, Stored};
use crate::runtime::secrets::SecretReader;
use crate::runtime::status::StatusWriter;
use objects::Objects;

/// Compares the manifests in `files`, or the objects of the cluster where none are named, with what GARM holds.
///
/// # Errors
/// Fails when something cannot be read.
pub async fn diff(config: &Config, files: &[PathBuf]) -> anyhow::Result<Differences> {
    let objects = if files.is_empty() {
        Objects::of_cluster(config).await?
    } else {
        Objects::of_files(files, &config.operator.pool_defaults)?
    };
    let look = look::at_garm(config).await?;
    compare(config, &objects, &look.garm).await
}

async fn compare(config: &Config, objects: &Objects, garm: &Garm) -> anyhow::Result<Differences> {
    let context = context(config, objects, garm)?;
    let timings = &context.timings;
    let reaper = Arc::new(Reaper::new(
        garm.clone(),
        timings.instance_delete_again,
        timings.instance_delete_lost,
        timings.instance_delete_patience,
    ));
    let mut found = Differences::default();
    let all = || Arc::clone(&context);
    // In the order in which one needs the other.
    each(&ServerConfigs(all()), &mut found).await?;
    each(&Endpoints(all()), &mut found).await?;
    each(&Credentials(all()), &mut found).await?;
    each(&Scopes::<Repository>::new(all()), &mut found).await?;
    each(&Scopes::<Organization>::new(all()), &mut found).await?;
    each(&Scopes::<Enterprise>::new(all()), &mut found).await?;
    each(&Pools::new(all(), reaper), &mut found).await?;
    found.notes.extend(report::unclaimed(&context));
    Ok(found)
}

/// What the controllers look at.
fn context(config: &Config, objects: &Objects, garm: &Garm) -> anyhow::Result<Arc<Context>> {
    let kube = shelf::client(objects);
    let of = |kind: &str| objects.of_kind(kind);
    let hubs = Hubs {
        endpoints: Hub::still(of("GitHubEndpoint"), wiring::index_endpoint),
        credentials: Hub::still(of("GitHubCredential"), wiring::index_credential),
        repositories: Hub::still(of("Repository"), wiring::index_scope),
        organizations: Hub::still(of("Organization"), wiring::index_scope),
        enterprises: Hub::still(of("Enterprise"), wiring::index_scope),
        images: Hub::still(of("Image"), wiring::index_image),
        pools: Hub::still(of("Pool"), wiring::index_pool),
        runners: Hub::still(Vec::new(), wiring::index_runner),
        server_configs: Hub::still(of("GarmServerConfig"), |_| Vec::new()),
        secrets: Hub::still(Vec::new(), |_| Vec::new()),
    };
    let operator = &config.operator;
    Ok(Arc::new(Context {
        secrets: SecretReader::new(kube.clone()),
        status: StatusWriter::new(),
        events: HashMap::new(),
        hasher: Hasher::new(&config.garm.current_password()?),
        timings: config.timings.clone(),
        runner_reconciliation: operator.runner_reconciliation,
        min_idle_runners_age: operator.min_idle_runners_age,
        failed_runner_ttl: operator.failed_runner_ttl,
        kube,
        garm: garm.clone(),
        hubs,
    }))
}

/// Looks at all objects of a kind.
async fn each<C: Controller>(controller: &C, found: &mut Differences) -> anyhow::Result<()> {
    let kind = C::Object::kind(&()).into_owned();
    for key in controller.hub().keys() {
        let line = |what: String| Line {
            object: format!("{kind} {key}"),
            what,
            fields: Vec::new(),
        };
        match controller.hub().get(&key) {
            Some(Stored::Valid(object)) => {
                match disposition(object.meta(), C::FINALIZER, C::FORCE_RELEASES) {
                    Disposition::Live | Disposition::Delete => {
                        one(controller, &object, &line, found).await?;
                    }
                    Disposition::Paused => {
                        let note =
                            format!("{kind} {key}: is paused, so that nothing happens to it");
                        found.notes.push(note);
                    }
                    Disposition::Gone | Disposition::ForceRelease => {}
                }
            }
            Some(Stored::Invalid(invalid)) => {
                let what = format!("cannot be read: {}", invalid.error);
                found.lines.push(line(what));
            }
            None => {}
        }
    }
    Ok(())
}

/// Looks at one object.
async fn one<C: Controller>(
    controller: &C,
    object: &C::Object,
    line: &impl Fn(String) -> Line,
    found: &mut Differences,
) -> anyhow::Result<()> {
    let observed = match controller.observe(object).await {
        Ok(observed) => observed,
        Err(Verdict::Failed { message, .. } | Verdict::Locked { message }) => {
            bail!("{}: {message}", line(String::new()).object);
        }
        Err(verdict) => {
            found.lines.extend(waits(&verdict).map(line));
            return Ok(());
        }
    };
    let plan = controller.plan(object, &observed, Timestamp::now());
    let changes: Vec<Change> = plan
        .steps
        .iter()
        .flat_map(|step| controller.changes(&observed, step))
        .collect();
    if plan.steps.is_empty() && !plan.release {
        found.lines.extend(waits(&plan.verdict).map(line));
    }
    for change in changes {
        match change {
            Change::Make => found.lines.push(line("would be made".to_owned())),
            Change::Take => {
                let object = line(String::new()).object;
                found.notes.push(format!(
                    "{object}: is in GARM and would be taken over as it is"
                ));
            }
            Change::Remove(what) => found.lines.push(line(format!("{what} would be removed"))),
            Change::Update(fields) => found.lines.push(Line {
                fields,
                ..line("would be changed".to_owned())
            }),
        }
    }
    know(controller, object, &observed, &plan);
    Ok(())
}

/// What keeps an object from being compared; `None` where nothing does.
fn waits(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Ready | Verdict::Stale => None,
        // The object is as GARM has it all the same.
        Verdict::Waiting { reason, .. } if *reason == reasons::POOL_MANAGER_FAILURE => None,
        Verdict::Waiting { reason, message }
        | Verdict::Pace {
            reason, message, ..
        }
        | Verdict::Failed { reason, message } => Some(format!("waits ({reason}): {message}")),
        Verdict::Locked { message } => Some(format!("waits: {message}")),
        Verdict::Invalid { message } => Some(format!("cannot work: {message}")),
    }
}

/// Lets the objects that come after know the id that this one has, as they would from its status.
fn know<C: Controller>(
    controller: &C,
    object: &C::Object,
    observed: &C::Observed,
    plan: &Plan<C::Step>,
) {
    if meta::is_terminating(object.meta()) || plan.release {
        return;
    }
    let generation = object.meta().generation;
    let mut conditions = Conditions::from_previous(&[], generation, Timestamp::now());
    let mut known = object.clone();
    *known.status_mut() = Some(controller.status(object, observed, &mut conditions));
    known.meta_mut().resource_version = Some(objects::NEWER.to_owned());
    controller.hub().offer(known);
}
