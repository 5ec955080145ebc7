//! What was requested, with ids folded so that requests can be counted.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, UPGRADE},
};
use hyper::body::Bytes;

/// How much of a request's body is kept, in bytes.
const BODY_LIMIT: usize = 64 * 1024;

/// Whose paths a proxy sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// GARM's API.
    Garm,
    /// The Kubernetes API.
    Kubernetes,
    /// GitHub's API.
    Github,
}

/// One request that came to a proxy.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its number, from 0.
    pub seq: usize,
    /// When it came.
    pub at: Instant,
    /// Its method.
    pub method: Method,
    /// Its path as sent.
    pub path: String,
    /// Its query, empty when it has none.
    pub query: String,
    /// Method and path with ids folded, as in `PUT /pools/{id}` (GARM), `PATCH /pools/{name}/status` (Kubernetes: without group
    /// and namespace) or `DELETE /repos/{owner}/{repo}/actions/runners/{id}` (GitHub).
    pub route: String,
    /// What was answered; `None` while it is not or when the connection was closed instead.
    pub status: Option<u16>,
    /// Whether GARM itself, and no fault of ours, answered 500 without details: its database was locked, as happens to any call.
    pub locked: bool,
    /// When it was answered: the first byte of the answer was there.
    pub answered_at: Option<Instant>,
    /// The body of a write, at most 64 KiB of it.
    pub body: Option<Bytes>,
    /// What the body is, as the client says.
    pub content_type: Option<HeaderValue>,
    /// What the client wants for an answer.
    pub accept: Option<HeaderValue>,
    /// What GARM answered to a POST that makes something; `None` for all others.
    pub answer: Option<Bytes>,
    /// The headers of a request for another protocol, such as that of a websocket; `None` for all others.
    pub upgrade: Option<HeaderMap>,
    dialect: Dialect,
}

impl Recorded {
    /// Whether it changes something; see [`super::Proxy::writes_since`].
    pub fn is_write(&self) -> bool {
        let changes =
            [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(&self.method);
        changes && !self.is_event() && !self.is_bookkeeping()
    }

    /// How long the answer took.
    pub fn took(&self) -> Option<Duration> {
        Some(self.answered_at?.duration_since(self.at))
    }

    /// Whether its answer tells the id of what it made in GARM.
    fn makes(&self) -> bool {
        self.dialect == Dialect::Garm && self.method == Method::POST && self.is_write()
    }

    /// Whether it writes a Kubernetes event.
    pub fn is_event(&self) -> bool {
        self.dialect == Dialect::Kubernetes
            && self.method != Method::GET
            && self.resource() == "events"
    }

    /// The body as JSON; null when there is none.
    pub fn json(&self) -> serde_json::Value {
        self.body
            .as_deref()
            .and_then(|body| serde_json::from_slice(body).ok())
            .unwrap_or_default()
    }

    fn is_bookkeeping(&self) -> bool {
        match self.dialect {
            Dialect::Garm => ["/auth/login", "/first-run"].contains(&self.folded_path()),
            Dialect::Kubernetes => {
                self.resource() == "leases" || self.resource().ends_with("reviews")
            }
            Dialect::Github => false,
        }
    }

    fn folded_path(&self) -> &str {
        self.route.split_once(' ').map_or("", |(_, path)| path)
    }

    fn resource(&self) -> &str {
        self.folded_path().split('/').nth(1).unwrap_or_default()
    }
}

/// All requests of a proxy.
#[derive(Debug)]
pub(super) struct Records {
    dialect: Dialect,
    all: Mutex<Vec<Recorded>>,
}

impl Records {
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            all: Mutex::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.with(|all| all.len())
    }

    pub fn since(&self, mark: usize) -> Vec<Recorded> {
        self.look(mark, <[Recorded]>::to_vec)
    }

    pub fn look<T>(&self, mark: usize, look: impl FnOnce(&[Recorded]) -> T) -> T {
        self.with(|all| look(all.get(mark..).unwrap_or_default()))
    }

    /// Whether the answer to this request is to be kept.
    pub fn keeps_answer(&self, seq: usize) -> bool {
        self.with(|all| all.get(seq).is_some_and(Recorded::makes))
    }

    pub fn keep_answer(&self, seq: usize, answer: &Bytes) {
        self.with(|all| {
            if let Some(request) = all.get_mut(seq) {
                request.answer = Some(answer.clone());
            }
        });
    }

    /// Notes a request and returns its number and its route.
    pub fn arrived(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> (usize, String) {
        let route = format!("{method} {}", fold(self.dialect, uri.path()));
        let seq = self.with(|all| {
            let seq = all.len();
            all.push(Recorded {
                seq,
                at: Instant::now(),
                method: method.clone(),
                path: uri.path().to_owned(),
                query: uri.query().unwrap_or_default().to_owned(),
                route: route.clone(),
                status: None,
                locked: false,
                answered_at: None,
                answer: None,
                content_type: headers.get(CONTENT_TYPE).cloned(),
                accept: headers.get(ACCEPT).cloned(),
                body: (!body.is_empty()).then(|| body.slice(..body.len().min(BODY_LIMIT))),
                upgrade: headers.contains_key(UPGRADE).then(|| headers.clone()),
                dialect: self.dialect,
            });
            seq
        });
        (seq, route)
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn locked(&self, seq: usize) {
        self.with(|all| {
            if let Some(request) = all.get_mut(seq) {
                request.locked = true;
            }
        });
    }

    pub fn answered(&self, seq: usize, status: StatusCode) {
        self.with(|all| {
            if let Some(request) = all.get_mut(seq) {
                request.status = Some(status.as_u16());
                request.answered_at = Some(Instant::now());
            }
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Recorded>) -> T) -> T {
        look(&mut self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Replaces what differs from object to object.
fn fold(dialect: Dialect, path: &str) -> String {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let folded = match (dialect, segments.as_slice()) {
        (Dialect::Garm, ["api", "v1", rest @ ..]) => fold_garm(rest),
        (Dialect::Kubernetes, ["api", _, rest @ ..] | ["apis", _, _, rest @ ..])
            if !rest.is_empty() =>
        {
            fold_kubernetes(rest)
        }
        (Dialect::Github, ["api", "v3", rest @ ..]) => fold_github(rest),
        (_, other) => other.to_vec(),
    };
    format!("/{}", folded.join("/"))
}

fn fold_garm<'a>(segments: &[&'a str]) -> Vec<&'a str> {
    let mut previous = "";
    let fold_one = |segment: &&'a str| {
        let folded = match previous {
            "instances" | "endpoints" => "{name}",
            _ if uuid::Uuid::try_parse(segment).is_ok()
                || segment.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                "{id}"
            }
            _ => segment,
        };
        previous = segment;
        folded
    };
    segments.iter().map(fold_one).collect()
}

fn fold_github<'a>(segments: &[&'a str]) -> Vec<&'a str> {
    let scope = match segments.first() {
        Some(&"repos") => vec!["repos", "{owner}", "{repo}"],
        Some(&"orgs") => vec!["orgs", "{org}"],
        Some(&"enterprises") => vec!["enterprises", "{enterprise}"],
        _ => Vec::new(),
    };
    let rest = segments.get(scope.len()..).unwrap_or_default().iter();
    let digits = |segment: &str| segment.bytes().all(|byte| byte.is_ascii_digit());
    scope
        .into_iter()
        .chain(rest.map(|segment| if digits(segment) { "{id}" } else { segment }))
        .collect()
}

fn fold_kubernetes<'a>(segments: &[&'a str]) -> Vec<&'a str> {
    let segments = match segments {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    segments
        .iter()
        .enumerate()
        .map(|(index, &segment)| if index == 1 { "{name}" } else { segment })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_garm_paths() {
        let id = "2f4c7f0e-0f6f-4c0a-8f0e-1f2a3b4c5d6e";
        for (path, folded) in [
            (format!("/api/v1/pools/{id}"), "/pools/{id}"),
            (
                format!("/api/v1/repositories/{id}/pools/"),
                "/repositories/{id}/pools",
            ),
            ("/api/v1/instances/garm-AbC".to_owned(), "/instances/{name}"),
            (
                "/api/v1/github/endpoints/my.forge".to_owned(),
                "/github/endpoints/{name}",
            ),
            (
                "/api/v1/github/credentials/12".to_owned(),
                "/github/credentials/{id}",
            ),
            (
                format!("/api/v1/pools/{id}/instances"),
                "/pools/{id}/instances",
            ),
            ("/api/v1/ws/events".to_owned(), "/ws/events"),
            ("/webhooks".to_owned(), "/webhooks"),
        ] {
            assert_eq!(fold(Dialect::Garm, &path), folded);
        }
    }

    #[test]
    fn folds_kubernetes_paths() {
        for (path, folded) in [
            (
                "/apis/garm-operator.mercedes-benz.com/v1beta1/namespaces/a/pools/b/status",
                "/pools/{name}/status",
            ),
            (
                "/apis/garm-operator.mercedes-benz.com/v1beta1/pools",
                "/pools",
            ),
            ("/api/v1/namespaces/a/secrets/b", "/secrets/{name}"),
            ("/api/v1/namespaces/a", "/namespaces/{name}"),
            ("/apis/apps/v1", "/apis/apps/v1"),
            ("/version", "/version"),
        ] {
            assert_eq!(fold(Dialect::Kubernetes, path), folded);
        }
    }

    #[test]
    fn folds_github_paths() {
        for (path, folded) in [
            (
                "/api/v3/repos/o/r/actions/runners/7",
                "/repos/{owner}/{repo}/actions/runners/{id}",
            ),
            ("/api/v3/orgs/12/hooks", "/orgs/{org}/hooks"),
            ("/api/v3/rate_limit", "/rate_limit"),
            (
                "/actions/runner-registration",
                "/actions/runner-registration",
            ),
        ] {
            assert_eq!(fold(Dialect::Github, path), folded);
        }
    }

    #[test]
    fn tells_writes_from_bookkeeping_and_events() {
        let kinds = |dialect, method: Method, path: &'static str| {
            let records = Records::new(dialect);
            records.arrived(
                &method,
                &Uri::from_static(path),
                &HeaderMap::new(),
                &Bytes::new(),
            );
            let request = records.since(0).remove(0);
            (request.is_write(), request.is_event())
        };
        let garm = |method, path| kinds(Dialect::Garm, method, path).0;
        assert!(garm(Method::PUT, "/api/v1/controller"));
        assert!(!garm(Method::POST, "/api/v1/auth/login"));
        assert!(!garm(Method::GET, "/api/v1/pools"));

        let kubernetes = |method, path| kinds(Dialect::Kubernetes, method, path);
        assert_eq!(
            kubernetes(Method::PATCH, "/apis/g/v1/namespaces/n/pools/p/status"),
            (true, false)
        );
        assert_eq!(
            kubernetes(
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"
            ),
            (false, false)
        );
        assert_eq!(
            kubernetes(Method::POST, "/apis/events.k8s.io/v1/namespaces/n/events"),
            (false, true)
        );
    }
}
