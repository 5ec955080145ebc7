//! Pools that equal each other, found by fingerprint and Image, without comparing each with each.
//!
//! Pools are indexed by fingerprint and the name of their Image, Images by their tag. So an Image that comes, changes or goes moves no Pool
//! in the index.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;

use crate::api::v1beta1::Pool;
use crate::controllers::Hubs;
use crate::domain::duplicate::{Likeness, PoolImage, sentence};
use crate::domain::ownership::rank;
use crate::runtime::ObjectKey;

/// Index value under which living Pools are found by what they are compared by.
pub fn likeness_index(namespace: &str, image: &str, likeness: &Likeness) -> String {
    // The fingerprint has one length and a namespace no slash, so that names of any form make no two the same.
    format!("likeness:{namespace}/{}/{image}", likeness.fingerprint)
}

/// Index value under which Images are found by their tag.
pub fn tag_index(namespace: &str, tag: &str) -> String {
    format!("tag:{namespace}/{tag}")
}

/// The names that mean the same image as this one: itself, and every Image with the same tag.
pub fn same_images(hubs: &Hubs, namespace: &str, image: &str) -> BTreeSet<String> {
    let object = hubs.images.valid(&ObjectKey::new(namespace, image));
    let others = match PoolImage::of(image, object.as_deref()) {
        PoolImage::Tag(tag) => hubs.images.by(&tag_index(namespace, tag)),
        PoolImage::Name(_) => Vec::new(),
    };
    let others = others.iter().map(|image| image.name_any());
    others.chain([image.to_owned()]).collect()
}

/// The living Pools of a namespace that are so, but for the one of this name; the oldest first.
pub fn twins(hubs: &Hubs, key: &ObjectKey, likeness: &Likeness) -> Vec<Arc<Pool>> {
    let namespace = &key.namespace;
    let images = same_images(hubs, namespace, &likeness.image);
    let found = images
        .iter()
        .flat_map(|image| hubs.pools.by(&likeness_index(namespace, image, likeness)));
    let mut found: Vec<Arc<Pool>> = found.filter(|pool| pool.name_any() != key.name).collect();
    found.sort_by(|a, b| rank(&a.metadata).cmp(&rank(&b.metadata)));
    found
}

/// Says of which older Pool this one is a duplicate, if of any.
pub fn duplicate_of(hubs: &Hubs, pool: &Pool) -> Option<String> {
    let twins = twins(
        hubs,
        &ObjectKey::of(&pool.metadata),
        &Likeness::of(&pool.spec),
    );
    let first = twins.first()?;
    (rank(&first.metadata) < rank(&pool.metadata)).then(|| {
        sentence(
            &first.name_any(),
            &pool.spec.image_name,
            &first.spec.image_name,
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::controllers::testing::{context, object};

    fn pool(name: &str, made: i64, image: &str, flavor: &str) -> Value {
        let spec = json!({
            "githubScopeRef": {"kind": "Repository", "name": "tools"},
            "imageName": image, "flavor": flavor, "tags": ["x"],
        });
        object("Pool", name, made, spec, json!({}))
    }

    fn image(name: &str, tag: Option<&str>) -> Value {
        object("Image", name, 1, json!({ "tag": tag }), Value::Null)
    }

    async fn stored(objects: Vec<Value>) -> Hubs {
        context(objects).await.hubs.clone()
    }

    /// What is said of a Pool; nothing is empty.
    fn said(hubs: &Hubs, name: &str) -> String {
        let pool = hubs.pools.valid(&ObjectKey::new("ns", name)).unwrap();
        duplicate_of(hubs, &pool).unwrap_or_default()
    }

    #[tokio::test]
    async fn the_younger_of_two_is_the_duplicate_and_of_one_age_the_later_name() {
        let hubs = stored(vec![
            pool("z", 1, "i", "small"),
            pool("b", 2, "i", "small"),
            pool("a", 2, "i", "small"),
            pool("other", 3, "i", "large"),
        ])
        .await;
        assert_eq!(said(&hubs, "z"), "");
        assert_eq!(said(&hubs, "other"), "");
        for name in ["a", "b"] {
            let sentence = said(&hubs, name);
            assert!(sentence.contains(r#"Pool "z""#), "{sentence}");
        }
        let two = stored(vec![pool("b", 2, "i", "small"), pool("a", 2, "i", "small")]).await;
        assert!(said(&two, "a").is_empty() && !said(&two, "b").is_empty());
    }

    #[tokio::test]
    async fn a_terminating_pool_and_one_of_another_namespace_do_not_count() {
        let mut terminating = pool("a", 1, "i", "small");
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut elsewhere = pool("b", 1, "i", "small");
        elsewhere["metadata"]["namespace"] = json!("elsewhere");
        let hubs = stored(vec![terminating, elsewhere, pool("c", 2, "i", "small")]).await;
        assert_eq!(said(&hubs, "c"), "");
    }

    /// One of `a`, `b` or `c`, with a tag or none.
    fn any_images() -> impl Strategy<Value = Vec<Value>> {
        let tag = prop::option::of(prop::sample::select(vec!["", "1", "2"]));
        let images =
            prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), tag, 0..4);
        images.prop_map(|images| {
            images
                .into_iter()
                .map(|(name, tag)| image(name, tag))
                .collect()
        })
    }

    fn any_pools() -> impl Strategy<Value = Vec<Value>> {
        let images = prop::sample::select(vec!["a", "b", "c", "d"]);
        let flavors = prop::sample::select(vec!["small", "large"]);
        let pools =
            prop::collection::vec((images, flavors, 1..3_i64, prop::bool::weighted(0.2)), 0..8);
        pools.prop_map(|pools| {
            let numbered = pools.into_iter().enumerate();
            let made = numbered.map(|(number, (image, flavor, made, is_terminating))| {
                let mut pool = pool(&format!("p{number}"), made, image, flavor);
                if is_terminating {
                    pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                pool
            });
            made.collect()
        })
    }

    /// The rule, by comparison of each with each.
    fn are_same(images: &[Value], a: &Value, b: &Value) -> bool {
        let tag = |pool: &Value| {
            let image = images
                .iter()
                .find(|image| image["metadata"]["name"] == pool["spec"]["imageName"])?;
            Some(image["spec"]["tag"].as_str()?.to_owned()).filter(|tag| !tag.is_empty())
        };
        let same_image = a["spec"]["imageName"] == b["spec"]["imageName"]
            || tag(a).is_some_and(|of_a| tag(b).is_some_and(|of_b| of_a == of_b));
        let is_living = |pool: &Value| pool["metadata"]["deletionTimestamp"].is_null();
        a["metadata"]["name"] != b["metadata"]["name"]
            && is_living(b)
            && same_image
            && a["spec"]["flavor"] == b["spec"]["flavor"]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_index_answers_as_a_comparison_of_each_with_each(images in any_images(), pools in any_pools()) {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let objects = images.iter().chain(&pools).cloned().collect();
            let hubs = runtime.block_on(stored(objects));
            for pool in &pools {
                let name = |pool: &Value| pool["metadata"]["name"].as_str().unwrap().to_owned();
                let key = ObjectKey::new("ns", name(pool));
                let spec = serde_json::from_value(pool["spec"].clone()).unwrap();
                let found: BTreeSet<String> = twins(&hubs, &key, &Likeness::of(&spec))
                    .iter()
                    .map(|twin| twin.name_any())
                    .collect();
                let expected: BTreeSet<String> = pools
                    .iter()
                    .filter(|other| are_same(&images, pool, other))
                    .map(name)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
