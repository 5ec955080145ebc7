//! Rules about runners: their names as objects, which may be removed, and when.

use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::api::v1beta1::RunnerCounts;
use crate::garm::wire::Instance;

/// Longest name that we give a Runner object: it fits a label value.
const MAX_NAME: usize = 63;

/// Turns an instance's name into a Kubernetes name (RFC 1123): GARM before v0.1.7 uses mixed case, and a prefix may hold anything.
pub fn object_name(instance: &str) -> String {
    let mapped: String = instance
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .collect();
    let name = mapped.trim_matches('-');
    if name.is_empty() || name.len() > MAX_NAME {
        return distinct_object_name(instance);
    }
    name.to_owned()
}

/// The name for an instance whose plain object name is taken by another instance.
pub fn distinct_object_name(instance: &str) -> String {
    let digest = Sha256::digest(instance.as_bytes());
    let suffix = format!(
        "{:02x}{:02x}{:02x}{:02x}",
        digest[0], digest[1], digest[2], digest[3]
    );
    let plain: String = instance
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(MAX_NAME - suffix.len() - 1)
        .collect();
    match plain.trim_matches('-') {
        "" => format!("runner-{suffix}"),
        name => format!("{name}-{suffix}"),
    }
}

/// Tells whether the runner has, or may just have got, a job.
pub fn is_busy(instance: &Instance) -> bool {
    instance.is_busy()
}

/// Tells whether GARM takes a DELETE for this instance and it makes sense to send one.
///
/// GARM also accepts `pending_delete`, which only a forced removal repeats; all other states are refused even with force.
pub fn is_deletable(instance: &Instance, force: bool) -> bool {
    let is_asked_already = instance.status.starts_with("pending_");
    instance.is_deletable() && (force || !is_asked_already)
}

/// Tells whether GARM is removing the instance already.
pub fn is_leaving(instance: &Instance) -> bool {
    matches!(
        instance.status.as_str(),
        "pending_delete" | "pending_force_delete" | "deleting" | "deleted"
    )
}

/// Tells whether the runner waits for a job.
pub fn is_idle(instance: &Instance) -> bool {
    instance.runner_status == "idle" && !instance.has_job
}

/// An instance with the moment since which it has been idle, or failed.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The instance.
    pub instance: &'a Instance,
    /// When it was first seen so, or its `updated_at` at that first sight.
    pub since: Timestamp,
}

/// What scaling down would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleDown {
    /// Names of the runners to remove, oldest first.
    pub remove: Vec<String>,
    /// Idle runners older than the age limit, before anything is removed.
    pub long_running: i64,
    /// When the next runner becomes old enough to matter.
    pub next: Option<Timestamp>,
}

/// Chooses which idle runners above `min_idle` have been idle for longer than `age`.
///
/// First what can be removed and is old, then oldest first, then only as many as stand above `min_idle`: an undeletable old runner saves no
/// other one, and a young one is never touched. One that GARM is removing already is no idle runner any more: it must not make another
/// one look superfluous.
pub fn scale_down(
    idle: &[Standing<'_>],
    min_idle: i64,
    age: Duration,
    now: Timestamp,
) -> ScaleDown {
    let old_from = |since: Timestamp| since.checked_add(age).unwrap_or(Timestamp::MAX);
    let idle: Vec<&Standing<'_>> = idle.iter().filter(|r| !is_leaving(r.instance)).collect();
    let mut old: Vec<&Standing<'_>> = idle
        .iter()
        .copied()
        .filter(|r| old_from(r.since) <= now)
        .collect();
    let long_running = i64::try_from(old.len()).unwrap_or(i64::MAX);
    let surplus = i64::try_from(idle.len())
        .unwrap_or(i64::MAX)
        .saturating_sub(min_idle.max(0));
    let surplus = usize::try_from(surplus).unwrap_or(0);
    old.retain(|r| is_deletable(r.instance, false));
    old.sort_by_key(|r| (r.since, r.instance.name.clone()));
    let remove: Vec<String> = old
        .iter()
        .take(surplus)
        .map(|r| r.instance.name.clone())
        .collect();
    let next = idle
        .iter()
        .map(|r| old_from(r.since))
        .filter(|at| *at > now)
        .min();
    ScaleDown {
        remove,
        long_running,
        next,
    }
}

/// Runners whose time as failed ones is up, oldest first, and when the next one's is.
pub fn expired(
    failed: &[Standing<'_>],
    ttl: Duration,
    now: Timestamp,
) -> (Vec<String>, Option<Timestamp>) {
    let end = |since: Timestamp| since.checked_add(ttl).unwrap_or(Timestamp::MAX);
    let mut over: Vec<(Timestamp, &str)> = failed
        .iter()
        .filter(|r| end(r.since) <= now && is_deletable(r.instance, false))
        .map(|r| (r.since, r.instance.name.as_str()))
        .collect();
    over.sort_unstable();
    let next = failed
        .iter()
        .map(|r| end(r.since))
        .filter(|at| *at > now)
        .min();
    (
        over.into_iter().map(|(_, name)| name.to_owned()).collect(),
        next,
    )
}

/// Counts instances by what they do, for a Pool's status.
pub fn counts<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> RunnerCounts {
    let mut counts = RunnerCounts::default();
    for instance in instances {
        counts.total += 1;
        match (instance.status.as_str(), instance.runner_status.as_str()) {
            ("error", _) | (_, "failed") => counts.failed += 1,
            (_, "terminated") => counts.deleting += 1,
            _ if is_leaving(instance) => counts.deleting += 1,
            _ if is_busy(instance) => counts.active += 1,
            (_, "idle") => counts.idle += 1,
            _ => counts.pending += 1,
        }
    }
    counts
}

/// Tells whether GARM is at making the machine, for the first time or again.
pub fn is_being_made(instance: &Instance) -> bool {
    matches!(instance.status.as_str(), "pending_create" | "creating")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instance(name: &str, status: &str, runner_status: &str) -> Instance {
        Instance {
            name: name.to_owned(),
            status: status.to_owned(),
            runner_status: runner_status.to_owned(),
            ..Instance::default()
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn names_are_valid_and_stable() {
        assert_eq!(object_name("garm-AbC123"), "garm-abc123");
        assert_eq!(object_name("team_x.y-Z"), "team-x-y-z");
        assert_ne!(
            distinct_object_name("garm-AbC"),
            distinct_object_name("garm-aBC")
        );
        assert!(distinct_object_name("garm-AbC").starts_with("garm-abc-"));
    }

    #[test]
    fn only_running_and_error_are_deleted_and_force_adds_pending_delete() {
        for (status, plain, forced) in [
            ("running", true, true),
            ("error", true, true),
            ("pending_delete", false, true),
            ("pending_force_delete", false, true),
            ("pending_create", false, false),
            ("creating", false, false),
            ("deleting", false, false),
            ("deleted", false, false),
            ("stopped", false, false),
            ("unknown", false, false),
            ("never-heard-of", false, false),
        ] {
            let one = instance("a", status, "idle");
            assert_eq!(
                (is_deletable(&one, false), is_deletable(&one, true)),
                (plain, forced),
                "{status}"
            );
        }
    }

    #[test]
    fn scale_down_filters_before_it_cuts() {
        let stuck = instance("stuck", "stopped", "idle");
        let (a, b) = (
            instance("a", "running", "idle"),
            instance("b", "running", "idle"),
        );
        let (y, z) = (
            instance("y", "running", "idle"),
            instance("z", "running", "idle"),
        );
        let idle =
            [(&stuck, 0), (&a, 10), (&b, 20), (&y, 990), (&z, 995)].map(|(instance, since)| {
                Standing {
                    instance,
                    since: at(since),
                }
            });
        let age = Duration::from_secs(100);
        let got = scale_down(&idle, 3, age, at(1000));
        assert_eq!(got.remove, ["a", "b"]);
        assert_eq!(got.long_running, 3);
        assert_eq!(got.next, Some(at(1090)));
        assert_eq!(scale_down(&idle, 4, age, at(1000)).remove, ["a"]);
        assert!(scale_down(&idle, 5, age, at(1000)).remove.is_empty());
        assert_eq!(
            scale_down(&idle, 0, age, at(1000)).remove,
            ["a", "b"],
            "young ones stay at minimum 0 too"
        );
    }

    #[test]
    fn scale_down_of_the_oldest_by_number_and_minimum() {
        let names: Vec<Instance> = (0..5)
            .map(|n| instance(&format!("r{n}"), "running", "idle"))
            .collect();
        // Seconds since when each is idle; old is what is older than 100 s at second 1000.
        for (since, minimum, removed, old) in [
            (&[][..], 0, 0, 0),
            (&[990, 995], 0, 0, 0),
            (&[10, 20, 30], 0, 3, 3),
            (&[10, 20, 30, 40], 2, 2, 4),
            (&[10], 2, 0, 1),
            (&[10], 0, 1, 1),
            (&[10, 20, 30], 4, 0, 3),
            (&[10, 20, 30], 2, 1, 3),
            (&[10, 20, 990], 0, 2, 2),
            // One young and three old ones, of which two have to stay.
            (&[10, 20, 30, 990], 2, 2, 3),
        ] {
            let idle = names.iter().zip(since);
            let idle = idle.map(|(instance, since)| Standing {
                instance,
                since: at(*since),
            });
            let got = scale_down(
                &idle.collect::<Vec<_>>(),
                minimum,
                Duration::from_secs(100),
                at(1000),
            );
            let oldest: Vec<String> = (0..removed).map(|n| format!("r{n}")).collect();
            assert_eq!(
                (got.remove, got.long_running),
                (oldest, old),
                "{since:?} {minimum}"
            );
        }
    }

    #[test]
    fn only_idle_runners_are_idle() {
        for (runner, idle) in [
            ("idle", true),
            ("active", false),
            ("installing", false),
            ("", false),
        ] {
            assert_eq!(is_idle(&instance("a", "running", runner)), idle, "{runner}");
        }
    }

    #[test]
    fn a_runner_that_leaves_does_not_make_another_one_superfluous() {
        for status in [
            "pending_delete",
            "pending_force_delete",
            "deleting",
            "deleted",
        ] {
            let leaving = instance("leaving", status, "idle");
            let (a, b) = (
                instance("a", "running", "idle"),
                instance("b", "running", "idle"),
            );
            let idle = [&leaving, &a, &b].map(|instance| Standing {
                instance,
                since: at(0),
            });
            let got = scale_down(&idle, 2, Duration::from_secs(100), at(1000));
            assert!(got.remove.is_empty(), "{status}: {:?}", got.remove);
            assert_eq!(got.long_running, 2);
        }
    }

    #[test]
    fn failed_runners_go_when_their_time_is_up() {
        let (a, b) = (
            instance("a", "error", "pending"),
            instance("b", "error", "pending"),
        );
        let failed = [(&b, 50), (&a, 10)].map(|(instance, since)| Standing {
            instance,
            since: at(since),
        });
        let ttl = Duration::from_secs(100);
        assert_eq!(expired(&failed, ttl, at(109)), (vec![], Some(at(110))));
        assert_eq!(
            expired(&failed, ttl, at(110)),
            (vec!["a".to_owned()], Some(at(150)))
        );
        assert_eq!(
            expired(&failed, ttl, at(200)),
            (vec!["a".to_owned(), "b".to_owned()], None)
        );
    }

    #[test]
    fn counts_every_runner_once() {
        let all = [
            instance("a", "running", "idle"),
            instance("b", "running", "active"),
            instance("c", "error", "pending"),
            instance("d", "pending_create", "pending"),
            instance("e", "deleting", "terminated"),
        ];
        let counts = counts(&all);
        assert_eq!(
            (
                counts.total,
                counts.idle,
                counts.active,
                counts.failed,
                counts.pending,
                counts.deleting
            ),
            (5, 1, 1, 1, 1, 1)
        );
    }

    proptest! {
        #[test]
        fn object_names_fit_kubernetes(name in ".{0,90}") {
            for got in [object_name(&name), distinct_object_name(&name)] {
                prop_assert!(!got.is_empty() && got.len() <= MAX_NAME);
                prop_assert!(got.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
                prop_assert!(!got.starts_with('-') && !got.ends_with('-'));
            }
        }

        #[test]
        fn scale_down_never_goes_below_the_minimum_nor_touches_the_young(ages in prop::collection::vec(0i64..200, 0..12), min in 0i64..12) {
            let names: Vec<Instance> = (0..ages.len()).map(|n| instance(&format!("r{n}"), "running", "idle")).collect();
            let idle: Vec<Standing<'_>> = names.iter().zip(&ages).map(|(instance, age)| Standing { instance, since: at(1000 - age) }).collect();
            let got = scale_down(&idle, min, Duration::from_secs(100), at(1000));
            prop_assert!(idle.len() - got.remove.len() >= usize::try_from(min).unwrap().min(idle.len()));
            for name in &got.remove {
                let index: usize = name[1..].parse().unwrap();
                prop_assert!(ages[index] >= 100);
            }
        }
    }
}
