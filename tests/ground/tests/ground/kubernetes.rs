//! The control plane.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use garm_operator_ground::{
    Ground,
    harness::Suite,
    poll::{Seen, poll_until},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

pub fn add(suite: &mut Suite) {
    suite
        .test(
            "namespaces_go_with_their_content",
            namespaces_go_with_their_content,
        )
        .test("owned_objects_are_collected", owned_objects_are_collected)
        .test(
            "watches_stream_through_the_proxy",
            watches_stream_through_the_proxy,
        );
}

async fn namespaces_go_with_their_content(ground: &Ground) -> Result<()> {
    let plane = ground.control_plane().await?;
    let namespace = plane.create_namespace("emptied").await?;
    let map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }).to_string();
    plane
        .kubectl_ok(&["-n", &namespace, "apply", "-f", "-"], &map)
        .await?;
    plane
        .kubectl_ok(&["delete", "namespace", &namespace, "--timeout=30s"], "")
        .await?;
    let gone = plane.kubectl(&["get", "namespace", &namespace]).await?;
    ensure!(!gone.status.success());
    plane.check_running().await
}

async fn owned_objects_are_collected(ground: &Ground) -> Result<()> {
    let plane = ground.control_plane().await?;
    let namespace = plane.create_namespace("owners").await?;
    let maps: Api<ConfigMap> = Api::namespaced(plane.client(), &namespace);
    let map = |name: &str, owner: Option<&ConfigMap>| -> Result<ConfigMap> {
        let owners: Vec<_> = owner
            .into_iter()
            .map(|owner| {
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid })
            })
            .collect();
        Ok(serde_json::from_value(
            json!({ "metadata": { "name": name, "ownerReferences": owners } }),
        )?)
    };
    let owner = maps
        .create(&PostParams::default(), &map("owner", None)?)
        .await?;
    maps.create(&PostParams::default(), &map("owned", Some(&owner))?)
        .await?;
    maps.delete("owner", &kube::api::DeleteParams::default())
        .await?;
    poll_until(
        Duration::from_secs(30),
        "the owned object is collected",
        async || {
            Ok(Seen::when(
                maps.get_opt("owned").await?.map(|map| map.metadata.name),
                Option::is_none,
            ))
        },
    )
    .await?;
    Ok(())
}

async fn watches_stream_through_the_proxy(ground: &Ground) -> Result<()> {
    let plane = ground.control_plane().await?;
    let namespace = plane.create_namespace("watched").await?;
    let proxy = plane.proxy().await?;
    let client = Client::try_from(Config::new(proxy.url().parse()?))?;
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "a" } }))?;
    let created = maps.create(&PostParams::default(), &map).await?;
    let version = created
        .metadata
        .resource_version
        .context("no resource version")?;
    let mut watch = maps.watch(&WatchParams::default(), &version).await?.boxed();

    let mark = proxy.mark();
    let patch = json!({ "data": { "k": "v" } });
    maps.patch(
        "a",
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(&patch),
    )
    .await?;
    let event = tokio::time::timeout(Duration::from_secs(10), watch.try_next()).await??;
    ensure!(matches!(event, Some(WatchEvent::Modified(_))), "{event:?}");
    let writes = proxy.writes_since(mark);
    ensure!(
        writes.len() == 1 && writes[0].route == "PATCH /configmaps/{name}",
        "{writes:?}"
    );
    ensure!(
        writes[0].json() == patch && writes[0].status == Some(200),
        "{writes:?}"
    );

    proxy.drop_connections();
    let end = tokio::time::timeout(Duration::from_secs(10), watch.try_next()).await?;
    ensure!(!matches!(end, Ok(Some(_))), "{end:?}");
    Ok(())
}
