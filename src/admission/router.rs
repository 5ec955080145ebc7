//! The HTTP face: paths, limits, and what becomes of a request that makes no sense, comes at a bad time, or breaks something.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use futures::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::convert::review as review_conversion;
use super::hooks::{HOOKS, Hook};
use super::outcome::{Outcome, Refusal, Stop};
use super::review;
use super::{Admission, Settings};
use crate::telemetry::metrics::{Metrics, WebhookMetrics};

/// Longest review, in bytes: two objects as large as the API server takes them, as in controller-runtime.
const REVIEW: usize = 7 << 20;
/// Longest conversion, in bytes. The API server sends one object at a time in its newest versions and whole lists in older ones.
const CONVERSION: usize = 64 << 20;
/// Conversions worked on at a time.
const CONVERSIONS: usize = 16;
const CONVERT: &str = "/convert";
const JSON: &str = "application/json";

impl Admission {
    /// Serves all admission webhooks, and conversion.
    pub fn router(self: Arc<Self>, metrics: &Metrics) -> Router {
        // Turns of its own: our own first lists may call it, and reviews wait for those.
        let turns = Arc::new(Semaphore::new(CONVERSIONS));
        let guard = Guard {
            answer: self.settings.conversion,
            ..Guard::new(&self.settings, &turns, metrics.webhook(CONVERT))
        };
        let conversion = guarded(CONVERT, post(convert), CONVERSION, guard);
        let turns = Arc::new(Semaphore::new(self.settings.concurrency));
        HOOKS
            .iter()
            .map(|hook| {
                let admission = Arc::clone(&self);
                let handler = post(move |headers: HeaderMap, body: Bytes| async move {
                    admission.respond(hook, &headers, &body).await
                });
                let guard = Guard::new(&self.settings, &turns, metrics.webhook(hook.path));
                guarded(hook.path, handler, REVIEW, guard)
            })
            .fold(conversion, Router::merge)
    }

    async fn respond(&self, hook: &Hook, headers: &HeaderMap, body: &[u8]) -> Response {
        if !is_json(headers) {
            return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
        }
        let request = match review::parse(body) {
            Ok(request) => request,
            Err(reason) => return (StatusCode::BAD_REQUEST, reason).into_response(),
        };
        let outcome = match self.answer(hook, &request).await {
            Ok(outcome) | Err(Stop::Decided(outcome)) => outcome,
            Err(Stop::Undecodable(reason)) => {
                return (StatusCode::BAD_REQUEST, reason).into_response();
            }
            // No verdict at all, so that the failure policy of the webhook decides.
            Err(Stop::NotReady(kind)) => {
                let reason = format!("the objects of kind {kind} are not known yet; try again");
                return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
            }
        };
        log(hook, &request, &outcome);
        let body = review::answer(&request, &outcome);
        ([(header::CONTENT_TYPE, JSON)], body).into_response()
    }
}

async fn convert(Extension(turn): Extension<Turn>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    match beside(turn, move || review_conversion(&body)).await {
        Ok((StatusCode::OK, body)) => ([(header::CONTENT_TYPE, JSON)], body).into_response(),
        Ok(other) => other.into_response(),
        Err(failed) => match failed.try_into_panic() {
            // It is told and counted where all are.
            Ok(panic) => resume_unwind(panic),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let type_ = headers.get(header::CONTENT_TYPE);
    let type_ = type_.and_then(|value| value.to_str().ok());
    let essence = type_.unwrap_or_default().split(';').next();
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}

/// Tells that a request was refused, and by which fields. Values are for the user alone.
fn log(hook: &Hook, request: &review::Request<'_>, outcome: &Outcome) {
    let fields = match &outcome.refusal {
        None => return,
        Some(Refusal::Forbidden(_)) => Vec::new(),
        Some(Refusal::Invalid(errors)) => errors.iter().map(|error| &*error.path).collect(),
    };
    tracing::debug!(
        webhook = hook.path,
        namespace = &*request.namespace,
        name = &*request.name,
        ?fields,
        "refused a request"
    );
}

/// The turn of a request, which handlers find among its extensions; the next request gets it when all clones are gone.
pub(super) type Turn = Arc<OwnedSemaphorePermit>;

/// Does what takes long on a thread of its own, where it keeps no other request waiting. It cannot be called off, and so keeps its turn until it
/// ends, also when the request has been given up.
///
/// # Errors
/// Fails when the work panics.
pub(super) async fn beside<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let kept = move || {
        let done = work();
        drop(turn);
        done
    };
    tokio::task::spawn_blocking(kept).await
}

/// What keeps the requests to one webhook within limits, and counts them.
#[derive(Clone)]
pub(super) struct Guard {
    turns: Arc<Semaphore>,
    wait: Duration,
    answer: Duration,
    metrics: WebhookMetrics,
}

impl Guard {
    /// Guards a webhook that shares its turns with others. Those that can keep each other waiting must not share.
    pub(super) fn new(
        settings: &Settings,
        turns: &Arc<Semaphore>,
        metrics: WebhookMetrics,
    ) -> Self {
        Self {
            turns: Arc::clone(turns),
            wait: settings.wait,
            answer: settings.answer,
            metrics,
        }
    }

    /// Waits for a turn, not for long: the API server has better things to do than to queue.
    async fn run(&self, mut request: Request, next: Next) -> Response {
        let turns = Arc::clone(&self.turns);
        let turn = tokio::time::timeout(self.wait, turns.acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let reason = "too many requests at a time; try again";
            return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
        };
        let turn: Turn = Arc::new(turn);
        request.extensions_mut().insert(Arc::clone(&turn));
        let response = next.run(request).await;
        drop(turn);
        response
    }
}

/// Serves a handler at a path, with a limit for the length of requests in bytes.
pub(super) fn guarded(path: &str, handler: MethodRouter, length: usize, guard: Guard) -> Router {
    Router::new()
        .route(path, handler)
        .layer(DefaultBodyLimit::max(length))
        .route_layer(from_fn_with_state(guard, watch_over))
}

async fn watch_over(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let _in_flight = guard.metrics.begin();
    let work = AssertUnwindSafe(guard.run(request, next)).catch_unwind();
    let response = match tokio::time::timeout(guard.answer, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            guard.metrics.panics.inc();
            tracing::error!("the answer to a webhook request panicked");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        Err(_) => StatusCode::GATEWAY_TIMEOUT.into_response(),
    };
    let code = response.status().as_u16();
    guard.metrics.answered(code, started.elapsed());
    response
}
