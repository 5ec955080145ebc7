//! `/metrics`, in the format the scraper asks for.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::telemetry::metrics::{Format, Metrics};

/// Routes `/metrics`.
pub fn router(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics)
}

async fn scrape(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = Format::from_accept(accept);
    // With the state of all objects it takes its time.
    let encoded = tokio::task::spawn_blocking(move || metrics.encode(format)).await;
    match encoded.unwrap_or(Err(fmt::Error)) {
        Ok(body) => ([(header::CONTENT_TYPE, format.content_type())], body).into_response(),
        // Writing into a string does not fail; a metric that cannot be written would.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};

    use super::*;
    use crate::server::health::tests::call;

    async fn scraped(accept: &str) -> (String, String) {
        let metrics = Arc::new(Metrics::new());
        metrics.garm_called("pool.Get", false);
        let request = Request::get("/metrics")
            .header(header::ACCEPT, accept)
            .body(Body::empty());
        let (head, body) = call(router(metrics), request.unwrap()).await;
        assert_eq!(head.status, StatusCode::OK);
        let type_ = head.headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        (type_, body)
    }

    #[tokio::test]
    async fn answers_in_the_format_asked_for() {
        let (type_, body) =
            scraped("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
                .await;
        assert_eq!(
            type_,
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
        assert!(body.ends_with("# EOF\n"));

        let (type_, body) = scraped("text/plain;version=0.0.4").await;
        assert_eq!(type_, "text/plain; version=0.0.4; charset=utf-8");
        assert!(!body.contains("# EOF"));
        let line = "garm_operator_client_api_requests_total{controller=\"garm_operator\",method=\"pool.Get\"} 1";
        assert!(body.contains(line), "no {line} in\n{body}");
    }
}
