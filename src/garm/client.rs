//! One method per route of GARM's API. Each waits for its turn, brings a token, and tries again what GARM failed for a
//! moment; none remembers what it heard.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rand::Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::auth::{Auth, Session};
use super::error::{Error, NO_DETAILS, Refusal, describe, refusal};
use super::http::{Answer, Http, Request};
use super::lanes::{Lane, Lanes};
use super::settings::{Observer, Settings};
use super::wire::{
    Controller, CreateCredential, CreateEndpoint, CreateEntity, CreatePool, Credential, Endpoint,
    Entity, EntityKind, Hook, InstallHook, Instance, List, Pool, UpdateController,
    UpdateCredential, UpdateEndpoint, UpdateEntity, UpdatePool,
};

/// How often a call is tried again that GARM failed without details.
const RETRIES: u32 = 3;

type Result<T> = std::result::Result<T, Error>;

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
struct Call<'a> {
    request: Request<'a>,
    lane: Lane,
    /// Whether a second try does no harm.
    may_repeat: bool,
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

    // === the server

    pub(super) async fn controller(&self) -> Result<Controller> {
        self.answer(get("controller.Info", "/controller", &[]))
            .await
    }

    pub(super) async fn update_controller(&self, update: &UpdateController) -> Result<Controller> {
        let label = "controller.Update";
        self.answer(put(label, "/controller", &[], update)?).await
    }

    // === endpoints

    pub(super) async fn endpoints(&self) -> Result<List<Endpoint>> {
        self.answer(get("endpoints.List", "/github/endpoints", &[]))
            .await
    }

    pub(super) async fn endpoint(&self, name: &str) -> Result<Endpoint> {
        self.answer(get("endpoints.Get", "/github/endpoints/{name}", &[name]))
            .await
    }

    pub(super) async fn create_endpoint(&self, endpoint: &CreateEndpoint) -> Result<Endpoint> {
        let route = "/github/endpoints";
        self.answer(post("endpoints.Create", route, &[], endpoint)?)
            .await
    }

    pub(super) async fn update_endpoint(
        &self,
        name: &str,
        update: &UpdateEndpoint,
    ) -> Result<Endpoint> {
        let route = "/github/endpoints/{name}";
        self.answer(put("endpoints.Update", route, &[name], update)?)
            .await
    }

    pub(super) async fn delete_endpoint(&self, name: &str) -> Result<()> {
        let route = "/github/endpoints/{name}";
        self.done(delete("endpoints.Delete", route, &[name])).await
    }

    // === credentials

    pub(super) async fn credentials(&self) -> Result<List<Credential>> {
        self.answer(get("credentials.List", "/github/credentials", &[]))
            .await
    }

    pub(super) async fn credential(&self, id: i64) -> Result<Credential> {
        let id = id.to_string();
        self.answer(get("credentials.Get", "/github/credentials/{id}", &[&id]))
            .await
    }

    pub(super) async fn create_credential(
        &self,
        credential: &CreateCredential,
    ) -> Result<Credential> {
        let route = "/github/credentials";
        self.answer(post("credentials.Create", route, &[], credential)?)
            .await
    }

    pub(super) async fn update_credential(
        &self,
        id: i64,
        update: &UpdateCredential,
    ) -> Result<Credential> {
        let (route, id) = ("/github/credentials/{id}", id.to_string());
        self.answer(put("credentials.Update", route, &[&id], update)?)
            .await
    }

    pub(super) async fn delete_credential(&self, id: i64) -> Result<()> {
        let (route, id) = ("/github/credentials/{id}", id.to_string());
        self.done(delete("credentials.Delete", route, &[&id])).await
    }

    // === entities

    pub(super) async fn entities(&self, kind: EntityKind) -> Result<List<Entity>> {
        let label = of(
            kind,
            ["repository.List", "organization.List", "enterprises.List"],
        );
        let mut list: List<Entity> = self
            .answer(get(label, "/{entities}", &[kind.path()]))
            .await?;
        for entity in &mut list.items {
            entity.kind = kind;
        }
        Ok(list)
    }

    pub(super) async fn entity(&self, kind: EntityKind, id: &str) -> Result<Entity> {
        let label = of(
            kind,
            ["repository.Get", "organization.Get", "enterprises.Get"],
        );
        let entity: Entity = self
            .answer(get(label, "/{entities}/{id}", &[kind.path(), id]))
            .await?;
        Ok(Entity {
            kind,
            events: Some(entity.events.unwrap_or_default()),
            ..entity
        })
    }

    /// Waits on GitHub.
    pub(super) async fn create_entity(
        &self,
        kind: EntityKind,
        entity: &CreateEntity,
    ) -> Result<Entity> {
        let labels = [
            "repository.Create",
            "organization.Create",
            "enterprises.Create",
        ];
        let mut call = post(of(kind, labels), "/{entities}", &[], entity)?;
        let args = [kind.path()];
        call.request.args = &args;
        call.lane = Lane::GitHub;
        let entity: Entity = self.answer(call).await?;
        Ok(Entity { kind, ..entity })
    }

    pub(super) async fn update_entity(
        &self,
        kind: EntityKind,
        id: &str,
        update: &UpdateEntity,
    ) -> Result<Entity> {
        let labels = [
            "repository.Update",
            "organization.Update",
            "enterprises.Update",
        ];
        let args = [kind.path(), id];
        let call = put(of(kind, labels), "/{entities}/{id}", &args, update)?;
        let entity: Entity = self.answer(call).await?;
        Ok(Entity { kind, ..entity })
    }

    /// Leaves the entity's webhook alone, which also keeps GARM from answering 404 for a manager that is not loaded.
    pub(super) async fn delete_entity(&self, kind: EntityKind, id: &str) -> Result<()> {
        let labels = [
            "repository.Delete",
            "organization.Delete",
            "enterprises.Delete",
        ];
        let args = [kind.path(), id];
        let mut call = delete(of(kind, labels), "/{entities}/{id}", &args);
        if kind != EntityKind::Enterprise {
            call.request.query = &[("keepWebhook", "true")];
        }
        self.done(call).await
    }

    // === webhooks of entities; all wait on GitHub

    pub(super) async fn webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        let args = [kind.path(), id];
        let mut call = get("webhook.Get", "/{entities}/{id}/webhook", &args);
        call.lane = Lane::GitHub;
        call.may_repeat = false;
        self.answer(call).await
    }

    pub(super) async fn install_webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        let args = [kind.path(), id];
        let route = "/{entities}/{id}/webhook";
        let mut call = post("webhook.Install", route, &args, &InstallHook::default())?;
        call.lane = Lane::GitHub;
        self.answer(call).await
    }

    pub(super) async fn uninstall_webhook(&self, kind: EntityKind, id: &str) -> Result<()> {
        let args = [kind.path(), id];
        let mut call = delete("webhook.Uninstall", "/{entities}/{id}/webhook", &args);
        call.lane = Lane::GitHub;
        call.may_repeat = false;
        self.done(call).await
    }

    // === pools

    pub(super) async fn pools(&self) -> Result<List<Pool>> {
        self.answer(get("pool.List", "/pools", &[])).await
    }

    pub(super) async fn pools_of(&self, kind: EntityKind, id: &str) -> Result<List<Pool>> {
        let args = [kind.path(), id];
        let mut list: List<Pool> = self
            .answer(get("pool.List", "/{entities}/{id}/pools", &args))
            .await?;
        for pool in &mut list.items {
            in_scope(pool, kind, id);
        }
        Ok(list)
    }

    pub(super) async fn pool(&self, id: &str) -> Result<Pool> {
        let pool: Pool = self.answer(get("pool.Get", "/pools/{id}", &[id])).await?;
        Ok(pool.with_specs())
    }

    /// Makes another pool each time it is called.
    pub(super) async fn create_pool(
        &self,
        kind: EntityKind,
        id: &str,
        pool: &CreatePool,
    ) -> Result<Pool> {
        let labels = ["pool.CreateRepo", "pool.CreateOrg", "pool.CreateEnterprise"];
        let args = [kind.path(), id];
        let call = post(of(kind, labels), "/{entities}/{id}/pools", &args, pool)?;
        let mut pool: Pool = self.answer(call).await?;
        in_scope(&mut pool, kind, id);
        Ok(pool.with_specs())
    }

    pub(super) async fn update_pool(&self, id: &str, update: &UpdatePool) -> Result<Pool> {
        let pool: Pool = self
            .answer(put("pool.UpdatePool", "/pools/{id}", &[id], update)?)
            .await?;
        Ok(pool.with_specs())
    }

    pub(super) async fn delete_pool(&self, id: &str) -> Result<()> {
        self.done(delete("pool.Delete", "/pools/{id}", &[id])).await
    }

    // === instances

    pub(super) async fn instances(&self) -> Result<List<Instance>> {
        self.answer(get("instances.List", "/instances", &[])).await
    }

    pub(super) async fn instances_of(&self, pool_id: &str) -> Result<List<Instance>> {
        let route = "/pools/{id}/instances";
        self.answer(get("instances.ListPool", route, &[pool_id]))
            .await
    }

    pub(super) async fn instance(&self, name: &str) -> Result<Instance> {
        let instance: Instance = self
            .answer(get("instances.Get", "/instances/{name}", &[name]))
            .await?;
        Ok(instance.with_addresses())
    }

    /// Asks for a deletion, which GARM then does by and by. Waits on GitHub.
    pub(super) async fn delete_instance(&self, name: &str, force: bool) -> Result<()> {
        let args = [name];
        let mut call = delete("instances.Delete", "/instances/{name}", &args);
        if force {
            call.request.query = &[("forceRemove", "true")];
        }
        call.lane = Lane::GitHub;
        // GARM answers 500 for GitHub's failures too; the next reconcile asks again.
        call.may_repeat = false;
        self.done(call).await
    }

    // === how

    async fn answer<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T> {
        let answer = self.call(&call).await?;
        read(call.request.label, &answer)
    }

    /// Makes a call whose answer has no body, or one that says nothing.
    async fn done(&self, call: Call<'_>) -> Result<()> {
        self.call(&call).await.map(|_| ())
    }

    async fn call(&self, call: &Call<'_>) -> Result<Answer> {
        let mut tries = 0;
        loop {
            let result = self
                .lanes
                .run(call.lane, self.try_once(&call.request))
                .await;
            match result {
                Err(Error::Server {
                    status: 500,
                    ref details,
                }) if call.may_repeat && tries < RETRIES && details == NO_DETAILS => {
                    tokio::time::sleep(self.pause(tries)).await;
                    tries += 1;
                }
                result => {
                    if result.as_ref().is_err_and(Error::is_about_garm) {
                        self.doubt.notify_one();
                    }
                    return result;
                }
            }
        }
    }

    fn pause(&self, tries: u32) -> Duration {
        let longest = self.settings.timings.retry * 3_u32.pow(tries);
        longest.mul_f64(rand::rng().random_range(0.5..1.0))
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

/// Fills in the entity a pool was asked for by, in case the answer does not name it.
fn in_scope(pool: &mut Pool, kind: EntityKind, id: &str) {
    if pool.scope().is_none() {
        match kind {
            EntityKind::Repository => id.clone_into(&mut pool.repo_id),
            EntityKind::Organization => id.clone_into(&mut pool.org_id),
            EntityKind::Enterprise => id.clone_into(&mut pool.enterprise_id),
        }
    }
}

/// Picks a label by kind: repository, organization, enterprise.
fn of(kind: EntityKind, labels: [&'static str; 3]) -> &'static str {
    match kind {
        EntityKind::Repository => labels[0],
        EntityKind::Organization => labels[1],
        EntityKind::Enterprise => labels[2],
    }
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
        // A create that is sent twice may make two.
        may_repeat: method != Method::POST,
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

fn get<'a>(label: &'static str, route: &'static str, args: &'a [&'a str]) -> Call<'a> {
    call(label, Method::GET, route, args)
}

fn delete<'a>(label: &'static str, route: &'static str, args: &'a [&'a str]) -> Call<'a> {
    call(label, Method::DELETE, route, args)
}

fn put<'a, B: Serialize>(
    label: &'static str,
    route: &'static str,
    args: &'a [&'a str],
    body: &B,
) -> Result<Call<'a>> {
    with_body(call(label, Method::PUT, route, args), body)
}

fn post<'a, B: Serialize>(
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
