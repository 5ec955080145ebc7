//! A small client for tests to look at GARM, and to change things behind the operator's back.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// A client of GARM's administrator.
#[derive(Debug)]
pub struct Api {
    base: String,
    username: String,
    password: String,
    http: Client,
    token: Mutex<Option<String>>,
}

/// What GARM answered, whatever it was.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The body as JSON; null for an empty one, a string for anything that is not JSON.
    pub body: Value,
    call: String,
}

impl Answer {
    /// Whether GARM failed without details, as it does when two of its own transactions meet.
    fn is_locked(&self) -> bool {
        self.status == StatusCode::INTERNAL_SERVER_ERROR && self.body["details"] == ""
    }

    /// The body; fails unless the status is 2xx.
    pub fn ok(self) -> Result<Value> {
        if !self.status.is_success() {
            bail!(
                "{}: GARM answered {}: {}",
                self.call,
                self.status,
                self.body
            );
        }
        Ok(self.body)
    }
}

impl Api {
    pub(super) fn new(url: &str, username: &str, password: &str) -> Result<Self> {
        let http = Client::builder()
            .timeout(Duration::from_secs(60))
            .no_proxy()
            .build()
            .context("make an HTTP client")?;
        Ok(Self {
            base: format!("{url}/api/v1"),
            username: username.to_owned(),
            password: password.to_owned(),
            http,
            token: Mutex::new(None),
        })
    }

    /// Reads a path such as `/pools`.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, &Value::Null).await?.ok()
    }

    /// Reads a list; GARM answers null for some empty ones.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path).await? {
            Value::Array(list) => Ok(list),
            Value::Null => Ok(Vec::new()),
            other => bail!("GET {path}: not a list: {other}"),
        }
    }

    /// Creates something.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", path, body).await?.ok()
    }

    /// Changes something.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("PUT", path, body).await?.ok()
    }

    /// Deletes something.
    pub async fn delete(&self, path: &str) -> Result<()> {
        self.call("DELETE", path, &Value::Null)
            .await?
            .ok()
            .map(drop)
    }

    /// Makes a call and returns the answer whatever it is; logs in (again) when needed. A null body is not sent.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        let token = self.token().await?;
        let answer = self.send(method, path, body, Some(&token)).await?;
        // Since the token was given GARM may have been wiped; GitHub's 401 has another text.
        if answer.status != StatusCode::UNAUTHORIZED
            || answer.body["error"] != "Authentication failed"
        {
            return Ok(answer);
        }
        self.forget_token();
        let token = self.token().await?;
        self.send(method, path, body, Some(&token)).await
    }

    /// Makes a call without a token.
    pub async fn anonymous(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.send(method, path, body, None).await
    }

    /// A token that is valid now, as for a websocket.
    pub async fn token(&self) -> Result<String> {
        if let Some(token) = self
            .token
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
        {
            return Ok(token);
        }
        let login = json!({ "username": self.username, "password": self.password });
        let answer = self.anonymous("POST", "/auth/login", &login).await?.ok()?;
        let token = answer["token"]
            .as_str()
            .context("the login's answer has no token")?
            .to_owned();
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
        Ok(token)
    }

    pub(super) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Sends a request, and again for as long as GARM's database is locked: that is no test's matter. What GARM always answers so, as v0.1.5
    /// does about an unknown provider, is answered after a second.
    async fn send(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Answer> {
        for _ in 0..10 {
            let answer = self.send_once(method, path, body, token).await?;
            if !answer.is_locked() {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.send_once(method, path, body, token).await
    }

    async fn send_once(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Answer> {
        let call = format!("{method} {path}");
        let parsed = method.parse::<Method>().with_context(|| call.clone())?;
        let mut request = self.http.request(parsed, format!("{}{path}", self.base));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| call.clone())?;
        let status = response.status();
        let text = response.text().await.with_context(|| call.clone())?;
        let body = if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        Ok(Answer { status, body, call })
    }
}
