use crate::runtime::hub::Watching;
use crate::runtime::queue::BackOff;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};

use super::*;
use crate::controllers::testing::{context, object};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn event(name: &str, trigger: bool, gone: bool) -> HubEvent {
    HubEvent {
        key: key(name),
        trigger,
        gone,
    }
}

async fn wiring(objects: Vec<Value>) -> Wiring {
    let queues = Queues::new(BackOff {
        base: Duration::from_secs(1),
        cap: Duration::from_secs(1),
    });
    Wiring::new(context(objects).await, queues, Arc::new(Names::default()))
}

/// Takes all that is ready, by name.
fn woken(queue: &Queue) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(job) = queue.next().now_or_never() {
        names.push(job.key.name.clone());
        queue.finish(&job.key, crate::runtime::queue::Verdict::Done);
    }
    names.sort();
    names
}

fn scope_ref(name: &str) -> Value {
    json!({"githubScopeRef": {"kind": "Repository", "name": name}, "imageName": "image"})
}

fn repository(name: &str, is_terminating: bool) -> Value {
    let spec = json!({
        "owner": "acme",
        "credentialsRef": {"kind": "GitHubCredential", "name": "pat"},
        "webhookSecretRef": {"name": "hook", "key": "secret"},
    });
    let mut repository = object(
        "Repository",
        name,
        1,
        spec,
        json!({"id": format!("{name}-id")}),
    );
    if is_terminating {
        repository["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    repository
}

#[tokio::test]
async fn an_object_is_not_woken_by_what_it_wrote_itself() {
    let wiring = wiring(vec![
        object("Pool", "a", 1, scope_ref("tools"), json!({"id": "1"})),
        object("GitHubCredential", "pat", 1, json!({}), json!({"id": 1})),
        object("GitHubEndpoint", "ghes", 1, json!({}), json!({})),
        repository("tools", false),
    ])
    .await;
    let queues = &wiring.queues;
    wiring.pool(&event("a", false, false));
    wiring.credential(&event("pat", false, false));
    wiring.endpoint(&event("ghes", false, false));
    wiring.scope::<Repository>(&queues.repositories, &event("tools", false, false));
    assert!(woken(&queues.credentials).is_empty());
    assert!(woken(&queues.endpoints).is_empty());
    assert!(woken(&queues.repositories).is_empty());
    assert_eq!(
        woken(&queues.pools),
        ["a"],
        "the id of its scope may be new"
    );
}

#[tokio::test]
async fn an_image_wakes_its_pools_and_ends_their_back_off() {
    let wiring = wiring(vec![
        object("Pool", "a", 1, scope_ref("tools"), json!({})),
        object("Pool", "b", 1, json!({"imageName": "other"}), json!({})),
    ])
    .await;
    let pools = &wiring.queues.pools;
    pools.add(key("a"));
    let job = pools.next().await;
    pools.finish(&job.key, crate::runtime::queue::Verdict::Retry);
    wiring.image(&event("image", true, false));
    assert_eq!(woken(pools), ["a"]);
}

#[tokio::test]
async fn a_secret_wakes_all_that_name_it() {
    let secret = json!({"secretRef": {"name": "hook", "key": "token"}});
    let bundle = json!({"caCertBundleSecretRef": {"name": "hook", "key": "ca"}});
    let wiring = wiring(vec![
        object("GitHubCredential", "pat", 1, secret, json!({})),
        object("GitHubEndpoint", "ghes", 1, bundle, json!({})),
        object("GitHubEndpoint", "other", 1, json!({}), json!({})),
        repository("tools", false),
    ])
    .await;
    wiring.secret(&event("hook", true, false));
    assert_eq!(woken(&wiring.queues.credentials), ["pat"]);
    assert_eq!(woken(&wiring.queues.endpoints), ["ghes"]);
    assert_eq!(woken(&wiring.queues.repositories), ["tools"]);
}

#[tokio::test]
async fn the_end_of_an_owner_wakes_its_rivals_and_those_that_name_them() {
    let mut rival = object("GitHubEndpoint", "ghes", 2, json!({}), json!({}));
    rival["metadata"]["namespace"] = json!("other");
    let mut user = object(
        "GitHubCredential",
        "pat",
        2,
        json!({"endpointRef": {"kind": "GitHubEndpoint", "name": "ghes"}}),
        json!({}),
    );
    user["metadata"]["namespace"] = json!("other");
    let wiring = wiring(vec![rival, user]).await;
    wiring.endpoint(&event("ghes", true, true));
    assert_eq!(woken(&wiring.queues.endpoints), ["ghes", "ghes"]);
    assert_eq!(woken(&wiring.queues.credentials), ["pat"]);
}

#[tokio::test]
async fn a_pool_wakes_its_scope_only_while_that_waits_to_go() {
    let wiring = wiring(vec![
        object("Pool", "a", 1, scope_ref("stays"), json!({"id": "1"})),
        object("Pool", "b", 1, scope_ref("goes"), json!({"id": "2"})),
        repository("stays", false),
        repository("goes", true),
    ])
    .await;
    for change in [Changed::Pool("1".to_owned()), Changed::Pool("2".to_owned())] {
        wiring.changed(&change);
    }
    assert_eq!(woken(&wiring.queues.repositories), ["goes"]);
    assert_eq!(woken(&wiring.queues.pools), ["a", "b"]);
    wiring.changed(&Changed::Pool("unclaimed".to_owned()));
    assert_eq!(woken(&wiring.queues.repositories), ["goes"]);
}

#[tokio::test]
async fn an_unclaimed_entity_wakes_nobody_and_ours_wakes_its_pools() {
    let wiring = wiring(vec![
        object("Pool", "a", 1, scope_ref("tools"), json!({})),
        repository("tools", false),
        repository("other", false),
    ])
    .await;
    wiring.changed(&Changed::Entity(
        EntityKind::Repository,
        "foreign".to_owned(),
    ));
    assert!(woken(&wiring.queues.repositories).is_empty());
    wiring.changed(&Changed::Entity(
        EntityKind::Repository,
        "tools-id".to_owned(),
    ));
    assert_eq!(woken(&wiring.queues.repositories), ["tools"]);
    assert_eq!(woken(&wiring.queues.pools), ["a"]);
}

#[tokio::test]
async fn credentials_that_went_wake_whoever_may_need_them_and_endpoints_that_wait() {
    let mut waiting = object("GitHubEndpoint", "goes", 1, json!({}), json!({}));
    waiting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let wiring = wiring(vec![
        waiting,
        object("GitHubEndpoint", "stays", 1, json!({}), json!({})),
        object("GitHubCredential", "pat", 1, json!({}), json!({"id": 1})),
        repository("tools", false),
    ])
    .await;
    wiring.changed(&Changed::Credential(1));
    assert_eq!(woken(&wiring.queues.endpoints), ["goes"]);
    assert_eq!(woken(&wiring.queues.credentials), ["pat"]);
    assert_eq!(woken(&wiring.queues.repositories), ["tools"]);
}

#[tokio::test]
async fn who_waited_for_lists_is_woken_when_all_are_there() {
    let wiring = wiring(vec![
        object("GitHubEndpoint", "ghes", 1, json!({}), json!({})),
        object("GitHubCredential", "pat", 1, json!({}), json!({"id": 1})),
        repository("tools", false),
        object("Pool", "a", 1, scope_ref("tools"), json!({"id": "1"})),
    ])
    .await;
    wiring.changed(&Changed::Listed);
    assert_eq!(woken(&wiring.queues.endpoints), ["ghes"]);
    assert_eq!(woken(&wiring.queues.credentials), ["pat"]);
    assert_eq!(woken(&wiring.queues.repositories), ["tools"]);
    assert_eq!(woken(&wiring.queues.pools), ["a"]);
}

#[tokio::test]
async fn a_list_of_instances_wakes_the_runners_that_it_may_end() {
    let wiring = wiring(vec![
        object("Runner", "gone", 1, json!({}), json!({"name": "gone"})),
        object("Runner", "nameless", 1, json!({}), json!({})),
        object("Pool", "a", 1, scope_ref("tools"), json!({"id": "1"})),
    ])
    .await;
    wiring.changed(&Changed::Resynced(Collection::Instances));
    assert_eq!(woken(&wiring.queues.runners), ["gone", "nameless"]);
    assert!(woken(&wiring.queues.pools).is_empty());
    wiring.changed(&Changed::Resynced(Collection::Pools));
    assert!(woken(&wiring.queues.pools).is_empty());
}

#[tokio::test]
async fn who_asks_for_a_pool_is_woken_when_it_may_be_free() {
    let adopter = |name: &str, id: &str| {
        let mut pool = object("Pool", name, 1, scope_ref("tools"), json!({}));
        pool["metadata"]["annotations"] = json!({crate::api::meta::ADOPT_ID: id});
        // No two are equal, which would wake them as well.
        pool["spec"]["flavor"] = name.into();
        pool
    };
    let wiring = wiring(vec![
        object("Pool", "owner", 1, scope_ref("tools"), json!({"id": "1"})),
        adopter("first", "1"),
        adopter("second", "1"),
        adopter("elsewhere", "2"),
    ])
    .await;
    wiring.changed(&Changed::Pool("2".to_owned()));
    assert_eq!(woken(&wiring.queues.pools), ["elsewhere"]);
    wiring.pool(&event("first", true, false));
    assert_eq!(woken(&wiring.queues.pools), ["first", "second"]);
    wiring.pool(&event("owner", true, false));
    assert_eq!(woken(&wiring.queues.pools), ["first", "owner", "second"]);
    wiring.pool(&event("owner", false, false));
    assert!(
        woken(&wiring.queues.pools).is_empty(),
        "a status is no news"
    );
    // One that had the pool when it was last seen, and is gone from the store before the event that says so.
    let ids = PoolIds {
        own: Some("1".to_owned()),
        wanted: None,
    };
    wiring.pool_ids.note(&key("gone"), &ids);
    wiring.pool(&event("gone", false, false));
    assert_eq!(woken(&wiring.queues.pools), ["first", "second"]);
}

#[tokio::test]
async fn new_instances_leave_no_trace_while_runners_are_switched_off() {
    let mut wiring = wiring(vec![object(
        "Pool",
        "a",
        1,
        scope_ref("tools"),
        json!({"id": "1"}),
    )])
    .await;
    Arc::get_mut(&mut wiring.context)
        .unwrap()
        .runner_reconciliation = false;
    let change = Changed::Instance {
        name: "garm-x".to_owned(),
        pool_id: "1".to_owned(),
    };
    wiring.changed(&change);
    assert_eq!(woken(&wiring.queues.pools), ["a"], "it counts them");
    assert!(woken(&wiring.queues.runners).is_empty());
    assert!(wiring.names.instance(&key("garm-x")).is_none());
}

#[tokio::test]
async fn every_kind_has_one_watch() {
    let wiring = wiring(Vec::new()).await;
    let mut kinds: Vec<&str> = wiring.context.hubs.each().map(Watching::kind).into();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            "Enterprise",
            "GarmServerConfig",
            "GitHubCredential",
            "GitHubEndpoint",
            "Image",
            "Organization",
            "Pool",
            "Repository",
            "Runner",
            "Secret",
        ]
    );
}

#[tokio::test]
async fn a_pool_that_goes_wakes_its_runners_that_wait_to_go() {
    let runner = |name: &str, is_terminating: bool| {
        let mut runner = object("Runner", name, 1, json!({}), json!({"name": name}));
        runner["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pool", "name": "a", "uid": "Pool-a"},
        ]);
        if is_terminating {
            runner["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        runner
    };
    let wiring = wiring(vec![runner("waits", true), runner("works", false)]).await;
    wiring.pool(&event("a", true, true));
    assert_eq!(woken(&wiring.queues.runners), ["waits"]);
}

fn flavored(name: &str, image: &str, flavor: &str) -> Value {
    let spec = json!({"imageName": image, "flavor": flavor});
    object("Pool", name, 1, spec, json!({}))
}

/// Wakes as the watch does at first, and forgets whom.
fn see_first(wiring: &Wiring, pools: &[&str], images: &[&str]) {
    for name in images {
        wiring.image(&event(name, true, false));
    }
    for name in pools {
        wiring.pool(&event(name, true, false));
    }
    woken(&wiring.queues.pools);
}

#[tokio::test]
async fn pools_look_again_when_one_that_equalled_them_changes_or_goes() {
    let before = wiring(vec![
        flavored("a", "image", "small"),
        flavored("b", "image", "small"),
        flavored("c", "image", "large"),
    ])
    .await;
    see_first(&before, &["a", "b", "c"], &[]);
    before.pool(&event("a", true, false));
    assert_eq!(
        woken(&before.queues.pools),
        ["a"],
        "nothing that is compared has changed"
    );
    // The same memory, and a store in which `a` has become like `c`.
    let mut after = wiring(vec![
        flavored("a", "image", "large"),
        flavored("b", "image", "small"),
        flavored("c", "image", "large"),
    ])
    .await;
    after.twins = before.twins;
    after.pool(&event("a", true, false));
    assert_eq!(woken(&after.queues.pools), ["a", "b", "c"]);
    let mut gone = wiring(vec![
        flavored("b", "image", "small"),
        flavored("c", "image", "large"),
    ])
    .await;
    gone.twins = after.twins;
    gone.pool(&event("a", true, true));
    assert_eq!(woken(&gone.queues.pools), ["a", "c"]);
}

#[tokio::test]
async fn an_image_that_changes_its_tag_wakes_the_pools_of_those_with_either_tag() {
    let image =
        |name: &str, tag: &str| object("Image", name, 1, json!({ "tag": tag }), Value::Null);
    let pools = || ["a", "b", "c"].map(|name| flavored(name, name, "small"));
    let with = |tag: &str| {
        let images = [image("a", tag), image("b", "1"), image("c", "2")];
        images.into_iter().chain(pools()).collect()
    };
    let before = wiring(with("1")).await;
    see_first(&before, &["a", "b", "c"], &["a", "b", "c"]);
    before.image(&event("a", true, false));
    assert_eq!(woken(&before.queues.pools), ["a"], "its tag is as before");
    let mut after = wiring(with("2")).await;
    after.twins = before.twins;
    after.image(&event("a", true, false));
    assert_eq!(woken(&after.queues.pools), ["a", "b", "c"]);
}
