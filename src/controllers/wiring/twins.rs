//! Whom it concerns that a Pool is no longer equal to others, or is so now.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use kube::ResourceExt;

use crate::api::meta;
use crate::api::v1beta1::Pool;
use crate::controllers::Hubs;
use crate::controllers::duplicates::{tag_index, twins};
use crate::domain::duplicate::{Likeness, tag};
use crate::domain::reference::reference_index;
use crate::runtime::ObjectKey;
use crate::runtime::hub::HubEvent;

/// What Pools and Images were when they were last seen. A store tells only what they are, and those that equalled what they were have to
/// look again as well.
#[derive(Default)]
pub(super) struct Twins {
    /// Living Pools: uid and what they are compared by.
    pools: Mutex<HashMap<ObjectKey, (String, Likeness)>>,
    /// Tags of Images.
    tags: Mutex<HashMap<ObjectKey, String>>,
}

impl Twins {
    /// The other Pools that this Pool, as it was or as it is, is equal to; none if it is compared by the same as before.
    pub(super) fn of_pool(&self, hubs: &Hubs, event: &HubEvent) -> Vec<Arc<Pool>> {
        if !event.trigger {
            return Vec::new();
        }
        let pool = hubs.pools.valid(&event.key);
        let living = pool.filter(|pool| !meta::is_terminating(&pool.metadata));
        let now = living.map(|pool| (pool.uid().unwrap_or_default(), Likeness::of(&pool.spec)));
        let changed = note(&self.pools, &event.key, now).into_iter().flatten();
        changed
            .flat_map(|(_, likeness)| twins(hubs, &event.key, &likeness))
            .collect()
    }

    /// The Pools of all Images with the tag that this Image had or has; none if its tag is as before.
    pub(super) fn of_image(&self, hubs: &Hubs, event: &HubEvent) -> Vec<Arc<Pool>> {
        let image = hubs.images.valid(&event.key);
        let now = image.as_deref().and_then(tag).map(ToOwned::to_owned);
        let changed = note(&self.tags, &event.key, now).into_iter().flatten();
        let namespace = &event.key.namespace;
        let images = changed.flat_map(|tag| hubs.images.by(&tag_index(namespace, &tag)));
        images
            .flat_map(|image| {
                let users = reference_index("image", namespace, &image.name_any());
                hubs.pools.by(&users)
            })
            .collect()
    }
}

/// Takes note of what something is now; answers what it was and what it is where that differs.
fn note<K: Clone + Eq + Hash, V: Clone + PartialEq>(
    known: &Mutex<HashMap<K, V>>,
    key: &K,
    now: Option<V>,
) -> [Option<V>; 2] {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let before = match &now {
        Some(now) => known.insert(key.clone(), now.clone()),
        None => known.remove(key),
    };
    if before == now {
        return [None, None];
    }
    [before, now]
}
