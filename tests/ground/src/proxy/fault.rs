//! Faults, and for which requests they count.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method, StatusCode, Uri};
use hyper::body::Bytes;
use tokio_util::sync::CancellationToken;

/// Changes an answer's body.
pub type RewriteBody = Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>;

/// Answers a path with a JSON text, or with nothing where the server is to be asked.
pub type AnswerPath = Arc<dyn Fn(&str) -> Option<(StatusCode, String)> + Send + Sync>;

/// What happens to a request.
#[derive(Clone)]
pub enum Fault {
    /// Forwards it after a while.
    Delay(Duration),
    /// Forwards it, and gives each piece of the answer this long after it came, as for a watch that lags.
    Lag(Duration),
    /// Answers it without asking the server.
    Status {
        /// The status code.
        code: StatusCode,
        /// The whole body.
        body: String,
        /// The body's type.
        content_type: String,
        /// More headers, by name and value.
        headers: Vec<(String, String)>,
    },
    /// Answers it without asking the server, depending on its path.
    Answer(AnswerPath),
    /// Lets the server carry it out, then closes the connection without an answer.
    LoseAnswer,
    /// Lets the server carry it out, and gives the answer when released.
    HoldAnswer(Release),
    /// Closes the connection; the server sees nothing.
    Close,
    /// Never answers; the server sees nothing and the connection stays open.
    Blackhole,
    /// Lets the server answer, and changes the answer's body.
    Rewrite(RewriteBody),
}

impl Fault {
    /// GARM's answer with this status, as in `{"error": "Server error", "details": ""}`.
    pub fn garm_error(code: StatusCode, error: &str, details: &str) -> Self {
        Self::Status {
            code,
            body: serde_json::json!({ "error": error, "details": details }).to_string(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
        }
    }

    /// A web page, as a wrong server or a gateway answers.
    pub fn html(code: StatusCode) -> Self {
        Self::Status {
            code,
            body: "<!DOCTYPE html><html><body><h1>Not what you asked for</h1></body></html>"
                .to_owned(),
            content_type: "text/html; charset=utf-8".to_owned(),
            headers: Vec::new(),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delay(time) => write!(formatter, "Delay({time:?})"),
            Self::Lag(time) => write!(formatter, "Lag({time:?})"),
            Self::Status { code, .. } => write!(formatter, "Status({code})"),
            Self::Answer(_) => formatter.write_str("Answer"),
            Self::LoseAnswer => formatter.write_str("LoseAnswer"),
            Self::HoldAnswer(_) => formatter.write_str("HoldAnswer"),
            Self::Close => formatter.write_str("Close"),
            Self::Blackhole => formatter.write_str("Blackhole"),
            Self::Rewrite(_) => formatter.write_str("Rewrite"),
        }
    }
}

/// Lets held answers go; clones release together.
#[derive(Clone, Debug, Default)]
pub struct Release {
    gate: CancellationToken,
    holding: CancellationToken,
}

impl Release {
    /// A new, closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everything that is held go on, and all that comes later through.
    pub fn release(&self) {
        self.gate.cancel();
    }

    /// Waits until the first answer is held: the server has carried that request out.
    pub async fn holding(&self) {
        self.holding.cancelled().await;
    }

    pub(super) async fn released(&self) {
        self.holding.cancel();
        self.gate.cancelled().await;
    }
}

/// Which requests a fault is for; all conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    method: Option<Method>,
    route: Option<String>,
    path_contains: Option<String>,
    query_contains: Option<String>,
    times: Option<usize>,
    skip: usize,
}

impl Matcher {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only a route, with its method, as in `POST /repositories/{id}/pools`; see [`super::Recorded::route`].
    pub fn route(route: &str) -> Self {
        Self {
            route: Some(route.to_owned()),
            ..Self::default()
        }
    }

    /// Only this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only paths that contain this text.
    #[must_use]
    pub fn path_contains(mut self, part: &str) -> Self {
        self.path_contains = Some(part.to_owned());
        self
    }

    /// Only queries that contain this text.
    #[must_use]
    pub fn query_contains(mut self, part: &str) -> Self {
        self.query_contains = Some(part.to_owned());
        self
    }

    /// Only the first `times` that match otherwise.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Not the first `skip` that match otherwise.
    #[must_use]
    pub fn skip(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    fn fits(&self, method: &Method, uri: &Uri, route: &str) -> bool {
        self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.route.as_ref().is_none_or(|wanted| wanted == route)
            && self
                .path_contains
                .as_ref()
                .is_none_or(|part| uri.path().contains(part))
            && self
                .query_contains
                .as_ref()
                .is_none_or(|part| uri.query().unwrap_or_default().contains(part))
    }
}

/// A handle on a rule that is in force.
#[derive(Clone, Debug)]
pub struct Rule {
    entry: Arc<Entry>,
    rules: Rules,
}

impl Rule {
    /// How many requests the fault has been carried out on.
    pub fn hits(&self) -> usize {
        self.entry.hits.load(Ordering::SeqCst)
    }

    /// Ends the rule.
    pub fn remove(&self) {
        self.rules
            .with(|all| all.retain(|entry| !Arc::ptr_eq(entry, &self.entry)));
    }
}

#[derive(Debug)]
struct Entry {
    matcher: Matcher,
    fault: Fault,
    seen: AtomicUsize,
    hits: AtomicUsize,
}

/// The rules in force, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Arc<Mutex<Vec<Arc<Entry>>>>);

impl Rules {
    pub fn add(&self, matcher: Matcher, fault: Fault) -> Rule {
        let entry = Arc::new(Entry {
            matcher,
            fault,
            seen: AtomicUsize::new(0),
            hits: AtomicUsize::new(0),
        });
        self.with(|all| all.push(Arc::clone(&entry)));
        Rule {
            entry,
            rules: self.clone(),
        }
    }

    pub fn clear(&self) {
        self.with(Vec::clear);
    }

    /// The fault for this request; counts it.
    pub fn fault_for(&self, method: &Method, uri: &Uri, route: &str) -> Option<Fault> {
        self.with(|all| {
            all.iter()
                .filter(|entry| entry.matcher.fits(method, uri, route))
                .find_map(|entry| {
                    let seen = entry.seen.fetch_add(1, Ordering::SeqCst);
                    let hit = seen >= entry.matcher.skip
                        && entry
                            .matcher
                            .times
                            .is_none_or(|times| seen - entry.matcher.skip < times);
                    hit.then(|| {
                        entry.hits.fetch_add(1, Ordering::SeqCst);
                        entry.fault.clone()
                    })
                })
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Arc<Entry>>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_counts_for_its_requests_and_its_times() {
        let rules = Rules::default();
        let rule = rules.add(
            Matcher::route("PUT /pools/{id}").skip(1).times(1),
            Fault::Close,
        );
        let hit = |method: Method, route: &str| {
            let uri = Uri::from_static("/api/v1/pools/x");
            rules.fault_for(&method, &uri, route).is_some()
        };
        assert!(!hit(Method::GET, "GET /pools/{id}"));
        assert!(!hit(Method::PUT, "PUT /pools/{id}"));
        assert!(hit(Method::PUT, "PUT /pools/{id}"));
        assert!(!hit(Method::PUT, "PUT /pools/{id}"));
        assert_eq!(rule.hits(), 1);
    }

    #[test]
    fn a_removed_rule_lets_the_next_one_through() {
        let rules = Rules::default();
        let first = rules.add(Matcher::any(), Fault::Close);
        rules.add(Matcher::any().path_contains("pools"), Fault::Blackhole);
        let uri = Uri::from_static("/pools?a=b");
        let fault = || rules.fault_for(&Method::GET, &uri, "GET /pools");
        rules.add(Matcher::any().query_contains("b=a"), Fault::LoseAnswer);
        assert!(matches!(fault(), Some(Fault::Close)));
        first.remove();
        assert!(matches!(fault(), Some(Fault::Blackhole)));
    }
}
