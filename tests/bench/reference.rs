//! The place where writes are replayed: a fresh GARM and a fresh namespace, filled by a plain client as far as the script does not.

use std::collections::HashMap;

use anyhow::Result;
use garm_operator_ground::Garm;
use serde_json::{Value, json};

use crate::{
    objects::{OWNER, TOKEN, WEBHOOK_SECRET, foundation, repository_name},
    replay::{Replayed, Script},
    stage::Stage,
};

/// What is in the fresh GARM before the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Endpoint, credentials and repositories.
    Repositories(usize),
    /// Nothing: the script makes them.
    Nothing,
}

/// Plays a script where the objects that Pools need and these Pools are.
pub async fn replay(
    stage: &Stage<'_>,
    script: Script,
    filled: Filled,
    repositories: usize,
    pools: &[Value],
) -> Result<Replayed> {
    let garm = stage.ground.garm(stage.sizes.garm).await?;
    if let Filled::Repositories(number) = filled {
        fill(&garm, number).await?;
    }
    let namespace = stage.plane.create_namespace("replay").await?;
    let mut objects = foundation(&garm.github().url(), repositories);
    objects.extend_from_slice(pools);
    stage.create(&namespace, &objects).await?;

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
