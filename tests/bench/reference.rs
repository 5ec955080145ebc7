//! The place where writes are replayed: a fresh GARM and a fresh namespace, filled by a plain client as far as the script does not.

use std::collections::HashMap;

use anyhow::Result;
use garm_operator_ground::Garm;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    load,
    objects::{OWNER, TOKEN, WEBHOOK_SECRET, foundation, repository_name},
    replay::{Replayed, Script},
    stage::{Stage, fresh_garm},
};

/// What is there before the replay.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// How many repositories the Pools have.
    pub repositories: usize,
    /// The Pools.
    pub pools: &'a [Value],
    /// Whether GARM has endpoint, credentials and repositories; else the script makes them.
    pub is_filled: bool,
    /// Objects that had a status already.
    pub with_status: &'a [Value],
}

/// Plays a script where the objects are that it writes.
pub async fn replay(stage: &Stage<'_>, script: Script, before: Before<'_>) -> Result<Replayed> {
    let garm = fresh_garm(stage.ground, stage.settings).await?;
    if before.is_filled {
        fill(&garm, before.repositories).await?;
    }
    let namespace = stage.plane.create_namespace("replay").await?;
    let mut objects = foundation(&garm.github().url(), before.repositories);
    objects.extend_from_slice(before.pools);
    stage.create(&namespace, &objects).await?;
    load::each(before.with_status, async |object| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = Patch::Merge(json!({"status": object["status"]}));
        let api = stage.objects(&namespace, &text(&object["kind"]))?;
        let name = text(&object["metadata"]["name"]);
        api.patch_status(&name, &PatchParams::default(), &status)
            .await?;
        Ok(())
    })
    .await?;

    let mut known = HashMap::new();
    pair(
        &mut known,
        &by_name(&stage.garm.api().list("/repositories").await?, "/id"),
        &by_name(&garm.api().list("/repositories").await?, "/id"),
    );
    for kind in ["Pool", "Repository"] {
        let old = stage.list(&stage.namespace, kind).await?;
        let new = stage.list(&namespace, kind).await?;
        pair(
            &mut known,
            &by_name(&old, "/metadata/uid"),
            &by_name(&new, "/metadata/uid"),
        );
    }
    script.play(stage, &garm, &namespace, known).await
}

/// Ids by the names of what they are of, in GARM or in Kubernetes.
fn by_name(all: &[Value], id: &str) -> HashMap<String, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(ToOwned::to_owned);
    let pair = |one: &Value| {
        let name = text(one.get("name")).or_else(|| text(one.pointer("/metadata/name")))?;
        Some((name, text(one.pointer(id))?))
    };
    all.iter().filter_map(pair).collect()
}

fn pair(
    known: &mut HashMap<String, String>,
    old: &HashMap<String, String>,
    new: &HashMap<String, String>,
) {
    let both = |(name, old): (&String, &String)| Some((old.clone(), new.get(name)?.clone()));
    known.extend(old.iter().filter_map(both));
}

/// Gives a fresh GARM endpoint, credentials and repositories.
async fn fill(garm: &Garm, repositories: usize) -> Result<()> {
    let url = garm.github().url();
    let api = garm.api();
    let endpoint = json!({
        "name": "ghes", "description": "fake", "api_base_url": url, "upload_base_url": url, "base_url": url,
    });
    api.post("/github/endpoints", &endpoint).await?;
    let credentials = json!({
        "name": "pat", "description": "token", "endpoint": "ghes", "auth_type": "pat", "pat": {"oauth2_token": TOKEN},
    });
    api.post("/github/credentials", &credentials).await?;
    for number in 0..repositories {
        let repository = json!({
            "owner": OWNER, "name": repository_name(number), "credentials_name": "pat", "webhook_secret": WEBHOOK_SECRET,
        });
        api.post("/repositories", &repository).await?;
    }
    Ok(())
}
