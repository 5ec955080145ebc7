//! `/healthz` and `/readyz`: is the process alive, and does it want traffic.

use std::{fmt::Write, sync::Arc};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};

/// Answers whether one part of the process is well, or why not. Called for each probe, so it only looks.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The name of a check, and whether it is well or why not.
pub type Finding = (String, Result<(), String>);

/// The checks behind one path: some looks, each of which may find several things.
#[derive(Default)]
struct Checks(Vec<Box<dyn Fn() -> Vec<Finding> + Send + Sync>>);

impl Checks {
    fn add(
        &mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0
            .push(Box::new(move || vec![(name.to_owned(), check())]));
    }
}

/// Collects the checks of both probes. A probe without checks succeeds as soon as the port is open.
#[derive(Default)]
pub struct Probes {
    live: Checks,
    ready: Checks,
}

impl Probes {
    /// Begins without checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds checks to `/healthz`, which may be others at each look. Failing for long has the process restarted, so they fail only for what a
    /// restart may heal: a watch without progress, not an absent GARM.
    #[must_use]
    pub fn live(mut self, look: impl Fn() -> Vec<Finding> + Send + Sync + 'static) -> Self {
        self.live.0.push(Box::new(look));
        self
    }

    /// Adds a check to `/readyz`. Failing takes the process out of its Services.
    #[must_use]
    pub fn ready(
        mut self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.ready.add(name, check);
        self
    }

    /// Routes `/healthz` and `/readyz`; with `?verbose` they list every check, as the API server's own do.
    pub fn router(self) -> Router {
        Router::new()
            .route("/healthz", probe("healthz", self.live))
            .route("/readyz", probe("readyz", self.ready))
    }
}

fn probe(name: &'static str, checks: Checks) -> MethodRouter {
    let answer = move |State(checks): State<Arc<Checks>>, RawQuery(query): RawQuery| async move {
        let query = query.unwrap_or_default();
        let verbose = query
            .split('&')
            .any(|pair| pair.split('=').next() == Some("verbose"));
        checks.answer(name, verbose)
    };
    get(answer).with_state(Arc::new(checks))
}

impl Checks {
    /// Runs the checks. A failure lists them all: whoever looks at a failing probe wants the reason.
    fn answer(&self, probe: &str, verbose: bool) -> Response {
        let mut lines = String::new();
        let mut failed = false;
        for (name, result) in self.0.iter().flat_map(|look| look()) {
            // Writing into a string does not fail.
            let _ = match result {
                Ok(()) => writeln!(lines, "[+]{name} ok"),
                Err(reason) => {
                    failed = true;
                    writeln!(lines, "[-]{name} failed: {reason}")
                }
            };
        }
        if failed {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{lines}{probe} check failed\n"),
            )
                .into_response()
        } else if verbose {
            format!("{lines}{probe} check passed\n").into_response()
        } else {
            "ok".into_response()
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::{Request, response::Parts},
    };
    use tower::Service;

    use super::*;

    /// Sends one request through a router.
    pub(crate) async fn call(mut router: Router, request: Request<Body>) -> (Parts, String) {
        let (head, body) = router.call(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (head, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn ask(probes: Probes, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (head, body) = call(probes.router(), request).await;
        (head.status.as_u16(), body)
    }

    fn probes() -> Probes {
        Probes::new()
            .live(|| vec![("watches".to_owned(), Ok(()))])
            .ready("webhooks", || Err("no certificate yet".into()))
            .ready("other", || Ok(()))
    }

    #[tokio::test]
    async fn says_ok_without_checks() {
        assert_eq!(ask(Probes::new(), "/readyz").await, (200, "ok".into()));
        assert_eq!(
            ask(Probes::new(), "/healthz?verbose").await,
            (200, "healthz check passed\n".into())
        );
    }

    #[tokio::test]
    async fn lists_checks_when_verbose_and_reasons_always() {
        assert_eq!(ask(probes(), "/healthz").await, (200, "ok".into()));
        assert_eq!(
            ask(probes(), "/healthz?verbose").await,
            (200, "[+]watches ok\nhealthz check passed\n".into())
        );
        let failed = "[-]webhooks failed: no certificate yet\n[+]other ok\nreadyz check failed\n";
        assert_eq!(
            ask(probes(), "/readyz?verbose=1").await,
            (503, failed.into())
        );
        assert_eq!(ask(probes(), "/readyz").await, (503, failed.into()));
        assert_eq!(ask(probes(), "/livez").await.0, 404);
    }
}
