//! How calls are made, against a server that answers what GARM answers in moments that are hard to bring about.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::client::Client;
use super::error::Error;
use super::observer::NoObserver;
use super::settings::{PasswordSource, Permit, Settings, Timings};
use super::wire::{CreatePool, EntityKind, UpdatePool};

const LOCKED: (u16, &str) = (500, r#"{"error":"Server error","details":""}"#);
const TOKEN_REFUSED: (u16, &str) = (401, r#"{"error":"Authentication failed","details":""}"#);

/// What the server was asked, and what it answers next to calls other than logins.
#[derive(Default)]
struct Script {
    asked: Vec<String>,
    answers: VecDeque<(u16, &'static str)>,
    logins: usize,
    login_answer: Option<(u16, &'static str)>,
    /// Refuses tokens of logins before this one.
    oldest_token: usize,
}

type Shared = Arc<Mutex<Script>>;

async fn serve(
    State(script): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    _body: Bytes,
) -> Response {
    // Logins overlap where several are made.
    tokio::task::yield_now().await;
    let mut script = script.lock().unwrap();
    script.asked.push(format!("{method} {uri}"));
    if uri.path() == "/api/v1/auth/login" {
        if let Some((status, body)) = script.login_answer {
            return (StatusCode::from_u16(status).unwrap(), body).into_response();
        }
        script.logins += 1;
        let claims = URL_SAFE_NO_PAD.encode(r#"{"exp":4000000000}"#);
        return format!(r#"{{"token":"h.{claims}.{}"}}"#, script.logins).into_response();
    }
    let token = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    let number: usize = token
        .and_then(|token| token.rsplit('.').next()?.parse().ok())
        .unwrap_or_default();
    let (status, body) = if number < script.oldest_token {
        TOKEN_REFUSED
    } else {
        script.answers.pop_front().unwrap_or((200, r#"{"id":"p"}"#))
    };
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

async fn start(answers: impl IntoIterator<Item = (u16, &'static str)>) -> (Client, Shared) {
    start_with(answers, Permit::default()).await
}

async fn start_with(
    answers: impl IntoIterator<Item = (u16, &'static str)>,
    permit: Permit,
) -> (Client, Shared) {
    // Another test may have been faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let script = Shared::default();
    script.lock().unwrap().answers.extend(answers);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .fallback(serve)
        .with_state(Arc::clone(&script));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let timings = Timings {
        retry: Duration::from_millis(1),
        ..Timings::default()
    };
    let settings = Settings {
        base_url: format!("http://{address}").parse().unwrap(),
        username: "admin".into(),
        password: PasswordSource::Value("hunter2".to_owned().into()),
        init: false,
        email: String::new(),
        ca_file: None,
        timings,
        poll_instances: false,
        permit,
    };
    (
        Client::new(Arc::new(settings), Arc::new(NoObserver)),
        script,
    )
}

fn asked(script: &Shared, what: &str) -> usize {
    let script = script.lock().unwrap();
    script
        .asked
        .iter()
        .filter(|asked| asked.contains(what))
        .count()
}

#[tokio::test]
async fn many_calls_share_one_login_and_one_renewal() {
    let (client, script) = start([]).await;
    let calls = |n: usize| futures::future::join_all((0..n).map(|_| client.pool("p")));
    assert!(calls(20).await.iter().all(Result::is_ok));
    assert_eq!(asked(&script, "login"), 1);
    // GARM forgets its tokens.
    script.lock().unwrap().oldest_token = 2;
    assert!(calls(50).await.iter().all(Result::is_ok));
    assert_eq!(asked(&script, "login"), 2);
}

#[tokio::test]
async fn a_request_that_may_not_begin_is_neither_sent_nor_failed() {
    // The login may, and the call after it; the one after that may not.
    let asked_for = AtomicUsize::new(0);
    let permit = Permit::new(move || asked_for.fetch_add(1, Ordering::SeqCst) < 2);
    let (client, script) = start_with([], permit).await;
    assert!(client.pool("p").await.is_ok());
    let held = tokio::time::timeout(Duration::from_millis(20), client.pool("q")).await;
    assert!(held.is_err(), "it ended");
    let socket = tokio::time::timeout(Duration::from_millis(20), client.http.socket()).await;
    assert!(socket.is_err(), "the socket may be dialled");
    assert_eq!(asked(&script, "pools"), 1);
}

#[tokio::test]
async fn a_token_refused_again_right_after_a_login_is_no_loop() {
    let (client, script) = start([]).await;
    script.lock().unwrap().oldest_token = usize::MAX;
    assert!(matches!(client.pool("p").await, Err(Error::LoginRefused)));
    assert_eq!((asked(&script, "login"), asked(&script, "pools")), (2, 2));
}

#[tokio::test]
async fn github_refusing_garm_is_no_reason_to_log_in() {
    let (client, script) = start([(401, r#"{"error":"Not Authorized","details":""}"#)]).await;
    let result = client.delete_instance("x", false).await;
    assert!(matches!(result, Err(Error::Unauthorized { .. })));
    assert_eq!(asked(&script, "login"), 1);
}

#[tokio::test]
async fn a_refused_login_is_not_tried_again_by_every_caller() {
    let (client, script) = start([]).await;
    script.lock().unwrap().login_answer = Some((401, r#"{"error":"Not Authorized","details":""}"#));
    for _ in 0..5 {
        assert!(matches!(client.pool("p").await, Err(Error::LoginRefused)));
    }
    assert_eq!(asked(&script, "login"), 1);
}

#[tokio::test]
async fn reads_again_what_a_locked_database_failed_but_never_writes_again() {
    let (client, script) = start([LOCKED]).await;
    assert!(client.pool("p").await.is_ok());
    assert_eq!(asked(&script, "GET"), 2);
    script.lock().unwrap().answers.extend([LOCKED; 2]);
    let result = client.pool("p").await;
    assert!(matches!(result, Err(Error::Server { status: 500, .. })));
    assert_eq!(
        asked(&script, "GET"),
        4,
        "the reconcile loop is the real retry"
    );

    script.lock().unwrap().answers = [LOCKED].into();
    let update = UpdatePool {
        max_runners: Some(1),
        ..UpdatePool::default()
    };
    let result = client.update_pool("p", &update).await;
    assert!(result.is_err_and(|error| error.is_locked()));
    assert_eq!(asked(&script, "PUT"), 1);

    script.lock().unwrap().answers = [LOCKED].into();
    let result = client
        .create_pool(EntityKind::Repository, "r", &CreatePool::default())
        .await;
    assert!(result.is_err_and(|error| error.is_transient()));
    assert_eq!(asked(&script, "POST /api/v1/repositories/r/pools"), 1);

    script.lock().unwrap().answers = [LOCKED].into();
    assert!(client.delete_pool("p").await.is_err());
    assert_eq!(asked(&script, "DELETE /api/v1/pools/p"), 1);
}

#[tokio::test]
async fn does_not_read_the_empty_body_of_a_deletion() {
    let (client, script) = start([(200, ""), (204, ""), (200, "")]).await;
    assert!(client.delete_pool("p").await.is_ok());
    assert!(client.delete_endpoint("a/b").await.is_ok());
    assert!(
        client
            .delete_entity(EntityKind::Organization, "o")
            .await
            .is_ok()
    );
    assert_eq!(asked(&script, "/github/endpoints/a%2Fb"), 1);
    assert_eq!(asked(&script, "/organizations/o?keepWebhook=true"), 1);
}

#[tokio::test]
async fn tells_an_answer_that_is_not_garms_from_one_that_does_not_fit() {
    let (client, _script) = start([
        (200, "<html>hi</html>"),
        (200, r#"{"id":"p","max_runners":"many"}"#),
    ])
    .await;
    let html = client.pool("p").await.unwrap_err();
    assert_eq!(html.label(), "Unexpected");
    let fault = client.pool("p").await.unwrap_err();
    assert_eq!(fault.label(), "Decode");
    assert!(!format!("{html} {html:?} {fault} {fault:?}").contains("many"));
}

#[tokio::test]
async fn asks_for_force_only_when_told_and_never_bypasses_github() {
    let (client, script) = start([]).await;
    client.delete_instance("x", false).await.unwrap();
    client.delete_instance("x", true).await.unwrap();
    assert_eq!(asked(&script, "forceRemove=true"), 1);
    assert_eq!(asked(&script, "bypass"), 0);
}

#[tokio::test]
async fn says_that_nobody_listens() {
    let (client, _script) = start([]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    drop(client);
    let settings = Settings {
        base_url: format!("http://{address}").parse().unwrap(),
        username: "admin".into(),
        password: PasswordSource::File("/no/such/file".into()),
        init: true,
        email: String::new(),
        ca_file: None,
        timings: Timings::default(),
        poll_instances: false,
        permit: Permit::default(),
    };
    let given = Settings {
        password: PasswordSource::Value("hunter2".to_owned().into()),
        ..settings.clone()
    };
    let call = |settings| async {
        let client = Client::new(Arc::new(settings), Arc::new(NoObserver));
        client.pool("p").await.unwrap_err().to_string()
    };
    assert!(call(settings).await.contains("password file /no/such/file"));
    assert!(call(given).await.contains("connection refused"));
}
