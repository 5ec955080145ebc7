//! What can go wrong with a call to GARM, told apart by HTTP status and GARM's `error` word, never by its prose.

use std::time::Duration;

use serde::Deserialize;

use super::availability::Availability;

/// Stands for the prose that GARM leaves out when its database is locked.
pub(super) const NO_DETAILS: &str = "no details; see GARM's log";

/// Most bytes of GARM's prose that an error keeps.
const MAX_DETAILS: usize = 1024;

/// Why a call to GARM failed. The text is a sentence to act on and does not change from try to try.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// GARM says that the object does not exist. Nothing else means absence.
    #[error("GARM has no such object")]
    NotFound,
    /// GARM has no such route: too old, or the feature is switched off in its configuration.
    #[error(
        "this GARM does not offer {operation}: its version is too old, or the feature is switched off in its configuration"
    )]
    NoRoute {
        /// What was asked.
        operation: &'static str,
    },
    /// GitHub refused the credentials that GARM used for this call.
    #[error(
        "GitHub refused GARM's credentials in {operation}: check the credentials of the repository, organization or enterprise"
    )]
    Unauthorized {
        /// What was asked.
        operation: &'static str,
    },
    /// GARM refused the operator's user or password.
    #[error("GARM refused the login: check garm.username and the GARM password")]
    LoginRefused,
    /// GARM refuses because of another object or a state: a duplicate name on creation, a hook that exists, a pool manager that stands still.
    #[error("GARM reports a conflict: {details}")]
    Conflict {
        /// GARM's prose.
        details: String,
    },
    /// GARM has no admin user yet.
    #[error(
        "GARM is not initialised: make its admin user, or set garm.init to let the operator do it"
    )]
    InitRequired,
    /// GARM has no controller URLs yet.
    #[error("GARM has no controller URLs yet: describe them in a GarmServerConfig")]
    UrlsRequired,
    /// GARM refuses what was asked.
    #[error("GARM refused the request: {details}")]
    BadRequest {
        /// GARM's prose.
        details: String,
    },
    /// GARM failed. It says so without details when its database is locked, and to some wrong requests.
    #[error("GARM failed with status {status}: {details}")]
    Server {
        /// HTTP status, 500 and above.
        status: u16,
        /// GARM's prose, or where to look for it.
        details: String,
    },
    /// Something before GARM limits the rate of calls.
    #[error("calls to GARM are rate-limited")]
    RateLimited {
        /// How long to wait, when it was said.
        retry_after: Option<Duration>,
    },
    /// No answer came.
    #[error("GARM cannot be reached: {0}")]
    Transport(#[source] Transport),
    /// No answer came in time.
    #[error("GARM did not answer in time; check its load and its log")]
    Timeout,
    /// An answer came that does not fit GARM's API.
    #[error("GARM's answer to {operation} could not be read")]
    Decode {
        /// What was asked.
        operation: &'static str,
        /// Where it does not fit.
        fault: String,
    },
    /// The answer is not GARM's.
    #[error(
        "the answer to {operation} (status {status}, {content}) is not GARM's: check garm.server and what stands before GARM"
    )]
    Unexpected {
        /// What was asked.
        operation: &'static str,
        /// HTTP status.
        status: u16,
        /// Kind of content, without its text.
        content: String,
    },
    /// The call was not made, because GARM is known not to be ready for it.
    #[error("{}", .0.message())]
    Unavailable(Availability),
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Transport {
    /// Nobody listens.
    #[error("connection refused; check garm.server and that GARM is running")]
    Refused,
    /// The host name means nothing.
    #[error("its host name could not be resolved; check garm.server")]
    Name,
    /// The certificate is not to be trusted.
    #[error("its certificate is not trusted ({0}); give the CA that signed it as garm.caFile")]
    Certificate(String),
    /// The connection could not be made in time.
    #[error("no connection in time; check garm.server and the network policies on the way")]
    NoConnection,
    /// The connection ended before the answer did.
    #[error("the connection was closed before the answer was complete")]
    Closed,
    /// The CA file is of no use.
    #[error("the CA file {0}")]
    CaFile(String),
    /// The password file is of no use.
    #[error("the password file {0}")]
    PasswordFile(String),
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// Says whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Server { .. }
                | Self::RateLimited { .. }
                | Self::Transport(_)
                | Self::Timeout
                | Self::Unexpected { .. }
                | Self::Unavailable(_)
        )
    }

    /// Says whether GARM failed without details, as it does when two of its own transactions met (its log: database is locked). The call that
    /// comes next most likely works.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Server { status: 500, details } if details == NO_DETAILS)
    }

    /// Names the kind of error in one stable word, for metrics and reasons.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::NoRoute { .. } => "NoRoute",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::LoginRefused => "LoginRefused",
            Self::Conflict { .. } => "Conflict",
            Self::InitRequired => "InitRequired",
            Self::UrlsRequired => "UrlsRequired",
            Self::BadRequest { .. } => "BadRequest",
            Self::Server { .. } => "Server",
            Self::RateLimited { .. } => "RateLimited",
            Self::Transport(_) => "Transport",
            Self::Timeout => "Timeout",
            Self::Decode { .. } => "Decode",
            Self::Unexpected { .. } => "Unexpected",
            Self::Unavailable(_) => "Unavailable",
        }
    }

    /// Says whether the error puts GARM as a whole in doubt, not just the object asked for.
    pub(super) fn is_about_garm(&self) -> bool {
        matches!(
            self,
            Self::Transport(_)
                | Self::Timeout
                | Self::Unexpected { .. }
                | Self::LoginRefused
                | Self::InitRequired
                | Self::UrlsRequired
        )
    }
}

/// GARM's error body.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    error: String,
    details: String,
}

/// What an answer's status and body mean, when it is not a success.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The token is missing, expired or of another GARM: log in and ask again.
    Token,
    /// Anything else.
    Final(Error),
}

/// Reads an answer that is not a success.
pub(super) fn refusal(
    operation: &'static str,
    status: u16,
    content_type: &str,
    retry_after: Option<Duration>,
    body: &[u8],
) -> Refusal {
    let said: Option<Body> = serde_json::from_slice(body).ok();
    let word = said.as_ref().map_or("", |body| body.error.as_str());
    let details = said.as_ref().map_or("", |body| body.details.as_str());
    let details = || cut(if details.is_empty() { word } else { details });
    Refusal::Final(match (status, word) {
        (401, "Authentication failed") => return Refusal::Token,
        (401, "Not Authorized") => Error::Unauthorized { operation },
        (404, "Not Found") => Error::NotFound,
        // GARM's word for an unknown route differs in one letter.
        (404, "Not found") => Error::NoRoute { operation },
        (409, "init_required") => Error::InitRequired,
        (409, "urls_required") => Error::UrlsRequired,
        (409, _) if said.is_some() => Error::Conflict { details: details() },
        (400 | 422, _) if said.is_some() => Error::BadRequest { details: details() },
        (429, _) => Error::RateLimited { retry_after },
        // A gateway's own failures have no such body.
        (500.., _) if status == 500 || said.is_some() => Error::Server {
            status,
            details: match details() {
                text if text.is_empty() || text == "Server error" => NO_DETAILS.to_owned(),
                text => text,
            },
        },
        _ => Error::Unexpected {
            operation,
            status,
            content: describe(content_type),
        },
    })
}

/// Names a kind of content for people.
pub(super) fn describe(content_type: &str) -> String {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" => "without a content type".to_owned(),
        kind => cut(kind),
    }
}

/// Cuts text to what an error keeps, at a character boundary.
fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_DETAILS);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Error {
        match refusal(
            "pool.Get",
            status,
            "application/json",
            None,
            body.as_bytes(),
        ) {
            Refusal::Token => panic!("a token error"),
            Refusal::Final(error) => error,
        }
    }

    #[test]
    fn tells_the_two_kinds_of_401_apart() {
        let body = br#"{"error":"Authentication failed","details":""}"#;
        assert!(matches!(
            refusal("Login", 401, "", None, body),
            Refusal::Token
        ));
        let github = read(401, r#"{"error":"Not Authorized","details":""}"#);
        assert_eq!(github.label(), "Unauthorized");
        assert_eq!(read(401, "Unauthorized").label(), "Unexpected");
    }

    #[test]
    fn tells_an_absent_object_from_an_absent_route() {
        assert_eq!(
            read(404, r#"{"error":"Not Found","details":"x"}"#).label(),
            "NotFound"
        );
        let route = r#"{"error":"Not found","details":"Resource not found"}"#;
        assert_eq!(read(404, route).label(), "NoRoute");
        assert_eq!(read(404, "404 page not found").label(), "Unexpected");
    }

    #[test]
    fn tells_the_meanings_of_409_apart() {
        let label =
            |word: &str| read(409, &format!(r#"{{"error":"{word}","details":"d"}}"#)).label();
        assert_eq!(label("init_required"), "InitRequired");
        assert_eq!(label("urls_required"), "UrlsRequired");
        assert_eq!(label("Conflict"), "Conflict");
    }

    #[test]
    fn reads_a_gateway_page_as_a_passing_failure() {
        let error = read(502, "<html>Bad Gateway 123</html>");
        assert!(error.is_transient());
        assert!(!error.to_string().contains("html"));
    }

    #[test]
    fn cuts_details_at_a_character_boundary() {
        let body = format!(
            r#"{{"error":"Bad Request","details":"a{}"}}"#,
            "ü".repeat(2_000)
        );
        let Error::BadRequest { details } = read(400, &body) else {
            panic!("not a bad request")
        };
        assert_eq!(details.len(), 1_023);
    }

    #[test]
    fn only_a_named_404_is_absence() {
        for status in [400, 401, 403, 409, 422, 429, 500, 502] {
            assert_ne!(
                read(status, r#"{"error":"x","details":""}"#).label(),
                "NotFound",
                "{status}"
            );
        }
    }
}
