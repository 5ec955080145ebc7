//! Stands in for the API server: answers reads of single objects from memory, and knows nothing else.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use super::objects::Objects;

/// Makes a client that reads from these objects. Nothing can be written by it.
pub(super) fn client(objects: &Objects) -> kube::Client {
    let by_path: HashMap<String, Value> = objects.by_path().collect();
    let by_path = Arc::new(by_path);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer(&by_path, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    kube::Client::new(service, "default")
}

fn answer(by_path: &HashMap<String, Value>, request: &Request<Body>) -> Response<Body> {
    let is_read = request.method() == http::Method::GET;
    let found = by_path.get(request.uri().path()).filter(|_| is_read);
    let (status, body) = match found {
        Some(object) => (StatusCode::OK, object.clone()),
        None => (StatusCode::NOT_FOUND, absent()),
    };
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = status;
    response
}

fn absent() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "message": "not found",
        "code": 404,
    })
}
