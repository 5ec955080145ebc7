//! Where each kind of object has its place in the mirror, and what depends on it.

use std::sync::Arc;
use std::time::Instant;

use super::super::wire::{Controller, Credential, Endpoint, Entity, Instance, Pool};
use super::table::{Change, Record, Table};
use super::{Changed, ManagerWatch, Mirror};

/// A record with a place in the mirror.
pub(in crate::garm) trait Mirrored: Record {
    fn table(mirror: &Mirror) -> &Table<Self>;
    fn table_mut(mirror: &mut Mirror) -> &mut Table<Self>;
    /// Keeps up what depends on it, and says what changed.
    fn note(mirror: &mut Mirror, change: &Change<Self>, now: Instant, out: &mut Vec<Changed>);
}

macro_rules! table {
    ($field:ident) => {
        fn table(mirror: &Mirror) -> &Table<Self> {
            &mirror.$field
        }

        fn table_mut(mirror: &mut Mirror) -> &mut Table<Self> {
            &mut mirror.$field
        }
    };
}

impl Mirrored for Controller {
    table!(controller);

    fn note(mirror: &mut Mirror, change: &Change<Self>, _now: Instant, out: &mut Vec<Changed>) {
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && before.controller_id != after.controller_id
        {
            mirror.begin_epoch();
        }
        out.push(Changed::Controller);
    }
}

impl Mirrored for Endpoint {
    table!(endpoints);

    fn note(_mirror: &mut Mirror, change: &Change<Self>, _now: Instant, out: &mut Vec<Changed>) {
        if let Some(endpoint) = change.after.as_ref().or(change.before.as_ref()) {
            out.push(Changed::Endpoint(endpoint.name.clone()));
        }
    }
}

impl Mirrored for Credential {
    table!(credentials);

    fn note(_mirror: &mut Mirror, change: &Change<Self>, _now: Instant, out: &mut Vec<Changed>) {
        if let Some(credential) = change.after.as_ref().or(change.before.as_ref()) {
            out.push(Changed::Credential(credential.id));
        }
    }
}

impl Mirrored for Entity {
    table!(entities);

    fn note(mirror: &mut Mirror, change: &Change<Self>, now: Instant, out: &mut Vec<Changed>) {
        let Some(entity) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        let key = entity.key();
        let used = |side: &Option<Arc<Self>>| side.as_ref().map(|entity| entity.credentials_id);
        let (before, after) = (used(&change.before), used(&change.after));
        if before != after {
            if let Some(credential) = before {
                mirror.entities_of.remove(&credential, &key);
                out.push(Changed::Credential(credential));
            }
            if let Some(credential) = after {
                mirror.entities_of.insert(credential, key.clone());
                out.push(Changed::Credential(credential));
            }
        }
        let stands = change
            .after
            .as_ref()
            .is_some_and(|entity| !entity.manager.is_running);
        if stands {
            let (often, ..) = mirror.manager_watch;
            // The first look comes early: v0.1.x has a new manager running within a second, and tells nobody.
            mirror.standing.entry(key).or_insert(ManagerWatch {
                since: now,
                next: now + often / 5,
            });
        } else {
            mirror.standing.remove(&key);
        }
        out.push(Changed::Entity(entity.kind, entity.id.clone()));
    }
}

impl Mirrored for Pool {
    table!(pools);

    fn note(mirror: &mut Mirror, change: &Change<Self>, _now: Instant, out: &mut Vec<Changed>) {
        let owner = |pool: &Arc<Self>| pool.scope().map(|(kind, id)| (kind, id.to_owned()));
        let before = change.before.as_ref().and_then(owner);
        let after = change.after.as_ref().and_then(owner);
        let Some(pool) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        if before != after {
            if let Some(owner) = before {
                mirror.pools_of.remove(&owner, &pool.id);
            }
            if let Some(owner) = after {
                mirror.pools_of.insert(owner, pool.id.clone());
            }
        }
        let prefix = |pool: &Arc<Self>| pool.runner_prefix.clone();
        let before = change.before.as_ref().map(prefix);
        let after = change.after.as_ref().map(prefix);
        if before != after {
            if let Some(prefix) = before {
                mirror.pools_by_prefix.remove(&prefix, &pool.id);
            }
            if let Some(prefix) = after {
                mirror.pools_by_prefix.insert(prefix, pool.id.clone());
            }
        }
        out.push(Changed::Pool(pool.id.clone()));
    }
}

impl Mirrored for Instance {
    table!(instances);

    fn note(mirror: &mut Mirror, change: &Change<Self>, _now: Instant, out: &mut Vec<Changed>) {
        let Some(instance) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                if before.pool_id != after.pool_id {
                    mirror.instances_of.remove(&before.pool_id, &before.name);
                    mirror
                        .instances_of
                        .insert(after.pool_id.clone(), after.name.clone());
                }
                let sign_of_life = Self {
                    updated_at: after.updated_at,
                    ..Self::clone(before)
                };
                if sign_of_life == **after {
                    return;
                }
            }
            (Some(before), None) => mirror.instances_of.remove(&before.pool_id, &before.name),
            (None, Some(after)) => mirror
                .instances_of
                .insert(after.pool_id.clone(), after.name.clone()),
            (None, None) => {}
        }
        out.push(Changed::Instance {
            name: instance.name.clone(),
            pool_id: instance.pool_id.clone(),
        });
    }
}
