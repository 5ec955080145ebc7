//! `/debug/state` and `/debug/flags/v`: what the process is doing, and how much it logs.
//!
//! Nothing here shows a secret, but names of objects are nobody's business but their owners', and a high verbosity costs disk and time. So
//! both answer only who asks from within the pod, which is what `kubectl port-forward` does: the right to do that is given by RBAC.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;

use crate::telemetry::level::{HIGHEST, HOLD, Level};

/// Longest body of a request, in bytes: a number.
const BODY: usize = 16;

/// Gives the state of the process.
pub type Look = Box<dyn Fn() -> Value + Send + Sync>;

/// Routes everything below `/debug`.
pub fn router(look: Look, level: Level) -> Router {
    Router::new()
        .route("/debug/state", get(state).with_state(Arc::new(look)))
        // The path and the words of Kubernetes' own components.
        .route("/debug/flags/v", get(verbosity).put(set_verbosity))
        .with_state(level)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(from_fn(within_the_pod))
}

async fn within_the_pod(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    // An IPv4 peer of an IPv6 socket has an address of both.
    let is_within = peer.is_some_and(|peer| peer.0.ip().to_canonical().is_loopback());
    if is_within {
        return next.run(request).await;
    }
    let reason = "only from within the pod; use kubectl port-forward\n";
    (StatusCode::FORBIDDEN, reason).into_response()
}

async fn state(State(look): State<Arc<Look>>) -> Response {
    // It goes through all objects.
    let state = tokio::task::spawn_blocking(move || format!("{:#}\n", look())).await;
    match state {
        Ok(state) => ([(header::CONTENT_TYPE, "application/json")], state).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn verbosity(State(level): State<Level>) -> String {
    format!("{}\n", level.now())
}

async fn set_verbosity(State(level): State<Level>, body: String) -> Response {
    let wanted = match body.trim().parse() {
        Ok(wanted) if level.may_be(wanted) => wanted,
        _ => {
            let reason = format!(
                "the verbosity is a number from 0 to {HIGHEST}; more has to be configured\n"
            );
            return (StatusCode::BAD_REQUEST, reason).into_response();
        }
    };
    level.set(wanted);
    let configured = level.configured();
    if wanted == configured {
        return format!("the log verbosity is {wanted}, as configured\n").into_response();
    }
    let minutes = HOLD.as_secs() / 60;
    format!("the log verbosity is {wanted} for {minutes} minutes, then {configured} again\n")
        .into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Method;
    use serde_json::json;

    use super::*;
    use crate::server::health::tests::call;
    use crate::telemetry::log::Handle;

    /// Sends a request from an address.
    async fn ask(
        level: &Level,
        peer: &str,
        method: Method,
        path: &str,
        body: &str,
    ) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(extensions) = request.extensions_mut()
            && !peer.is_empty()
        {
            extensions.insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let router = router(Box::new(|| json!({"a": 1})), level.clone());
        let (head, body) = call(router, request).await;
        (head.status.as_u16(), body)
    }

    #[tokio::test]
    async fn answers_only_who_asks_from_within_the_pod() {
        let level = Level::new(Handle::detached(), 0);
        for peer in [
            "10.0.0.7:4711",
            "[2001:db8::7]:4711",
            "[::ffff:10.0.0.7]:4711",
            "",
        ] {
            for (method, path) in [
                (Method::GET, "/debug/state"),
                (Method::GET, "/debug/flags/v"),
                (Method::PUT, "/debug/flags/v"),
            ] {
                let (status, text) = ask(&level, peer, method, path, "3").await;
                assert_eq!(status, 403, "{peer} {path}");
                assert!(text.contains("port-forward"), "{text}");
            }
        }
        assert_eq!(level.now(), 0);
        for peer in ["127.0.0.1:4711", "[::1]:4711", "[::ffff:127.0.0.1]:4711"] {
            let (status, text) = ask(&level, peer, Method::GET, "/debug/state", "").await;
            assert_eq!(
                (status, text.as_str()),
                (200, "{\n  \"a\": 1\n}\n"),
                "{peer}"
            );
        }
    }

    #[tokio::test]
    async fn takes_a_number_from_0_to_5_and_nothing_else() {
        let level = Level::new(Handle::detached(), 1);
        let put = async |body: &str| {
            ask(&level, "127.0.0.1:1", Method::PUT, "/debug/flags/v", body).await
        };
        let (status, text) = put("4\n").await;
        assert_eq!(status, 200);
        assert_eq!(
            text,
            "the log verbosity is 4 for 15 minutes, then 1 again\n"
        );
        for wrong in ["", "5", "6", "-1", "+", "info", "4.0", "99999999999"] {
            let (status, text) = put(wrong).await;
            assert_eq!(status, 400, "{wrong}");
            assert!(text.contains("from 0 to 4"), "{text}");
        }
        assert_eq!(put("4, please, and quickly").await.0, 413);
        assert_eq!(level.now(), 4);
        assert_eq!(put("1").await.1, "the log verbosity is 1, as configured\n");
        let (status, text) = ask(&level, "127.0.0.1:1", Method::GET, "/debug/flags/v", "").await;
        assert_eq!((status, text.as_str()), (200, "1\n"));
        let (status, _) = ask(&level, "127.0.0.1:1", Method::POST, "/debug/flags/v", "2").await;
        assert_eq!(status, 405);
    }
}
