//! How calls are made: each waits for its turn, brings a token, and is tried again when GARM failed it for a moment.
//! What calls there are stands in `routes`.

use std::sync::Arc;

use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::auth::{Auth, Session};
use super::error::{Error, Refusal, describe, refusal};
use super::http::{Answer, Http, Request};
use super::lanes::{Lane, Lanes};
use super::observer::Observer;
use super::settings::Settings;

pub(super) type Result<T> = std::result::Result<T, Error>;

/// Calls one GARM.
pub(super) struct Client {
    pub(super) http: Http,
    pub(super) auth: Auth,
    lanes: Lanes,
    observer: Arc<dyn Observer>,
    settings: Arc<Settings>,
    /// Told when a call fails in a way that puts GARM as a whole in doubt.
    pub(super) doubt: Notify,
}

/// A call and how it may be made.
pub(super) struct Call<'a> {
    pub(super) request: Request<'a>,
    pub(super) lane: Lane,
    /// Whether it is made again, once, when GARM's database was locked. Of a write only who looks at GARM again first knows what is left to do.
    pub(super) may_repeat: bool,
}

impl Client {
    pub(super) fn new(settings: Arc<Settings>, observer: Arc<dyn Observer>) -> Self {
        Self {
            http: Http::new(Arc::clone(&settings), Arc::clone(&observer)),
            auth: Auth::new(Arc::clone(&settings), Arc::clone(&observer)),
            lanes: Lanes::new(settings.timings.write_turn),
            observer,
            settings,
            doubt: Notify::new(),
        }
    }

    pub(super) async fn answer<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T> {
        let answer = self.call(&call).await?;
        read(call.request.label, &answer)
    }

    /// Makes a call whose answer has no body, or one that says nothing.
    pub(super) async fn done(&self, call: Call<'_>) -> Result<()> {
        self.call(&call).await.map(|_| ())
    }

    async fn call(&self, call: &Call<'_>) -> Result<Answer> {
        let mut result = self.send_in_turn(call).await;
        if call.may_repeat && result.as_ref().is_err_and(Error::is_locked) {
            tokio::time::sleep(self.settings.timings.pause()).await;
            result = self.send_in_turn(call).await;
        }
        if result.as_ref().is_err_and(Error::is_about_garm) {
            self.doubt.notify_one();
        }
        result
    }

    async fn send_in_turn(&self, call: &Call<'_>) -> Result<Answer> {
        self.lanes
            .run(call.lane, self.try_once(&call.request))
            .await
    }

    async fn try_once(&self, request: &Request<'_>) -> Result<Answer> {
        let session = self.auth.session(&self.http).await?;
        match self.send(request, &session).await? {
            Ok(answer) => Ok(answer),
            Err(Refusal::Final(error)) if !matches!(error, Error::InitRequired) => Err(error),
            Err(_) => {
                self.observer.unauthenticated();
                let session = self.auth.renew(&self.http, Some(&session)).await?;
                match self.send(request, &session).await? {
                    Ok(answer) => Ok(answer),
                    Err(Refusal::Final(error)) => Err(error),
                    // GARM refuses a token that it gave just now.
                    Err(Refusal::Token) => Err(Error::LoginRefused),
                }
            }
        }
    }

    async fn send(
        &self,
        request: &Request<'_>,
        session: &Session,
    ) -> Result<std::result::Result<Answer, Refusal>> {
        let answer = self.http.send(request, Some(&session.token)).await?;
        if answer.is_success() {
            return Ok(Ok(answer));
        }
        Ok(Err(refusal(
            request.label,
            answer.status,
            &answer.content_type,
            answer.retry_after,
            &answer.body,
        )))
    }
}

/// Reads a success.
fn read<T: DeserializeOwned>(operation: &'static str, answer: &Answer) -> Result<T> {
    serde_json::from_slice(&answer.body).map_err(|error| match answer.body.first() {
        Some(b'{' | b'[' | b'n') => Error::Decode {
            operation,
            // The place only: the text of the error may repeat what was read.
            fault: format!("{:?} error at column {}", error.classify(), error.column()),
        },
        _ => Error::Unexpected {
            operation,
            status: answer.status,
            content: describe(&answer.content_type),
        },
    })
}

fn call<'a>(
    label: &'static str,
    method: Method,
    route: &'static str,
    args: &'a [&'a str],
) -> Call<'a> {
    let lane = if method == Method::GET {
        Lane::Read
    } else {
        Lane::Write
    };
    Call {
        may_repeat: method == Method::GET,
        lane,
        request: Request {
            label,
            method,
            route,
            args,
            query: &[],
            body: None,
        },
    }
}

pub(super) fn get<'a>(label: &'static str, route: &'static str, args: &'a [&'a str]) -> Call<'a> {
    call(label, Method::GET, route, args)
}

pub(super) fn delete<'a>(
    label: &'static str,
    route: &'static str,
    args: &'a [&'a str],
) -> Call<'a> {
    call(label, Method::DELETE, route, args)
}

pub(super) fn put<'a, B: Serialize>(
    label: &'static str,
    route: &'static str,
    args: &'a [&'a str],
    body: &B,
) -> Result<Call<'a>> {
    with_body(call(label, Method::PUT, route, args), body)
}

pub(super) fn post<'a, B: Serialize>(
    label: &'static str,
    route: &'static str,
    args: &'a [&'a str],
    body: &B,
) -> Result<Call<'a>> {
    with_body(call(label, Method::POST, route, args), body)
}

fn with_body<'a, B: Serialize>(mut call: Call<'a>, body: &B) -> Result<Call<'a>> {
    let body = serde_json::to_vec(body).map_err(|_| Error::Decode {
        operation: call.request.label,
        fault: "the request could not be written".to_owned(),
    })?;
    call.request.body = Some(body);
    Ok(call)
}
