//! Pools that were let pass and that no watch has shown yet.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::domain::duplicate::{Fingerprint, Likeness};
use crate::runtime::ObjectKey;

/// How long a Pool that was let pass counts although no watch shows it: it may have been refused by somebody else after us. Watches lag by
/// seconds at most.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How many are remembered: more than a cluster makes in that time, and few enough for a memory.
const MOST: usize = 10_000;

/// Such Pools, found by name and by what they are compared by, so that a check costs the same however many there are.
#[derive(Default)]
pub struct Passed {
    pools: HashMap<ObjectKey, Pool>,
    alike: HashMap<Fingerprint, BTreeSet<ObjectKey>>,
    /// Oldest first; what was noted anew stands in it twice.
    ages: VecDeque<(Instant, ObjectKey)>,
}

struct Pool {
    likeness: Likeness,
    at: Instant,
}

impl Passed {
    /// Takes note of a Pool.
    pub fn note(&mut self, key: ObjectKey, likeness: Likeness, now: Instant) {
        self.forget(&key);
        self.expire(now);
        self.alike
            .entry(likeness.fingerprint)
            .or_default()
            .insert(key.clone());
        self.ages.push_back((now, key.clone()));
        self.pools.insert(key, Pool { likeness, at: now });
    }

    /// Lets go of a Pool.
    pub fn forget(&mut self, key: &ObjectKey) {
        let Some(pool) = self.pools.remove(key) else {
            return;
        };
        let fingerprint = pool.likeness.fingerprint;
        if let Some(keys) = self.alike.get_mut(&fingerprint) {
            keys.remove(key);
            if keys.is_empty() {
                self.alike.remove(&fingerprint);
            }
        }
    }

    /// Goes through those with this fingerprint by name, each with the name of its Image.
    pub fn alike(
        &self,
        fingerprint: Fingerprint,
        now: Instant,
    ) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let keys = self.alike.get(&fingerprint).into_iter().flatten();
        keys.filter_map(move |key| {
            let pool = self.pools.get(key)?;
            let counts = now.saturating_duration_since(pool.at) < PATIENCE;
            counts.then_some((key, pool.likeness.image.as_str()))
        })
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.ages.front()
            && (now.saturating_duration_since(*at) >= PATIENCE || self.ages.len() >= MOST)
        {
            let Some((at, key)) = self.ages.pop_front() else {
                return;
            };
            if self.pools.get(&key).is_some_and(|pool| pool.at == at) {
                self.forget(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1beta1::PoolSpec;

    fn likeness(flavor: &str) -> Likeness {
        Likeness::of(&PoolSpec {
            flavor: flavor.to_owned(),
            image_name: "image".to_owned(),
            ..PoolSpec::default()
        })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn names(passed: &Passed, flavor: &str, now: Instant) -> Vec<String> {
        let found = passed.alike(likeness(flavor).fingerprint, now);
        found.map(|(key, _)| key.name.clone()).collect()
    }

    #[test]
    fn finds_the_equal_ones_until_they_are_let_go_or_too_old() {
        let mut passed = Passed::default();
        let start = Instant::now();
        for name in ["b", "a", "c"] {
            passed.note(key(name), likeness("small"), start);
        }
        passed.note(key("c"), likeness("large"), start);
        assert_eq!(names(&passed, "small", start), ["a", "b"]);
        assert_eq!(names(&passed, "large", start), ["c"]);
        passed.forget(&key("a"));
        assert_eq!(names(&passed, "small", start), ["b"]);
        assert!(names(&passed, "small", start + PATIENCE).is_empty());
    }

    #[test]
    fn keeps_nothing_of_what_is_too_old_or_too_much() {
        let mut passed = Passed::default();
        let start = Instant::now();
        passed.note(key("old"), likeness("old"), start);
        passed.note(key("new"), likeness("new"), start + PATIENCE);
        assert_eq!((passed.pools.len(), passed.alike.len()), (1, 1));
        // Noted anew it is as young as that, whatever its first note says.
        passed.note(key("new"), likeness("new"), start + PATIENCE + PATIENCE / 2);
        passed.note(key("other"), likeness("other"), start + PATIENCE * 2);
        assert_eq!(passed.pools.len(), 2);
        for number in 0..2 * MOST {
            let name = number.to_string();
            passed.note(key(&name), likeness(&name), start + PATIENCE * 2);
        }
        assert_eq!(passed.pools.len(), MOST);
        assert_eq!(passed.alike.len(), MOST);
        assert_eq!(passed.ages.len(), MOST);
    }
}
