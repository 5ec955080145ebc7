use serde_json::json;

use super::*;
use crate::{
    config::WebhookCerts,
    runtime::lease::Term,
    runtime::testing::{FakeApi, Reply},
};

fn config(bind: &str) -> WebhookConfig {
    WebhookConfig {
        bind_address: Listen::parse(bind).unwrap(),
        certs: WebhookCerts::SelfManaged,
        cert_dir: "/none".into(),
        name_prefix: "mine".to_owned(),
        ca_lifetime: Duration::from_secs(86_400),
        cert_lifetime: Duration::from_secs(3_600),
        ca_step: Duration::from_secs(600),
    }
}

/// A replica on a stand-in for the API server.
fn replica(fake: &FakeApi, leadership: Leadership) -> (SelfManaged, Arc<ServerCertificate>) {
    let certificate = Arc::new(ServerCertificate::default());
    let (this, _) = SelfManaged::new(
        &fake.client(),
        &config(":9443"),
        Duration::from_secs(30),
        Arc::clone(&certificate),
        Arc::default(),
        watch::channel(leadership).1,
    );
    (this, certificate)
}

fn secret(state: &State) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "mine-webhook-ca", "resourceVersion": "7" },
        "data": state.write(&Data::new()),
    })
}

fn ready_state() -> State {
    let ca = Ca::new("mine", Timestamp::now(), Duration::from_secs(86_400)).unwrap();
    State {
        current: Some(ca),
        ..State::default()
    }
}

#[tokio::test]
async fn whoever_finds_no_secret_makes_one_and_serves() {
    let fake = FakeApi::new(|seen| match seen.method.as_str() {
        "GET" => Reply::status(404, "NotFound", "no such secret"),
        _ => Reply::json(&seen.body),
    });
    let (mut standby, certificate) = replica(&fake, Leadership::Standby);
    assert!(!standby.look(Timestamp::now()).await);
    assert_eq!(certificate.check(), Ok(()));
    let requests = fake.requests();
    let created = requests.last().unwrap();
    assert_eq!(created.method, "POST");
    assert_eq!(created.body["metadata"]["name"], "mine-webhook-ca");
    assert!(created.body["data"]["current.key"].is_string());
    assert!(!standby.wanted.borrow().is_empty());
}

#[tokio::test]
async fn the_loser_of_the_first_race_takes_the_winners_ca() {
    let state = ready_state();
    let (winner, made) = (secret(&state), std::sync::atomic::AtomicBool::new(false));
    let fake = FakeApi::new(move |seen| match seen.method.as_str() {
        "POST" => {
            made.store(true, std::sync::atomic::Ordering::SeqCst);
            Reply::status(409, "AlreadyExists", "somebody was faster")
        }
        _ if made.load(std::sync::atomic::Ordering::SeqCst) => Reply::json(&winner),
        _ => Reply::status(404, "NotFound", "no such secret"),
    });
    let (mut loser, certificate) = replica(&fake, Leadership::Standby);
    assert!(loser.look(Timestamp::now()).await);
    certificate.check().unwrap_err();
    assert!(!loser.look(Timestamp::now()).await);
    assert_eq!(certificate.check(), Ok(()));
    assert_eq!(*loser.wanted.borrow(), state.bundle());
}

#[tokio::test]
async fn a_standby_leaves_a_damaged_secret_to_the_leader() {
    let fake = FakeApi::new(|seen| match seen.method.as_str() {
        "GET" => Reply::json(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "mine-webhook-ca", "resourceVersion": "7" },
            "data": { "current.crt": "YnJva2Vu" },
        })),
        _ => Reply::json(&seen.body),
    });
    let (mut standby, certificate) = replica(&fake, Leadership::Standby);
    standby.look(Timestamp::now()).await;
    let reason = certificate.check().unwrap_err();
    assert!(reason.contains("default/mine-webhook-ca"), "{reason}");
    assert!(fake.requests().iter().all(|seen| seen.method == "GET"));

    let (mut leader, certificate) = replica(&fake, Leadership::Leading(Term::unlimited()));
    leader.look(Timestamp::now()).await;
    assert_eq!(certificate.check(), Ok(()));
    let requests = fake.requests();
    let written = requests.last().unwrap();
    assert_eq!(written.method, "PUT");
    assert_eq!(written.body["metadata"]["resourceVersion"], "7");
}

#[tokio::test]
async fn renews_its_certificate_while_the_api_server_is_away() {
    let (served, is_away) = (
        secret(&ready_state()),
        Arc::new(std::sync::atomic::AtomicBool::new(false)),
    );
    let away = Arc::clone(&is_away);
    let fake = FakeApi::new(move |_| {
        if away.load(std::sync::atomic::Ordering::SeqCst) {
            Reply::status(503, "ServiceUnavailable", "away")
        } else {
            Reply::json(&served)
        }
    });
    let (mut standby, certificate) = replica(&fake, Leadership::Standby);
    let now = Timestamp::now();
    standby.look(now).await;
    let mut changes = certificate.changes();
    changes.mark_unchanged();
    is_away.store(true, std::sync::atomic::Ordering::SeqCst);
    let minutes = |minutes| now + jiff::SignedDuration::from_mins(minutes);
    standby.look(minutes(39)).await;
    assert!(!changes.has_changed().unwrap());
    assert!(standby.trouble.as_deref().unwrap().contains("away"));
    standby.look(minutes(41)).await;
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn renews_its_certificate_while_the_api_server_is_silent() {
    let (served, is_silent) = (
        secret(&ready_state()),
        Arc::new(std::sync::atomic::AtomicBool::new(false)),
    );
    let silent = Arc::clone(&is_silent);
    let fake = FakeApi::new(move |_| {
        if silent.load(std::sync::atomic::Ordering::SeqCst) {
            Reply::Silence
        } else {
            Reply::json(&served)
        }
    });
    let (mut standby, certificate) = replica(&fake, Leadership::Standby);
    standby.look(Timestamp::now()).await;
    let mut changes = certificate.changes();
    changes.mark_unchanged();
    is_silent.store(true, std::sync::atomic::Ordering::SeqCst);
    let due = standby.leaf.as_ref().unwrap().due;
    let before = due - jiff::SignedDuration::from_millis(20);
    assert!(standby.look(before).await);
    assert!(changes.has_changed().unwrap());
    let trouble = standby.trouble.as_deref().unwrap();
    assert!(trouble.contains("had not answered"), "{trouble}");
}

#[test]
fn certificates_are_for_the_service_and_for_where_the_port_is_bound() {
    let dns = [
        "mine-webhook-service.ci.svc",
        "mine-webhook-service.ci.svc.cluster.local",
    ];
    for bind in [":9443", "0.0.0.0:9443", "[::]:9443"] {
        let names = names(&config(bind), "ci");
        assert_eq!(names.dns, dns);
        assert!(names.addresses.is_empty(), "{bind}");
    }
    let names_of = |bind| names(&config(bind), "ci");
    assert_eq!(
        names_of("127.0.0.1:9443").addresses,
        ["127.0.0.1".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(
        names_of("[::1]:9443").addresses,
        ["::1".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(names_of("localhost:9443").dns[2], "localhost");
}

#[test]
fn looks_often_enough_for_short_lives() {
    let pace = |leaf, step| {
        let lifetimes = Lifetimes {
            ca: Duration::from_secs(1_000),
            leaf: Duration::from_secs(leaf),
            step: Duration::from_secs(step),
        };
        pace(Duration::from_secs(30), &lifetimes).as_millis()
    };
    assert_eq!(pace(604_800, 600), 30_000);
    assert_eq!(pace(604_800, 10), 2_500);
    assert_eq!(pace(3, 10), 300);
    assert_eq!(pace(0, 0), 100);
}
