//! The routes that GARM calls for pools (its scale sets use others).

use std::{sync::Arc, time::SystemTime};

use axum::{
    Json, Router,
    extract::{FromRequestParts, Path, Request, State as Extract},
    http::{StatusCode, Uri, header::AUTHORIZATION, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use super::State;

/// Far away, for tokens that shall not expire.
const NEVER: &str = "2099-01-01T00:00:00Z";

type Shared = Extract<Arc<State>>;

pub(super) fn router(state: Arc<State>) -> Router {
    let mut router = Router::new();
    for scope in [
        "repos/{owner}/{repo}",
        "orgs/{org}",
        "enterprises/{enterprise}",
    ] {
        let path = |rest: &str| format!("/api/v3/{scope}/{rest}");
        router = router
            .route(&path("actions/runners"), get(list_runners))
            .route(
                &path("actions/runners/{id}"),
                get(get_runner).delete(delete_runner),
            )
            .route(&path("actions/runners/downloads"), get(downloads))
            .route(
                &path("actions/runners/generate-jitconfig"),
                post(generate_jitconfig),
            )
            .route(
                &path("actions/runners/registration-token"),
                post(registration_token),
            )
            .route(&path("actions/runner-groups"), get(runner_groups))
            .route(&path("hooks"), get(list_hooks).post(create_hook))
            .route(&path("hooks/{id}"), get(get_hook).delete(delete_hook))
            .route(&path("hooks/{id}/pings"), post(ping_hook));
    }
    router
        .route("/api/v3/rate_limit", get(rate_limit))
        .route("/app/installations/{id}/access_tokens", post(access_token))
        .route(
            "/api/v3/app/installations/{id}/access_tokens",
            post(access_token),
        )
        // All others, `/actions/runner-registration` among them: GARM then does without scale sets.
        .fallback(async || problem(StatusCode::NOT_FOUND, "Not Found"))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), gate))
        .with_state(state)
}

/// Is slow and refuses tokens as told.
async fn gate(Extract(state): Shared, request: Request, next: Next) -> Response {
    let token = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = token
        .and_then(|value| value.split_once(' '))
        .map_or("", |(_, token)| token);
    let (delay, refused) = state.with(|state| (state.delay, state.refused_tokens.contains(token)));
    tokio::time::sleep(delay).await;
    if refused {
        return problem(StatusCode::UNAUTHORIZED, "Bad credentials");
    }
    next.run(request).await
}

/// The scope in a path, as in `repos/OWNER/NAME`.
struct Scope(String);

impl<S: Sync> FromRequestParts<S> for Scope {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        scope_of(&parts.uri)
            .map(Self)
            .ok_or_else(|| problem(StatusCode::NOT_FOUND, "Not Found"))
    }
}

fn scope_of(uri: &Uri) -> Option<String> {
    let segments: Vec<&str> = uri.path().strip_prefix("/api/v3/")?.split('/').collect();
    let length = if segments.first() == Some(&"repos") {
        3
    } else {
        2
    };
    segments.get(..length).map(|scope| scope.join("/"))
}

/// The number at the end of a path, whatever precedes it.
struct Id(u64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let found =
            Path::<std::collections::BTreeMap<String, String>>::from_request_parts(parts, state)
                .await;
        let id = found
            .ok()
            .and_then(|Path(values)| values.get("id")?.parse().ok());
        id.map(Self)
            .ok_or_else(|| problem(StatusCode::NOT_FOUND, "Not Found"))
    }
}

fn problem(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

fn found(value: Option<Value>) -> Response {
    value.map_or_else(
        || problem(StatusCode::NOT_FOUND, "Not Found"),
        |value| Json(value).into_response(),
    )
}

fn removed(was_there: bool) -> Response {
    if was_there {
        StatusCode::NO_CONTENT.into_response()
    } else {
        problem(StatusCode::NOT_FOUND, "Not Found")
    }
}

async fn rate_limit() -> Json<Value> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    Json(
        json!({ "resources": { "core": { "limit": 5000, "remaining": 4999, "used": 1, "reset": now + 3600 } } }),
    )
}

async fn access_token() -> Response {
    let token = json!({ "token": format!("app-{}", crate::random_word()), "expires_at": NEVER });
    (StatusCode::CREATED, Json(token)).into_response()
}

async fn downloads() -> Json<Value> {
    let tool = |os: &str, architecture: &str| {
        let filename = format!("actions-runner-{os}-{architecture}-2.330.0.tar.gz");
        json!({
            "os": os,
            "architecture": architecture,
            "download_url": format!("http://127.0.0.1/{filename}"),
            "filename": filename,
        })
    };
    Json(json!([
        tool("linux", "x64"),
        tool("linux", "arm64"),
        tool("linux", "arm"),
        tool("win", "x64"),
        tool("win", "arm64")
    ]))
}

async fn runner_groups() -> Json<Value> {
    let groups = json!([{ "id": 1, "name": "Default" }, { "id": 7, "name": "special" }]);
    Json(json!({ "total_count": 2, "runner_groups": groups }))
}

async fn registration_token() -> Response {
    let token =
        json!({ "token": format!("registration-{}", crate::random_word()), "expires_at": NEVER });
    (StatusCode::CREATED, Json(token)).into_response()
}

async fn generate_jitconfig(
    Extract(state): Shared,
    Scope(scope): Scope,
    Json(wanted): Json<Value>,
) -> Response {
    let name = wanted["name"].as_str().unwrap_or_default();
    let labels = wanted["labels"].as_array().into_iter().flatten();
    let labels: Vec<String> = labels
        .filter_map(Value::as_str)
        .map(ToOwned::to_owned)
        .collect();
    let runner = state.with(|state| {
        if state.fail_jitconfig {
            return Err((StatusCode::INTERNAL_SERVER_ERROR, "Server Error"));
        }
        if state.find_runner(&scope, name).is_some() {
            return Err((
                StatusCode::CONFLICT,
                "Already exists - A runner with that name already exists",
            ));
        }
        Ok(state.add_runner(&scope, name, &labels))
    });
    let runner = match runner {
        Ok(runner) => runner,
        Err((status, message)) => return problem(status, message),
    };
    // File names and their contents, as a runner stores them.
    let files: serde_json::Map<String, Value> =
        [".runner", ".credentials", ".credentials_rsaparams"]
            .into_iter()
            .map(|file| {
                (
                    file.to_owned(),
                    BASE64.encode(format!("{file} of {name}")).into(),
                )
            })
            .collect();
    let config = BASE64.encode(Value::Object(files).to_string());
    (
        StatusCode::CREATED,
        Json(json!({ "runner": runner.to_json(), "encoded_jit_config": config })),
    )
        .into_response()
}

/// Answers in one page: GARM asks for 100, and stops where the total is reached.
async fn list_runners(Extract(state): Shared, Scope(scope): Scope, uri: Uri) -> Json<Value> {
    let (page, size) = page_of(uri.query().unwrap_or_default());
    let runners: Vec<Value> = state.with(|state| {
        let runners = state
            .runners
            .values()
            .filter(|runner| runner.scope == scope);
        runners.map(super::GithubRunner::to_json).collect()
    });
    let total = runners.len();
    let wanted: Vec<Value> = runners
        .into_iter()
        .skip((page - 1) * size)
        .take(size)
        .collect();
    Json(json!({ "total_count": total, "runners": wanted }))
}

fn page_of(query: &str) -> (usize, usize) {
    let number = |name: &str, default: usize| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs
            .filter(|(key, _)| *key == name)
            .find_map(|(_, value)| value.parse().ok());
        value.unwrap_or(default).max(1)
    };
    (number("page", 1), number("per_page", 30))
}

async fn get_runner(Extract(state): Shared, Scope(scope): Scope, Id(id): Id) -> Response {
    found(state.with(|state| {
        let runner = state
            .runners
            .get(&id)
            .filter(|runner| runner.scope == scope);
        runner.map(super::GithubRunner::to_json)
    }))
}

async fn delete_runner(Extract(state): Shared, Scope(scope): Scope, Id(id): Id) -> Response {
    state.with(|state| {
        match state
            .runners
            .get(&id)
            .filter(|runner| runner.scope == scope)
        {
            Some(runner) if runner.busy => {
                let message = format!(
                    "Bad request - Runner \"{}\" is still running a job\"",
                    runner.name
                );
                problem(StatusCode::UNPROCESSABLE_ENTITY, &message)
            }
            runner => {
                let was_there = runner.is_some();
                if was_there {
                    state.runners.remove(&id);
                }
                removed(was_there)
            }
        }
    })
}

async fn list_hooks(Extract(state): Shared, Scope(scope): Scope) -> Json<Value> {
    Json(state.with(|state| {
        let hooks = state.hooks.iter().filter(|((owner, _), _)| *owner == scope);
        hooks.map(|(_, hook)| hook.clone()).collect()
    }))
}

async fn create_hook(
    Extract(state): Shared,
    Scope(scope): Scope,
    Json(mut hook): Json<Value>,
) -> Response {
    let hook = state.with(|state| {
        let id = state.next_id();
        hook["id"] = id.into();
        if hook["active"].is_null() {
            hook["active"] = true.into();
        }
        if let Some(config) = hook["config"].as_object_mut() {
            // GitHub shows no secret.
            config.remove("secret");
        }
        state.hooks.insert((scope, id), hook.clone());
        hook
    });
    (StatusCode::CREATED, Json(hook)).into_response()
}

async fn get_hook(Extract(state): Shared, Scope(scope): Scope, Id(id): Id) -> Response {
    found(state.with(|state| state.hooks.get(&(scope, id)).cloned()))
}

async fn delete_hook(Extract(state): Shared, Scope(scope): Scope, Id(id): Id) -> Response {
    removed(state.with(|state| state.hooks.remove(&(scope, id)).is_some()))
}

async fn ping_hook(Extract(state): Shared, Scope(scope): Scope, Id(id): Id) -> Response {
    removed(state.with(|state| state.hooks.contains_key(&(scope, id))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_scope_from_the_path() {
        let scope = |path: &'static str| scope_of(&Uri::from_static(path));
        assert_eq!(
            scope("/api/v3/repos/o/r/actions/runners").as_deref(),
            Some("repos/o/r")
        );
        assert_eq!(
            scope("/api/v3/orgs/acme/hooks").as_deref(),
            Some("orgs/acme")
        );
        assert_eq!(scope("/elsewhere"), None);
    }

    #[test]
    fn reads_pages() {
        assert_eq!(page_of("per_page=100&page=2"), (2, 100));
        assert_eq!(page_of(""), (1, 30));
    }
}
