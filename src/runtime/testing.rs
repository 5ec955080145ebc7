//! A stand-in for the API server in unit tests: answers requests from a closure, and streams watches.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures::{StreamExt, future::BoxFuture};
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::Service;

/// A request as the stand-in saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
    pub(crate) body: Value,
}

/// An answer.
pub(crate) enum Reply {
    Body(u16, String),
    /// One JSON document a line, until the sender is dropped.
    Stream(mpsc::UnboundedReceiver<Value>),
    /// None, ever.
    Silence,
}

impl Reply {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Body(200, value.to_string())
    }

    pub(crate) fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "reason": reason, "message": message, "code": code,
        });
        Self::Body(code, status.to_string())
    }
}

type Answer = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// The stand-in; clones share what they saw.
#[derive(Clone)]
pub(crate) struct FakeApi {
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: Answer,
}

impl FakeApi {
    pub(crate) fn new(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            answer: Arc::new(answer),
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Service<Request<Body>> for FakeApi {
    type Response = Response<axum::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fake = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let bytes = axum::body::to_bytes(axum::body::Body::new(body), usize::MAX)
                .await
                .unwrap();
            let seen = Seen {
                method: head.method.to_string(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                accept: head
                    .headers
                    .get("accept")
                    .and_then(|accept| accept.to_str().ok())
                    .unwrap_or_default()
                    .to_owned(),
                body: serde_json::from_slice(&bytes).unwrap_or_default(),
            };
            fake.seen.lock().unwrap().push(seen.clone());
            Ok(match (fake.answer)(&seen) {
                Reply::Body(code, body) => {
                    Response::builder().status(code).body(body.into()).unwrap()
                }
                Reply::Silence => std::future::pending().await,
                Reply::Stream(values) => {
                    let lines = futures::stream::unfold(values, |mut values| async {
                        let value = values.recv().await?;
                        Some((value, values))
                    });
                    let lines = lines.map(|value| Ok::<_, Infallible>(format!("{value}\n")));
                    Response::new(axum::body::Body::from_stream(lines))
                }
            })
        })
    }
}
