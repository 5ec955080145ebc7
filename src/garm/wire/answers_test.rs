//! Recorded answers of four versions to one list of calls, each read as what it is.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::error::{Error, Refusal, refusal};
use super::*;

const VERSIONS: [(&str, &str); 4] = [
    (
        "v0.1.5",
        include_str!("../../../tests/data/garm-answers/v0.1.5.txt"),
    ),
    (
        "v0.1.8",
        include_str!("../../../tests/data/garm-answers/v0.1.8.txt"),
    ),
    (
        "v0.2.1",
        include_str!("../../../tests/data/garm-answers/v0.2.1.txt"),
    ),
    (
        "HEAD",
        include_str!("../../../tests/data/garm-answers/HEAD.txt"),
    ),
];

/// One recorded answer.
struct Recorded {
    version: &'static str,
    title: &'static str,
    status: u16,
    body: Value,
}

impl Recorded {
    fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.body.clone())
            .unwrap_or_else(|error| panic!("{} of {}: {error}", self.title, self.version))
    }
}

/// Reads the log: `title: status body`. Lines without a status are left out, and so are fields that the log marks as absent.
fn recorded(version: &'static str, log: &'static str) -> Vec<Recorded> {
    log.lines()
        .filter_map(|line| {
            let (at, status) = line.match_indices(": ").find_map(|(at, _)| {
                let (status, _) = line.get(at + 2..)?.split_once(' ')?;
                Some((
                    at,
                    status.parse::<u16>().ok().filter(|_| status.len() == 3)?,
                ))
            })?;
            let mut body = body(&line[at + 6..])?;
            drop_absent(&mut body);
            Some(Recorded {
                version,
                title: &line[..at],
                status,
                body,
            })
        })
        .collect()
}

/// Reads a body. The log cuts long ones off: what stands before the last comma that makes sense of it counts.
fn body(text: &str) -> Option<Value> {
    if let Ok(body) = serde_json::from_str(text) {
        return Some(body);
    }
    text.rmatch_indices(", \"").find_map(|(at, _)| {
        let begun = &text[..at];
        ["}", "}}", "}}}"]
            .iter()
            .find_map(|end| serde_json::from_str(&format!("{begun}{end}")).ok())
    })
}

fn drop_absent(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| value != "<absent>");
            fields.values_mut().for_each(drop_absent);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_absent),
        _ => {}
    }
}

/// Gives the answers with this title, which must be there in all four versions.
fn all(title: &str) -> Vec<Recorded> {
    let found: Vec<_> = VERSIONS
        .iter()
        .flat_map(|(version, log)| recorded(version, log))
        .filter(|answer| answer.title == title)
        .collect();
    assert!(
        found.len() >= VERSIONS.len(),
        "{title} is recorded {} times",
        found.len()
    );
    found
}

#[test]
fn reads_every_refusal() {
    let mut count = 0;
    for (version, log) in VERSIONS {
        for answer in recorded(version, log) {
            if answer.status < 400 || answer.body.is_null() {
                continue;
            }
            let (title, status) = (answer.title, answer.status);
            let body = answer.body.to_string();
            let label = match refusal("test", status, "application/json", None, body.as_bytes()) {
                Refusal::Token => "Token",
                Refusal::Final(error) => error.label(),
            };
            let expected: &[&str] = match status {
                400 => &["BadRequest"],
                401 => &["Token", "Unauthorized"],
                404 => &["NotFound"],
                409 => &["Conflict", "InitRequired", "UrlsRequired"],
                _ => &["Server"],
            };
            assert!(
                expected.contains(&label),
                "{title} of {version}: {status} is {label}"
            );
            count += 1;
        }
    }
    assert!(count > 80, "only {count} refusals");
}

#[test]
fn tells_a_fresh_server_by_its_refusals() {
    for answer in all("controller before init") {
        let body = answer.body.to_string();
        let refused = refusal("test", answer.status, "", None, body.as_bytes());
        match (answer.version, refused) {
            ("v0.1.5" | "v0.1.8", Refusal::Token)
            | ("v0.2.1" | "HEAD", Refusal::Final(Error::InitRequired)) => {}
            (version, refused) => panic!("{version}: {refused:?}"),
        }
    }
}

#[test]
fn reads_the_controller() {
    for answer in all("controller") {
        let controller: Controller = answer.read();
        assert_eq!(controller.hostname, "vm");
        assert_eq!(controller.controller_webhook_url, controller.controller_id);
        assert_eq!(controller.minimum_job_age_backoff, 30);
        assert!(controller.version.starts_with("v0."));
        assert_eq!(controller.metadata_url, "");
    }
    for answer in all("put meta+cb") {
        let controller: Controller = answer.read();
        assert_eq!(controller.hostname, "");
        assert!(controller.callback_url.ends_with("/callbacks"));
    }
}

#[test]
fn reads_endpoints_and_an_empty_list_of_credentials() {
    for answer in all("endpoints") {
        let list: List<Endpoint> = answer.read();
        assert!(list.is_complete());
        assert_eq!(list.items[0].name, "github.com");
        assert_eq!(list.items[0].upload_base_url, "https://uploads.github.com/");
        assert_eq!(
            list.items[0].updated_at.is_some(),
            answer.version != "v0.1.5"
        );
    }
    for answer in all("ep") {
        let endpoint: Endpoint = answer.read();
        assert_eq!(
            (endpoint.name.as_str(), endpoint.description.as_str()),
            ("ghes", "")
        );
    }
    for answer in all("creds empty") {
        let list: List<Credential> = answer.read();
        assert!(list.items.is_empty() && list.is_complete());
    }
}

#[test]
fn reads_credentials_by_the_hyphened_key() {
    for answer in all("cred") {
        let credential: Credential = answer.read();
        assert_eq!(credential.id, 1);
        assert_eq!(credential.auth_type, "pat");
        assert_eq!(credential.endpoint, "ghes");
        assert_eq!(credential.updated_at.is_some(), answer.version != "v0.1.5");
    }
}

#[test]
fn reads_repositories() {
    for answer in all("repo") {
        let entity: Entity = answer.read();
        assert_eq!((entity.owner.as_str(), entity.name.as_str()), ("o", "r"));
        assert_eq!(
            (entity.credentials_name.as_str(), entity.credentials_id),
            ("c1", 1)
        );
        assert_eq!(entity.events, None);
    }
}

#[test]
fn reads_the_state_of_a_pool_manager() {
    for answer in all("org create gh401") {
        let entity: Entity = answer.read();
        assert!(!entity.manager.is_running);
        assert!(!entity.id.is_empty());
    }
    // Title and time differ by version.
    let running = VERSIONS
        .iter()
        .flat_map(|(version, log)| recorded(version, log))
        .filter(|answer| answer.title.starts_with("repo status after"));
    for answer in running {
        let entity: Entity = answer.read();
        assert!(entity.manager.is_running);
        assert_eq!(entity.pool_balancing_type, "roundrobin");
        assert_eq!(entity.credentials_name, "c1");
        let is_new = matches!(answer.version, "v0.2.1" | "HEAD");
        assert_eq!(entity.events.is_some(), is_new, "{}", answer.version);
    }
}

#[test]
fn reads_pools_with_and_without_zeros() {
    for answer in all("pool") {
        let pool: Pool = answer.read();
        assert_eq!(
            (pool.max_runners, pool.min_idle_runners, pool.priority),
            (2, 0, 0)
        );
        assert!(!pool.enabled);
        assert_eq!(pool.tags, ["a"]);
        assert_eq!(
            pool.scope().map(|(kind, _)| kind),
            Some(EntityKind::Repository)
        );
        assert_eq!(pool.extra_specs, None);
        let is_new = matches!(answer.version, "v0.2.1" | "HEAD");
        assert_eq!(pool.generation.is_some(), is_new);
        assert_eq!(pool.endpoint, if is_new { "ghes" } else { "" });
    }
    for answer in all("pool list") {
        let list: List<Pool> = answer.read();
        assert_eq!(list.items.len(), 1);
        assert_eq!(list.items[0].extra_specs, None);
    }
}

#[test]
fn reads_an_unset_timeout_as_what_it_acts_like() {
    for title in [
        "org pool no timeout",
        "org pool scoped get",
        "org pool global get",
    ] {
        for answer in all(title) {
            assert_eq!(
                answer.read::<Pool>().runner_bootstrap_timeout,
                20,
                "{title}"
            );
        }
    }
}

#[test]
fn sorts_tags_because_their_order_is_arbitrary() {
    for answer in all("pool tags case") {
        let pool: Pool = answer.read();
        let mut sorted = pool.tags.clone();
        sorted.sort();
        assert_eq!(pool.tags, sorted);
        assert_eq!(pool.tags.len(), 2);
    }
}

#[test]
fn tells_null_extra_specs_from_absent_ones() {
    for answer in all(r#"upd {"extra_specs": null}"#) {
        assert_eq!(answer.read::<Pool>().extra_specs, Some(Value::Null));
    }
    for answer in all(r#"upd {"extra_specs": {"a": 1}}"#) {
        assert_eq!(
            answer.read::<Pool>().extra_specs,
            Some(serde_json::json!({"a": 1}))
        );
    }
}

#[test]
fn reads_instances_with_addresses_only_by_name() {
    for answer in all("instance list item") {
        let instance: Instance = answer.read();
        assert_eq!(instance.addresses, None);
        assert_eq!(
            (instance.status.as_str(), instance.runner_status.as_str()),
            ("running", "pending")
        );
        assert_eq!(instance.agent_id, 101);
        assert!(instance.updated_at.is_some() && !instance.has_job && instance.is_deletable());
    }
    for answer in all("instance get")
        .iter()
        .filter(|answer| answer.body.get("id").is_some())
    {
        let addresses = answer.read::<Instance>().addresses.unwrap_or_default();
        assert_eq!(
            (addresses[0].address.as_str(), addresses[0].kind.as_str()),
            ("10.0.0.5", "private")
        );
    }
}

#[test]
fn reads_hooks() {
    for answer in all("webhook install") {
        let hook: Hook = answer.read();
        assert_eq!((hook.id, hook.is_active), (102, true));
        assert_eq!(hook.events, ["workflow_job"]);
    }
}

#[test]
fn reads_an_instance_with_a_pascal_case_job_a_fault_and_what_it_does_not_know() {
    let instance: Instance = serde_json::from_str(
        r#"{"id":"i","name":"garm-X","status":"brand_new","runner_status":"active","agent_id":null,"os_name":null,
            "job":{"id":7,"StartedAt":"0001-01-01T00:00:00Z","RepositoryName":"r","Labels":null,"LockedBy":"x"},
            "provider_fault":"Ym9vbQ==","github-runner-group":"g","scale_set_id":3,"created_at":"0001-01-01T00:00:00Z",
            "heartbeat":"0001-01-01T00:00:00Z","capabilities":{"has_shell":false},"new_thing":[1]}"#,
    )
    .unwrap();
    assert!(instance.has_job && instance.is_busy() && !instance.is_deletable());
    assert_eq!(instance.provider_fault, "boom");
    assert_eq!(instance.github_runner_group, "g");
    assert_eq!((instance.scale_set_id, instance.created_at), (3, None));
}

#[test]
fn one_unreadable_object_does_not_spoil_a_list() {
    let list: List<Pool> =
        serde_json::from_str(r#"[{"id":"a"},{"id":"b","max_runners":"many"},{"id":"c"},7]"#)
            .unwrap();
    let ids: Vec<_> = list.items.iter().map(|pool| pool.id.as_str()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert!(list.has_unreadable("b") && !list.has_unreadable("a"));
    assert!(!list.is_complete(), "nobody knows what 7 stands for");
}

#[test]
fn sends_only_what_is_set() {
    let update = UpdatePool {
        max_runners: Some(0),
        github_runner_group: Some(String::new()),
        extra_specs: Some(Value::Null),
        ..UpdatePool::default()
    };
    let expected =
        serde_json::json!({"max_runners": 0, "github-runner-group": "", "extra_specs": null});
    assert_eq!(serde_json::to_value(&update).unwrap(), expected);
    assert!(!update.is_empty() && UpdatePool::default().is_empty());
    assert!(UpdateEntity::default().is_empty() && UpdateCredential::default().is_empty());
    assert!(UpdateEndpoint::default().is_empty() && UpdateController::default().is_empty());
}

#[test]
fn sends_secrets_and_never_shows_them() {
    let app = AuthMaterial::App(AppKey {
        app_id: 1,
        installation_id: 2,
        private_key: "hunter2".to_owned().into(),
    });
    let create = CreateCredential::new("n".into(), "d".into(), "e".into(), app);
    let expected = serde_json::json!({
        "name": "n", "description": "d", "endpoint": "e", "auth_type": "app",
        "app": {"app_id": 1, "installation_id": 2, "private_key_bytes": "aHVudGVyMg=="},
    });
    assert_eq!(serde_json::to_value(&create).unwrap(), expected);
    let pat = AuthMaterial::Pat(Token {
        oauth2_token: "hunter2".to_owned().into(),
    });
    let update = UpdateCredential {
        secret: Some(pat),
        ..UpdateCredential::default()
    };
    let expected = serde_json::json!({"pat": {"oauth2_token": "hunter2"}});
    assert_eq!(serde_json::to_value(&update).unwrap(), expected);
    let pool = Pool {
        extra_specs: Some("hunter2".into()),
        ..Pool::default()
    };
    let pool_update = UpdatePool {
        extra_specs: Some("hunter2".into()),
        ..UpdatePool::default()
    };
    for shown in [
        format!("{create:?}"),
        format!("{update:?}"),
        format!("{pool:?}"),
        format!("{pool_update:?}"),
    ] {
        assert!(
            !shown.contains("hunter2") && !shown.contains("aHVu"),
            "{shown}"
        );
    }
}
