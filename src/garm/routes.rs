//! The routes of GARM's API that we call, one method each. None remembers what it heard: that is for `calls`.

use super::client::{Call, Client, Result, delete, get, post, put};
use super::lanes::Lane;
use super::wire::{
    Controller, CreateCredential, CreateEndpoint, CreateEntity, CreatePool, Credential, Endpoint,
    Entity, EntityKind, Hook, InstallHook, Instance, List, Pool, Provider, UpdateController,
    UpdateCredential, UpdateEndpoint, UpdateEntity, UpdatePool,
};

/// A route that all three kinds of entities have, in the order of [`of`].
macro_rules! routes {
    ($rest:literal) => {
        [
            concat!("/repositories", $rest),
            concat!("/organizations", $rest),
            concat!("/enterprises", $rest),
        ]
    };
}

impl Client {
    // === the server

    pub(super) async fn controller(&self) -> Result<Controller> {
        self.answer(Call {
            lane: Lane::Probe,
            ..get("controller.Info", "/controller", &[])
        })
        .await
    }

    pub(super) async fn update_controller(&self, update: &UpdateController) -> Result<Controller> {
        let label = "controller.Update";
        self.answer(put(label, "/controller", &[], update)?).await
    }

    pub(super) async fn providers(&self) -> Result<List<Provider>> {
        self.answer(get("provider.List", "/providers", &[])).await
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
        let route = of(kind, routes!(""));
        let mut list: List<Entity> = self.answer(get(label, route, &[])).await?;
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
        let route = of(kind, routes!("/{id}"));
        let entity: Entity = self.answer(get(label, route, &[id])).await?;
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
        let mut call = post(of(kind, labels), of(kind, routes!("")), &[], entity)?;
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
        let (route, args) = (of(kind, routes!("/{id}")), [id]);
        let call = put(of(kind, labels), route, &args, update)?;
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
        let args = [id];
        let mut call = delete(of(kind, labels), of(kind, routes!("/{id}")), &args);
        if kind != EntityKind::Enterprise {
            call.request.query = &[("keepWebhook", "true")];
        }
        self.done(call).await
    }

    // === webhooks of entities; all wait on GitHub

    pub(super) async fn webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        let args = [id];
        let mut call = get("webhook.Get", of(kind, routes!("/{id}/webhook")), &args);
        call.lane = Lane::GitHub;
        // GARM answers 500 for GitHub's failures too.
        call.may_repeat = false;
        self.answer(call).await
    }

    pub(super) async fn install_webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        let (route, args) = (of(kind, routes!("/{id}/webhook")), [id]);
        let mut call = post("webhook.Install", route, &args, &InstallHook::default())?;
        call.lane = Lane::GitHub;
        self.answer(call).await
    }

    pub(super) async fn uninstall_webhook(&self, kind: EntityKind, id: &str) -> Result<()> {
        let (route, args) = (of(kind, routes!("/{id}/webhook")), [id]);
        let mut call = delete("webhook.Uninstall", route, &args);
        call.lane = Lane::GitHub;
        self.done(call).await
    }

    // === pools

    pub(super) async fn pools(&self) -> Result<List<Pool>> {
        self.answer(get("pool.List", "/pools", &[])).await
    }

    pub(super) async fn pools_of(&self, kind: EntityKind, id: &str) -> Result<List<Pool>> {
        let route = of(kind, routes!("/{id}/pools"));
        let mut list: List<Pool> = self.answer(get("pool.List", route, &[id])).await?;
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
        let (route, args) = (of(kind, routes!("/{id}/pools")), [id]);
        let call = post(of(kind, labels), route, &args, pool)?;
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
        self.done(call).await
    }
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

/// Picks a label or a route by kind: repository, organization, enterprise.
fn of(kind: EntityKind, texts: [&'static str; 3]) -> &'static str {
    match kind {
        EntityKind::Repository => texts[0],
        EntityKind::Organization => texts[1],
        EntityKind::Enterprise => texts[2],
    }
}
