//! The invariants: what has to hold whenever all has come right.

use std::cell::Cell;

use anyhow::{Context, Result, bail};
use garm_operator_ground::{
    documents::condition,
    poll::{Seen, poll_until},
};
use serde_json::Value;

use crate::{
    BOUND,
    documents::{KEPT, Kept, SECRETS, TAGS, webhook_urls},
    stage::Stage,
};

/// Looks at invariants, and counts them.
#[derive(Debug, Default)]
pub struct Checks(Cell<usize>);

impl Checks {
    /// How many were looked at.
    pub fn count(&self) -> usize {
        self.0.get()
    }

    /// Fails when an invariant does not hold.
    pub fn that(&self, holds: bool, violation: impl FnOnce() -> String) -> Result<()> {
        self.0.set(self.0.get() + 1);
        if !holds {
            bail!(violation());
        }
        Ok(())
    }

    /// Nothing planted and no password is in this text.
    pub fn no_secret(&self, stage: &Stage<'_>, what: &str, text: &str) -> Result<()> {
        let mut secrets = SECRETS.iter().copied().chain([stage.garm.password()]);
        self.that(!secrets.any(|secret| text.contains(secret)), || {
            format!("{what} shows a secret")
        })
    }

    /// Waits until all objects are Ready as first made (0) or as changed (1), and GARM holds each exactly once and so.
    pub async fn alive(&self, stage: &Stage<'_>, namespace: &str, version: usize) -> Result<()> {
        let generation = version + 1;
        let objects = poll_until(BOUND, "all is Ready", async || {
            let objects = stage.objects(namespace).await?;
            let unready = objects
                .iter()
                .filter(|object| object["kind"] != "Image" && !is_ready_for(object, generation))
                .map(|object| format!("{} {}", object["kind"], object["status"]));
            let unready: Vec<String> = unready.collect();
            Ok(if unready.is_empty() {
                Seen::Yes(objects)
            } else {
                Seen::NotYet(unready.join("; "))
            })
        })
        .await?;
        // What has a counterpart in GARM, the Image and the settings.
        self.that(objects.len() == KEPT.len() + 2, || {
            format!("something is gone: {objects:?}")
        })?;
        for object in &objects {
            self.that(object["metadata"]["generation"] == generation, || {
                format!("a spec was written that the user did not write: {object}")
            })?;
            self.no_secret(stage, "an object", &object.to_string())?;
        }
        for kept in &KEPT {
            self.kept(stage, kept, &objects, version).await?;
        }
        let controller = stage.garm.api().get("/controller").await?;
        let url = &webhook_urls(stage)[version];
        self.that(controller["webhook_url"] == *url, || {
            format!("{url} wanted: {controller}")
        })?;
        let events = stage
            .kubectl(namespace, &["get", "events", "-o", "json"], "")
            .await?;
        self.no_secret(stage, "an event", &events)
    }

    /// GARM has it exactly once, under the id that it tells, and as the user wants it.
    async fn kept(
        &self,
        stage: &Stage<'_>,
        kept: &Kept,
        objects: &[Value],
        version: usize,
    ) -> Result<()> {
        let Kept {
            kind, name, list, ..
        } = kept;
        let object = objects
            .iter()
            .find(|object| object["kind"] == *kind && object["metadata"]["name"] == *name)
            .with_context(|| format!("{kind} {name} is gone"))?;
        let mut same = in_garm(stage, list).await?;
        let of_its_kind = KEPT.iter().filter(|other| other.list == *list).count();
        self.that(same.len() == of_its_kind, || {
            format!("{list}: {of_its_kind} wanted: {same:?}")
        })?;
        same.retain(|one| one[kept.named_by] == *name);
        let [one] = same.as_slice() else {
            bail!("{kind} {name}: one wanted in GARM: {same:?}");
        };
        // An endpoint has no id but its name.
        let id = &object["status"]["id"];
        self.that(*kind == "GitHubEndpoint" || one["id"] == *id, || {
            format!("{kind} {name} tells the id {id}: {one}")
        })?;
        let (field, values) = kept.changed;
        self.that(one[field] == values()[version], || {
            format!("{kind} {name}: {field} is not {}: {one}", values()[version])
        })?;
        if *kind == "Pool" {
            self.that(
                one["image"] == TAGS[version] && one["enabled"] == true,
                || {
                    format!(
                        "{kind} {name}: enabled with {} wanted: {one}",
                        TAGS[version]
                    )
                },
            )?;
        }
        Ok(())
    }

    /// Waits until nothing of ours is left, here and in GARM.
    pub async fn gone(&self, stage: &Stage<'_>, namespace: &str) -> Result<()> {
        poll_until(BOUND, "all is gone", async || {
            let left = stage.objects(namespace).await?;
            Ok(Seen::when(left, Vec::is_empty))
        })
        .await?;
        for kept in &KEPT {
            let left = in_garm(stage, kept.list).await?;
            self.that(left.is_empty(), || {
                format!("left behind in GARM, {}: {left:?}", kept.list)
            })?;
        }
        Ok(())
    }
}

/// GARM's list, without what it makes by itself.
async fn in_garm(stage: &Stage<'_>, path: &str) -> Result<Vec<Value>> {
    let mut list = stage.garm.api().list(path).await?;
    list.retain(|one| one["name"] != "github.com");
    Ok(list)
}

fn is_ready_for(object: &Value, generation: usize) -> bool {
    let ready = condition(object, "Ready");
    ready["status"] == "True" && ready["observedGeneration"] == generation
}
