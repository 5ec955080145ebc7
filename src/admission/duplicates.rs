//! Refuses a Pool that equals another one of its namespace, also one that the watch has not shown yet.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use super::passed::Passed;
use crate::api::v1beta1::PoolSpec;
use crate::controllers::Hubs;
use crate::controllers::duplicates::{same_images, twins};
use crate::domain::duplicate::{DuplicatePools, Likeness, sentence};
use crate::runtime::ObjectKey;
use crate::runtime::hub::HubEvent;

/// A Pool that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its namespace and name.
    pub key: &'a ObjectKey,
    /// Its spec.
    pub spec: &'a PoolSpec,
    /// The spec that is stored, if it is an update.
    pub old: Option<&'a PoolSpec>,
    /// Whether it will be stored as far as we are concerned: nothing else is wrong with it, and it is no dry run.
    pub is_for_good: bool,
}

/// What duplicates there are, and what becomes of them.
pub struct Duplicates {
    hubs: Hubs,
    mode: DuplicatePools,
    /// Pools that were let pass and that no watch has shown yet. Held while one is compared, so that of two at once one comes second.
    passed: Mutex<Passed>,
}

impl Duplicates {
    /// Compares with what is in these stores.
    pub fn new(hubs: Hubs, mode: DuplicatePools) -> Self {
        Self {
            hubs,
            mode,
            passed: Mutex::default(),
        }
    }

    /// What becomes of a duplicate.
    pub fn mode(&self) -> DuplicatePools {
        self.mode
    }

    /// Lets go of what the watch shows, until `token` is cancelled.
    pub async fn follow(&self, token: &CancellationToken) {
        let pools = &self.hubs.pools;
        pools.follow(token, |event| self.shown(&event)).await;
    }

    /// Lets go of a Pool that the store knows. The event itself says nothing: it may be late, and of an earlier Pool of that name. What is in
    /// the store is not, since a note is taken only of a name that the store does not have.
    fn shown(&self, event: &HubEvent) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.hubs.pools.get(&event.key).is_some() {
            passed.forget(&event.key);
        }
    }

    /// Says which other Pool is the same, if one is; takes note of a new Pool that may go on.
    ///
    /// An update that leaves the compared fields as they are passes, also of one that has long been a duplicate. Of updates no note is
    /// taken: many fail for other reasons, and what two at once let slip through shows as a condition.
    pub fn check(&self, asked: Asked<'_>, now: Instant) -> Option<String> {
        if self.mode == DuplicatePools::Allow {
            return None;
        }
        let likeness = Likeness::of(asked.spec);
        let images = same_images(&self.hubs, &asked.key.namespace, &likeness.image);
        if let Some(old) = asked.old.map(Likeness::of)
            && old.fingerprint == likeness.fingerprint
            && images.contains(&old.image)
        {
            return None;
        }
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let twin = self.stored(asked.key, &likeness).or_else(|| {
            // Of one that has arrived the store tells how it is now.
            let is_same = |(other, image): &(&ObjectKey, &str)| {
                other.namespace == asked.key.namespace
                    && other.name != asked.key.name
                    && images.contains(*image)
                    && self.hubs.pools.get(other).is_none()
            };
            let (other, image) = passed.alike(likeness.fingerprint, now).find(is_same)?;
            Some((other.name.clone(), image.to_owned()))
        });
        let sentence = twin.map(|(name, image)| sentence(&name, &likeness.image, &image));
        let goes_on = sentence.is_none() || self.mode == DuplicatePools::Warn;
        let is_new = asked.old.is_none() && self.hubs.pools.get(asked.key).is_none();
        if goes_on && is_new && asked.is_for_good {
            passed.note(asked.key.clone(), likeness, now);
        }
        sentence
    }

    /// Names the oldest stored Pool that is so, and its Image.
    fn stored(&self, key: &ObjectKey, likeness: &Likeness) -> Option<(String, String)> {
        let twins = twins(&self.hubs, key, likeness);
        let first = twins.first()?;
        Some((first.name_any(), first.spec.image_name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::super::passed::PATIENCE;
    use super::*;
    use crate::controllers::testing::{context, hubs, object};
    use crate::runtime::testing::{FakeApi, Reply};

    fn spec(flavor: &str) -> PoolSpec {
        PoolSpec {
            flavor: flavor.to_owned(),
            image_name: "image".to_owned(),
            ..PoolSpec::default()
        }
    }

    fn stored(name: &str, flavor: &str) -> Value {
        let spec = json!({"flavor": flavor, "imageName": "image"});
        object("Pool", name, 1, spec, json!({}))
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    async fn duplicates(mode: DuplicatePools, objects: Vec<Value>) -> Duplicates {
        Duplicates::new(context(objects).await.hubs.clone(), mode)
    }

    /// Asks to make a Pool; answers whether it is told of another.
    fn create(duplicates: &Duplicates, name: &str, flavor: &str, now: Instant) -> bool {
        let (key, spec) = (key(name), spec(flavor));
        let asked = Asked {
            key: &key,
            spec: &spec,
            old: None,
            is_for_good: true,
        };
        duplicates.check(asked, now).is_some()
    }

    fn update(duplicates: &Duplicates, name: &str, old: &PoolSpec, new: &PoolSpec) -> bool {
        let key = key(name);
        let asked = Asked {
            key: &key,
            spec: new,
            old: Some(old),
            is_for_good: true,
        };
        duplicates.check(asked, Instant::now()).is_some()
    }

    fn event(name: &str) -> HubEvent {
        HubEvent {
            key: key(name),
            trigger: true,
            gone: false,
        }
    }

    /// Empty stores, and what their watch of Pools shows.
    struct Watched {
        duplicates: Duplicates,
        feed: mpsc::UnboundedSender<Value>,
    }

    impl Watched {
        async fn new(mode: DuplicatePools) -> Self {
            let (feed, stream) = mpsc::unbounded_channel();
            let stream = Mutex::new(Some(stream));
            let fake = FakeApi::new(move |request| {
                if !request.query.contains("watch=true") {
                    let empty = json!({
                        "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [],
                    });
                    return Reply::json(&empty);
                }
                let shown = stream
                    .lock()
                    .unwrap()
                    .take_if(|_| request.path.ends_with("/pools"));
                Reply::Stream(shown.unwrap_or_else(|| {
                    let (feed, quiet) = mpsc::unbounded_channel();
                    std::mem::forget(feed);
                    quiet
                }))
            });
            let hubs = hubs(&fake.client());
            hubs.loaded().await;
            Self {
                duplicates: Duplicates::new(hubs, mode),
                feed,
            }
        }

        /// Has the watch show a Pool, or its end, and waits until the store has it so; nobody has been told of it yet.
        async fn show(&self, type_: &str, name: &str, flavor: &str) {
            let pool = json!({"type": type_, "object": stored(name, flavor)});
            self.feed.send(pool).unwrap();
            let is_there = type_ != "DELETED";
            let shown = async {
                while self.duplicates.hubs.pools.get(&key(name)).is_some() != is_there {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), shown)
                .await
                .unwrap();
        }
    }

    #[tokio::test]
    async fn a_pool_on_its_way_counts_until_the_store_has_its_name_or_its_time_is_up() {
        let watched = Watched::new(DuplicatePools::Deny).await;
        let duplicates = &watched.duplicates;
        let start = Instant::now();
        assert!(!create(duplicates, "a", "small", start));
        assert!(create(duplicates, "b", "small", start));
        assert!(!create(duplicates, "c", "large", start));
        assert!(
            !create(duplicates, "a", "small", start),
            "the same once more"
        );
        watched.show("ADDED", "a", "small").await;
        duplicates.shown(&event("a"));
        assert!(create(duplicates, "b", "small", start), "it is stored");
        watched.show("DELETED", "a", "small").await;
        assert!(!create(duplicates, "b", "small", start), "it has gone");
        let late = start + PATIENCE;
        assert!(
            !create(duplicates, "d", "small", late),
            "it never came to be"
        );
    }

    #[tokio::test]
    async fn late_news_of_an_earlier_pool_of_that_name_says_nothing() {
        let watched = Watched::new(DuplicatePools::Deny).await;
        let duplicates = &watched.duplicates;
        let start = Instant::now();
        watched.show("ADDED", "a", "large").await;
        watched.show("DELETED", "a", "large").await;
        assert!(!create(duplicates, "a", "small", start));
        // Of the one that went, told when the next one is on its way.
        duplicates.shown(&event("a"));
        duplicates.shown(&HubEvent {
            gone: true,
            ..event("a")
        });
        assert!(create(duplicates, "b", "small", start));
    }

    #[tokio::test]
    async fn who_is_refused_or_only_tries_leaves_no_trace() {
        let duplicates = duplicates(DuplicatePools::Deny, vec![stored("a", "small")]).await;
        let now = Instant::now();
        assert!(create(&duplicates, "b", "small", now));
        let (dry, large) = (key("dry"), spec("large"));
        let asked = Asked {
            key: &dry,
            spec: &large,
            old: None,
            is_for_good: false,
        };
        assert_eq!(duplicates.check(asked, now), None);
        assert!(
            !create(&duplicates, "a", "large", now),
            "its old self is still shown"
        );
        let passed = duplicates.passed.lock().unwrap();
        let mut noted = ["small", "large"].map(spec).into_iter();
        assert!(noted.all(|spec| {
            let fingerprint = Likeness::of(&spec).fingerprint;
            passed.alike(fingerprint, now).next().is_none()
        }));
    }

    #[tokio::test]
    async fn of_many_at_once_exactly_one_passes() {
        let duplicates = duplicates(DuplicatePools::Deny, Vec::new()).await;
        let duplicates = Arc::new(duplicates);
        let now = Instant::now();
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let duplicates = Arc::clone(&duplicates);
                std::thread::spawn(move || create(&duplicates, &format!("p{number}"), "small", now))
            })
            .collect();
        let refused = threads.into_iter().filter_map(|thread| thread.join().ok());
        assert_eq!(refused.filter(|refused| !refused).count(), 1);
    }

    #[tokio::test]
    async fn an_update_into_a_duplicate_is_one_and_one_of_a_duplicate_is_not() {
        let objects = vec![
            stored("a", "small"),
            stored("b", "small"),
            stored("c", "large"),
        ];
        let duplicates = duplicates(DuplicatePools::Deny, objects).await;
        assert!(update(&duplicates, "c", &spec("large"), &spec("small")));
        assert!(!update(&duplicates, "c", &spec("large"), &spec("huge")));
        let scaled = PoolSpec {
            max_runners: 9,
            extra_specs: Some("{ }".to_owned()),
            ..spec("small")
        };
        assert!(!update(&duplicates, "b", &spec("small"), &scaled));
        assert!(!create(&duplicates, "d", "on its way", Instant::now()));
        assert!(update(
            &duplicates,
            "c",
            &spec("large"),
            &spec("on its way")
        ));
    }

    #[tokio::test]
    async fn warned_pools_count_like_others_and_allowed_ones_are_not_looked_at() {
        let now = Instant::now();
        let warning = duplicates(DuplicatePools::Warn, Vec::new()).await;
        assert!(!create(&warning, "a", "small", now));
        assert!(create(&warning, "b", "small", now));
        warning.passed.lock().unwrap().forget(&key("a"));
        assert!(create(&warning, "c", "small", now), "because of b");
        let silent = duplicates(DuplicatePools::Allow, vec![stored("a", "small")]).await;
        assert!(!create(&silent, "b", "small", now));
    }

    #[tokio::test]
    async fn images_with_one_tag_are_one_image() {
        let image = |name: &str| object("Image", name, 1, json!({"tag": "1"}), Value::Null);
        let objects = vec![image("image"), image("alias"), stored("a", "small")];
        let duplicates = duplicates(DuplicatePools::Deny, objects).await;
        let alias = PoolSpec {
            image_name: "alias".to_owned(),
            ..spec("small")
        };
        assert!(update(&duplicates, "b", &spec("large"), &alias));
        assert!(
            !update(&duplicates, "a", &spec("small"), &alias),
            "it is what it was"
        );
    }
}
