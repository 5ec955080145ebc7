//! What a GARM holds, as far as objects can describe it.

use crate::garm::wire::{Controller, Credential, Endpoint, Entity, EntityKind, Pool};
use crate::garm::{Error, Garm};

/// Everything, each in the order of names or ids.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    /// GARM's own settings.
    pub controller: Controller,
    /// GitHub endpoints.
    pub endpoints: Vec<Endpoint>,
    /// GitHub credentials.
    pub credentials: Vec<Credential>,
    /// Repositories, organizations, enterprises.
    pub entities: Vec<Entity>,
    /// Pools, with their extra specs.
    pub pools: Vec<Pool>,
}

/// Reads everything from a copy of GARM; pools once more by id, since lists do not carry their extra specs.
///
/// # Errors
/// Fails when GARM does.
pub async fn read(garm: &Garm) -> Result<Holdings, Error> {
    let controller = garm.controller().map(|controller| (*controller).clone());
    let mut holdings = Holdings {
        controller: controller.unwrap_or_default(),
        endpoints: owned(&garm.endpoints(), |endpoint| endpoint.name.clone()),
        credentials: owned(&garm.credentials(), |credential| credential.name.clone()),
        entities: Vec::new(),
        pools: Vec::new(),
    };
    for kind in EntityKind::ALL {
        let entities = owned(&garm.entities(kind), |entity| {
            (
                entity.name.clone(),
                entity.owner.clone(),
                entity.endpoint.clone(),
            )
        });
        holdings.entities.extend(entities);
    }
    for pool in owned(&garm.pools(), |pool| pool.id.clone()) {
        match garm.read_pool(&pool.id).await {
            Ok(pool) => holdings.pools.push(pool),
            // It went in between.
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(holdings)
}

fn owned<T: Clone, O: Ord>(shared: &[std::sync::Arc<T>], order: impl Fn(&T) -> O) -> Vec<T> {
    let mut all: Vec<T> = shared.iter().map(|one| (**one).clone()).collect();
    all.sort_by_key(order);
    all
}
