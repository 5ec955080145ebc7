//! [`Garm`]: calls. Each answer is in the copy before the call returns, "not found" included.

use super::error::Error;
use super::handle::Garm;
use super::mirror::{Collection, Mirror, Mirrored, Ticket};
use super::wire::{
    Controller, CreateCredential, CreateEndpoint, CreateEntity, CreatePool, Credential, Endpoint,
    Entity, EntityKind, Hook, Instance, List, Pool, UpdateController, UpdateCredential,
    UpdateEndpoint, UpdateEntity, UpdatePool,
};

type Result<T> = std::result::Result<T, Error>;

// === reads

impl Garm {
    /// Reads an endpoint.
    pub async fn read_endpoint(&self, name: &str) -> Result<Endpoint> {
        let ticket = self.begin()?;
        let answer = self.shared.client.endpoint(name).await;
        self.was_read(ticket, &name.to_lowercase(), answer)
    }

    /// Reads credentials.
    pub async fn read_credential(&self, id: i64) -> Result<Credential> {
        let ticket = self.begin()?;
        let answer = self.shared.client.credential(id).await;
        self.was_read(ticket, &id, answer)
    }

    /// Reads an entity, with its last events.
    pub async fn read_entity(&self, kind: EntityKind, id: &str) -> Result<Entity> {
        let ticket = self.begin()?;
        let answer = self.shared.client.entity(kind, id).await;
        self.was_read(ticket, &(kind, id.to_owned()), answer)
    }

    /// Reads a pool, with its `extra_specs`.
    pub async fn read_pool(&self, id: &str) -> Result<Pool> {
        let ticket = self.begin()?;
        let answer = self.shared.client.pool(id).await;
        self.was_read(ticket, &id.to_owned(), answer)
    }

    /// Reads an instance, with its addresses.
    pub async fn read_instance(&self, name: &str) -> Result<Instance> {
        let ticket = self.begin()?;
        let answer = self.shared.client.instance(name).await;
        self.was_read(ticket, &name.to_owned(), answer)
    }

    /// Lists all GitHub credentials.
    pub async fn list_credentials(&self) -> Result<Vec<Credential>> {
        let ticket = self.begin()?;
        let list = self.shared.client.credentials().await?;
        self.was_listed(
            Collection::Credentials,
            "credentials.List",
            ticket,
            list,
            |_| true,
        )
    }

    /// Lists all entities of a kind.
    pub async fn list_entities(&self, kind: EntityKind) -> Result<Vec<Entity>> {
        let ticket = self.begin()?;
        let list = self.shared.client.entities(kind).await?;
        let in_scope = move |entity: &Entity| entity.kind == kind;
        self.was_listed(
            Collection::Entities(kind),
            kind.path(),
            ticket,
            list,
            in_scope,
        )
    }

    /// Lists the pools of an entity, without their `extra_specs`. This is what tells before a create whether
    /// the pool is there already.
    pub async fn list_pools_of(&self, kind: EntityKind, id: &str) -> Result<Vec<Pool>> {
        let ticket = self.begin()?;
        let list = self.shared.client.pools_of(kind, id).await?;
        let in_scope = |pool: &Pool| pool.scope() == Some((kind, id));
        self.was_listed_in_part("pool.List", ticket, list, in_scope)
    }

    /// Lists all pools, without their `extra_specs`.
    pub async fn list_pools(&self) -> Result<Vec<Pool>> {
        let ticket = self.begin()?;
        let list = self.shared.client.pools().await?;
        self.was_listed_in_part("pool.List", ticket, list, |_| true)
    }

    /// Lists the instances of a pool, without their addresses. GARM answers an empty list for an unknown pool too.
    pub async fn list_instances_of(&self, pool_id: &str) -> Result<Vec<Instance>> {
        let ticket = self.begin()?;
        let list = self.shared.client.instances_of(pool_id).await?;
        let in_scope = |instance: &Instance| instance.pool_id == pool_id;
        self.was_listed_in_part("instances.ListPool", ticket, list, in_scope)
    }

    /// Lists the names of the providers, sorted.
    pub async fn list_providers(&self) -> Result<Vec<String>> {
        self.shared.ready()?;
        let list = self.shared.client.providers().await?;
        let mut names: Vec<String> = list.items.into_iter().map(|one| one.name).collect();
        names.sort();
        Ok(names)
    }

    /// Reads an entity's webhook; `NotFound` means none is installed, `NoRoute` that this GARM does not manage webhooks.
    pub async fn webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        self.shared.ready()?;
        self.shared.client.webhook(kind, id).await
    }
}

// === writes

impl Garm {
    /// Changes the server. This works while GARM waits for its URLs too, and ends that wait.
    pub async fn update_controller(&self, update: &UpdateController) -> Result<Controller> {
        match self.shared.ready() {
            Ok(()) | Err(Error::UrlsRequired) => {}
            Err(error) => return Err(error),
        }
        let ticket = self.shared.ticket();
        let answer = self.shared.client.update_controller(update).await?;
        self.shared.nudge.notify_one();
        Ok(self.was_written(ticket, answer))
    }

    /// Makes an endpoint; `Conflict` means that one of this name exists.
    pub async fn create_endpoint(&self, endpoint: &CreateEndpoint) -> Result<Endpoint> {
        let ticket = self.begin()?;
        let answer = self.shared.client.create_endpoint(endpoint).await?;
        Ok(self.was_written(ticket, answer))
    }

    /// Changes an endpoint.
    pub async fn update_endpoint(&self, name: &str, update: &UpdateEndpoint) -> Result<Endpoint> {
        let ticket = self.begin()?;
        let answer = self.shared.client.update_endpoint(name, update).await;
        self.was_changed(ticket, &name.to_lowercase(), answer)
    }

    /// Deletes an endpoint; success also when there is none. `BadRequest` (v0.1.5: `Server`) means that it is in use.
    pub async fn delete_endpoint(&self, name: &str) -> Result<()> {
        let ticket = self.begin()?;
        let answer = self.shared.client.delete_endpoint(name).await;
        self.was_deleted::<Endpoint>(ticket, &name.to_lowercase(), answer)
    }

    /// Makes credentials; `Conflict` means that some of this name exist, `NotFound` that there is no such endpoint.
    pub async fn create_credential(&self, credential: &CreateCredential) -> Result<Credential> {
        let ticket = self.begin()?;
        let answer = self.shared.client.create_credential(credential).await?;
        Ok(self.was_written(ticket, answer))
    }

    /// Changes credentials.
    pub async fn update_credential(
        &self,
        id: i64,
        update: &UpdateCredential,
    ) -> Result<Credential> {
        let ticket = self.begin()?;
        let answer = self.shared.client.update_credential(id, update).await;
        self.was_changed(ticket, &id, answer)
    }

    /// Deletes credentials; success also when there are none. `BadRequest` means that they are in use.
    pub async fn delete_credential(&self, id: i64) -> Result<()> {
        let ticket = self.begin()?;
        let answer = self.shared.client.delete_credential(id).await;
        self.was_deleted::<Credential>(ticket, &id, answer)
    }

    /// Makes an entity; `Conflict` means that it exists. GARM may wait on GitHub for half a minute.
    pub async fn create_entity(&self, kind: EntityKind, entity: &CreateEntity) -> Result<Entity> {
        let ticket = self.begin()?;
        let answer = self.shared.client.create_entity(kind, entity).await?;
        Ok(self.was_written(ticket, answer))
    }

    /// Changes an entity. `NotFound` may also mean that there are no such credentials, so it says nothing of the entity.
    pub async fn update_entity(
        &self,
        kind: EntityKind,
        id: &str,
        update: &UpdateEntity,
    ) -> Result<Entity> {
        let ticket = self.begin()?;
        let answer = self.shared.client.update_entity(kind, id, update).await?;
        Ok(self.was_written(ticket, answer))
    }

    /// Deletes an entity and leaves its webhook alone. `BadRequest` means that it has pools.
    pub async fn delete_entity(&self, kind: EntityKind, id: &str) -> Result<()> {
        let ticket = self.begin()?;
        let answer = self.shared.client.delete_entity(kind, id).await;
        self.was_deleted::<Entity>(ticket, &(kind, id.to_owned()), answer)
    }

    /// Installs an entity's webhook; `Conflict` means that one is there.
    pub async fn install_webhook(&self, kind: EntityKind, id: &str) -> Result<Hook> {
        self.shared.ready()?;
        self.shared.client.install_webhook(kind, id).await
    }

    /// Removes an entity's webhook; success also when there is none.
    pub async fn uninstall_webhook(&self, kind: EntityKind, id: &str) -> Result<()> {
        self.shared.ready()?;
        self.shared.client.uninstall_webhook(kind, id).await
    }

    /// Makes a pool. **Not idempotent**: after a lost answer, list before trying again.
    pub async fn create_pool(
        &self,
        kind: EntityKind,
        entity_id: &str,
        pool: &CreatePool,
    ) -> Result<Pool> {
        let ticket = self.begin()?;
        let answer = self
            .shared
            .client
            .create_pool(kind, entity_id, pool)
            .await?;
        Ok(self.was_written(ticket, answer))
    }

    /// Changes a pool.
    pub async fn update_pool(&self, id: &str, update: &UpdatePool) -> Result<Pool> {
        let ticket = self.begin()?;
        let answer = self.shared.client.update_pool(id, update).await;
        self.was_changed(ticket, &id.to_owned(), answer)
    }

    /// Deletes a pool; success also when there is none. `BadRequest` means that it has instances.
    pub async fn delete_pool(&self, id: &str) -> Result<()> {
        let ticket = self.begin()?;
        let answer = self.shared.client.delete_pool(id).await;
        self.was_deleted::<Pool>(ticket, &id.to_owned(), answer)
    }

    /// Asks GARM to delete an instance, which takes it some seconds; the instance is gone when it is "not found".
    /// `BadRequest` means that its state does not allow it, or that it is busy. With `force` provider errors are ignored.
    pub async fn delete_instance(&self, name: &str, force: bool) -> Result<()> {
        let ticket = self.begin()?;
        let answer = self.shared.client.delete_instance(name, force).await;
        if matches!(answer, Err(Error::NotFound)) {
            self.is_absent::<Instance>(ticket, &name.to_owned());
        }
        answer
    }
}

// === what answers do to the copy

impl Garm {
    fn begin(&self) -> Result<Ticket> {
        self.shared.ready()?;
        Ok(self.shared.ticket())
    }

    fn was_read<R: Mirrored>(&self, ticket: Ticket, key: &R::Key, answer: Result<R>) -> Result<R> {
        match &answer {
            Ok(record) => self
                .shared
                .change(|mirror, now| mirror.read(record.clone(), ticket, now)),
            Err(Error::NotFound) => self.is_absent::<R>(ticket, key),
            Err(_) => {}
        }
        answer
    }

    fn was_written<R: Mirrored>(&self, ticket: Ticket, answer: R) -> R {
        self.shared
            .change(|mirror, now| mirror.written(answer.clone(), ticket, now));
        answer
    }

    fn was_changed<R: Mirrored>(
        &self,
        ticket: Ticket,
        key: &R::Key,
        answer: Result<R>,
    ) -> Result<R> {
        match answer {
            Ok(record) => Ok(self.was_written(ticket, record)),
            Err(error) => {
                if matches!(error, Error::NotFound) {
                    self.is_absent::<R>(ticket, key);
                }
                Err(error)
            }
        }
    }

    fn was_deleted<R: Mirrored>(
        &self,
        ticket: Ticket,
        key: &R::Key,
        answer: Result<()>,
    ) -> Result<()> {
        if matches!(answer, Ok(()) | Err(Error::NotFound)) {
            self.is_absent::<R>(ticket, key);
        }
        answer
    }

    fn is_absent<R: Mirrored>(&self, ticket: Ticket, key: &R::Key) {
        self.shared
            .change(|mirror, now| mirror.absent::<R>(key, ticket, now));
    }

    /// Takes in a list of a whole collection. One with an unreadable object cannot tell its caller what is absent.
    fn was_listed<R: Mirrored>(
        &self,
        collection: Collection,
        operation: &'static str,
        ticket: Ticket,
        list: List<R>,
        in_scope: impl Fn(&R) -> bool,
    ) -> Result<Vec<R>> {
        let items = readable(&list, operation);
        let take =
            |mirror: &mut Mirror, now| mirror.listed(collection, list, ticket, in_scope, now);
        self.shared.change(take);
        items
    }

    /// Takes in a list of a part of a collection.
    fn was_listed_in_part<R: Mirrored>(
        &self,
        operation: &'static str,
        ticket: Ticket,
        list: List<R>,
        in_scope: impl Fn(&R) -> bool,
    ) -> Result<Vec<R>> {
        let items = readable(&list, operation);
        let take = |mirror: &mut Mirror, now| mirror.listed_part(list, ticket, in_scope, now);
        self.shared.change(take);
        items
    }
}

fn readable<R: Clone>(list: &List<R>, operation: &'static str) -> Result<Vec<R>> {
    if list.unreadable.is_empty() {
        return Ok(list.items.clone());
    }
    let fault = format!("{} of its objects", list.unreadable.len());
    Err(Error::Decode { operation, fault })
}
