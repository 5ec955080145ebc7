//! Tokens: fetched once for everybody, renewed before they end, and never shown.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jiff::Timestamp;
use rand::Rng;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::error::{Error, Refusal, refusal};
use super::http::{Answer, Http, Request};
use super::observer::Observer;
use super::settings::Settings;
use super::wire::{FirstRun, Login, LoginAnswer};

/// Seconds before its end at which a token is renewed.
const MARGIN_SECONDS: i64 = 300;

/// Age below which a token is not renewed by the clock, in case the clocks of GARM and operator differ.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A token and what is known of its end.
pub(super) struct Session {
    pub token: SecretString,
    since: Instant,
    expires: Option<Timestamp>,
}

impl Session {
    fn is_due(&self, now: Timestamp) -> bool {
        let Some(expires) = self.expires else {
            return false;
        };
        self.since.elapsed() >= MIN_AGE && expires.as_second() - now.as_second() < MARGIN_SECONDS
    }
}

/// The login of one GARM.
pub(super) struct Auth {
    settings: Arc<Settings>,
    observer: Arc<dyn Observer>,
    current: RwLock<Option<Arc<Session>>>,
    /// Whoever holds it logs in, for all.
    turn: Mutex<Option<Refused>>,
}

/// A login that GARM refused, which is not tried again at once with the same password.
struct Refused {
    password: SecretString,
    error: Error,
    until: Instant,
    pause: Duration,
}

impl Auth {
    pub(super) fn new(settings: Arc<Settings>, observer: Arc<dyn Observer>) -> Self {
        Self {
            settings,
            observer,
            current: RwLock::new(None),
            turn: Mutex::new(None),
        }
    }

    /// Gives a token, logging in when there is none or it is about to end.
    pub(super) async fn session(&self, http: &Http) -> Result<Arc<Session>, Error> {
        match self.current() {
            None => self.renew(http, None).await,
            Some(session) if session.is_due(Timestamp::now()) => {
                // While the old one is good, a failed renewal harms nobody.
                let renewed = self.renew(http, Some(&session)).await;
                Ok(renewed.unwrap_or(session))
            }
            Some(session) => Ok(session),
        }
    }

    /// Gives another token than the one that GARM refused: somebody else's newer one, or a fresh one.
    pub(super) async fn renew(
        &self,
        http: &Http,
        refused: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, Error> {
        let mut turn = self.turn.lock().await;
        if let Some(current) = self.current()
            && !refused.is_some_and(|refused| Arc::ptr_eq(refused, &current))
        {
            return Ok(current);
        }
        let password = self.settings.password.read().await?;
        if let Some(earlier) = &*turn
            && Instant::now() < earlier.until
            && earlier.password.expose_secret() == password.expose_secret()
        {
            return Err(earlier.error.clone());
        }
        let result = self.log_in(http, &password, refused.is_none()).await;
        match result {
            Ok(session) => {
                if let Some(expires) = session.expires {
                    self.observer.token_expires(expires);
                }
                let session = Arc::new(session);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) =
                    Some(Arc::clone(&session));
                *turn = None;
                Ok(session)
            }
            Err(error) => {
                if matches!(
                    error,
                    Error::LoginRefused | Error::BadRequest { .. } | Error::Conflict { .. }
                ) {
                    *turn = Some(self.refused(turn.take(), password, error.clone()));
                    // Nobody needs to try the old token again.
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = None;
                }
                Err(error)
            }
        }
    }

    fn current(&self) -> Option<Arc<Session>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn refused(&self, earlier: Option<Refused>, password: SecretString, error: Error) -> Refused {
        let (first, longest) = self.settings.timings.login_backoff;
        let same =
            earlier.filter(|earlier| earlier.password.expose_secret() == password.expose_secret());
        let pause = same.map_or(first, |earlier| (earlier.pause * 2).min(longest));
        Refused {
            password,
            error,
            until: Instant::now() + pause.mul_f64(rand::rng().random_range(0.9..1.0)),
            pause,
        }
    }

    async fn log_in(
        &self,
        http: &Http,
        password: &SecretString,
        is_first: bool,
    ) -> Result<Session, Error> {
        if is_first && self.settings.init && self.looks_uninitialised(http).await {
            match self.first_run(http, password).await {
                // Initialised, but without URLs, or somebody else was faster.
                Ok(()) | Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match self.ask(http, password).await {
            // v0.1.x answers so too when it has no admin yet; only a first-run tells.
            Err(Error::LoginRefused) if self.settings.init => {
                match self.first_run(http, password).await {
                    Err(Error::Conflict { .. }) => Err(Error::LoginRefused),
                    Err(error) => Err(error),
                    Ok(()) => self.ask(http, password).await,
                }
            }
            Err(Error::LoginRefused) if self.looks_uninitialised(http).await => {
                Err(Error::InitRequired)
            }
            Err(Error::InitRequired) if self.settings.init => {
                match self.first_run(http, password).await {
                    // Somebody else was faster.
                    Ok(()) | Err(Error::Conflict { .. }) => self.ask(http, password).await,
                    Err(error) => Err(error),
                }
            }
            result => result,
        }
    }

    async fn ask(&self, http: &Http, password: &SecretString) -> Result<Session, Error> {
        let login = Login {
            username: self.settings.username.clone(),
            password: password.clone(),
        };
        let answer = post(http, "Login", "/auth/login", &login).await?;
        if !answer.is_success() {
            return Err(match read_refusal("Login", &answer) {
                Error::Unauthorized { .. } => Error::LoginRefused,
                error => error,
            });
        }
        let LoginAnswer { token } =
            serde_json::from_slice(&answer.body).map_err(|_| unreadable("Login", &answer))?;
        Ok(Session {
            expires: expiry(token.expose_secret()),
            since: Instant::now(),
            token,
        })
    }

    async fn first_run(&self, http: &Http, password: &SecretString) -> Result<(), Error> {
        let admin = FirstRun {
            username: self.settings.username.clone(),
            email: self.settings.email.clone(),
            full_name: self.settings.username.clone(),
            password: password.clone(),
        };
        let answer = post(http, "Init", "/first-run", &admin).await?;
        if answer.is_success() {
            tracing::info!(username = %admin.username, "made the admin user of a fresh GARM");
            return Ok(());
        }
        Err(match read_refusal("Init", &answer) {
            Error::BadRequest { details } => Error::BadRequest {
                details: format!("no admin user could be made: {details}"),
            },
            error => error,
        })
    }

    /// Says whether GARM may have no admin yet. v0.1.x answers calls without a token by its URL gate then, because URLs
    /// cannot be set before there is an admin; with an admin and URLs it asks for a token.
    async fn looks_uninitialised(&self, http: &Http) -> bool {
        let request = Request {
            label: "pool.List",
            method: Method::GET,
            route: "/pools",
            args: &[],
            query: &[],
            body: None,
        };
        match http.send(&request, None).await {
            Ok(answer) => matches!(
                refusal(request.label, answer.status, "", None, &answer.body),
                Refusal::Final(Error::UrlsRequired | Error::InitRequired)
            ),
            Err(_) => false,
        }
    }
}

async fn post<T: serde::Serialize>(
    http: &Http,
    label: &'static str,
    route: &'static str,
    body: &T,
) -> Result<Answer, Error> {
    let body = serde_json::to_vec(body).map_err(|_| Error::Decode {
        operation: label,
        fault: "the request could not be written".to_owned(),
    })?;
    let request = Request {
        label,
        method: Method::POST,
        route,
        args: &[],
        query: &[],
        body: Some(body),
    };
    http.send(&request, None).await
}

fn read_refusal(label: &'static str, answer: &Answer) -> Error {
    match refusal(
        label,
        answer.status,
        &answer.content_type,
        answer.retry_after,
        &answer.body,
    ) {
        Refusal::Final(error) => error,
        Refusal::Token => Error::LoginRefused,
    }
}

fn unreadable(operation: &'static str, answer: &Answer) -> Error {
    Error::Unexpected {
        operation,
        status: answer.status,
        content: super::error::describe(&answer.content_type),
    }
}

/// Reads the end of a token from its claims. Nobody checks the signature: only GARM has to trust it.
fn expiry(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims.exp).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_end_of_a_token_without_its_signature() {
        let claims = URL_SAFE_NO_PAD.encode(r#"{"user":"u","exp":1796142221}"#);
        let expected = Timestamp::from_second(1_796_142_221).unwrap();
        assert_eq!(expiry(&format!("head.{claims}.signature")), Some(expected));
        assert_eq!(expiry("not a token"), None);
        assert_eq!(expiry("a.b.c"), None);
    }

    #[test]
    fn does_not_renew_a_young_token_by_a_clock_that_differs() {
        let session = Session {
            token: "t".to_owned().into(),
            since: Instant::now(),
            expires: Some(Timestamp::from_second(1).unwrap()),
        };
        assert!(!session.is_due(Timestamp::now()));
    }
}
