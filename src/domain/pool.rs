//! Rules about pools: what a spec means, what differs in GARM, which marker makes a pool ours.

pub mod adoption;
mod rules;

use std::fmt;

use serde_json::Value;

use self::rules::check;
pub use self::rules::{faults, faults_of_defaults, judge, parse_extra_specs};
use crate::api::v1beta1::PoolSpec;
use crate::domain::compare::{same_extra_specs, same_runner_group, same_tags};
use crate::domain::field::FieldError;
use crate::garm::wire::{CreatePool, DEFAULT_BOOTSTRAP_TIMEOUT, Pool, UpdatePool};

/// Prefix of runner names where the object gives none: GARM's own default, always spelled out ("" in a PUT means "keep").
pub const DEFAULT_PREFIX: &str = "garm";
/// GitHub runner names end at 64 characters, of which GARM takes 15.
const MAX_PREFIX: usize = 49;
/// `/scale` ends here, and so do we.
const MAX_RUNNERS: i64 = i32::MAX as i64;
const MARKER: &str = "new-";

/// The runner prefix that marks a pool as being made for the object with this uid.
///
/// Creating a pool is not idempotent in GARM and an owner can be recorded in no other field that lists show and updates may change.
pub fn marker(uid: &str) -> String {
    format!("{MARKER}{uid}")
}

/// The uid in a marker; `None` for every ordinary prefix.
pub fn marked_uid(prefix: &str) -> Option<&str> {
    let uid = prefix.strip_prefix(MARKER)?;
    let groups: Vec<&str> = uid.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|g| g.len()).collect();
    let hex = groups
        .iter()
        .all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()));
    (lengths == [8, 4, 4, 4, 12] && hex).then_some(uid)
}

/// Tells whether a pool is as a creation that nobody finished leaves it: marked, disabled, empty.
pub fn is_abandoned(pool: &Pool, instances: usize) -> bool {
    marked_uid(&pool.runner_prefix).is_some() && !pool.enabled && instances == 0
}

/// A pool as its object wants it, with the defaults spelled out.
#[derive(Clone, PartialEq)]
pub struct DesiredPool {
    /// Name of the provider in GARM's own configuration; cannot change.
    pub provider_name: String,
    /// Tag of the Image object.
    pub image: String,
    /// Flavor, as the provider understands it.
    pub flavor: String,
    /// `linux` or `windows`.
    pub os_type: String,
    /// `amd64`, `arm64` or `arm`.
    pub os_arch: String,
    /// Upper limit of runners.
    pub max_runners: i64,
    /// Idle runners to keep.
    pub min_idle_runners: i64,
    /// Labels that jobs ask for.
    pub tags: Vec<String>,
    /// Whether GARM starts runners.
    pub enabled: bool,
    /// Prefix of runner names.
    pub runner_prefix: String,
    /// GitHub runner group; empty is GitHub's default one.
    pub runner_group: String,
    /// Order among pools that match a job; `None` leaves GARM's value alone.
    pub priority: Option<i64>,
    /// Minutes that a runner may take to come up.
    pub bootstrap_timeout: i64,
    /// Provider-specific JSON object; `{}` when the object gives none.
    pub extra_specs: Value,
}

/// Shows no extra specs: people put secrets there.
impl fmt::Debug for DesiredPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DesiredPool")
            .field("provider_name", &self.provider_name)
            .field("image", &self.image)
            .field("flavor", &self.flavor)
            .field("tags", &self.tags)
            .field("enabled", &self.enabled)
            .field("runner_prefix", &self.runner_prefix)
            .finish_non_exhaustive()
    }
}

/// Reads a spec; answers all its faults at once.
pub fn desired(spec: &PoolSpec, image_tag: &str) -> Result<DesiredPool, Vec<FieldError>> {
    let (extra_specs, errors) = check(spec);
    if !errors.is_empty() {
        return Err(errors);
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    Ok(DesiredPool {
        provider_name: spec.provider_name.clone(),
        image: image_tag.to_owned(),
        flavor: spec.flavor.clone(),
        os_type: spec.os_type.clone(),
        os_arch: spec.os_arch.clone(),
        max_runners: spec.max_runners,
        min_idle_runners: spec.min_idle_runners,
        tags: spec.tags.clone(),
        enabled: spec.enabled,
        runner_prefix: normal_prefix(spec.runner_prefix.as_deref()).to_owned(),
        runner_group: text(&spec.github_runner_group),
        priority: spec.priority,
        bootstrap_timeout: normal_timeout(spec.runner_bootstrap_timeout),
        extra_specs,
    })
}

/// Spells out what an absent or empty runner prefix means.
pub fn normal_prefix(prefix: Option<&str>) -> &str {
    prefix
        .filter(|prefix| !prefix.is_empty())
        .unwrap_or(DEFAULT_PREFIX)
}

/// 0 means GARM's default: an old object may hold it, and GARM itself shows 0 for pools of organizations and enterprises.
fn normal_timeout(minutes: i64) -> i64 {
    if minutes == 0 {
        DEFAULT_BOOTSTRAP_TIMEOUT
    } else {
        minutes
    }
}

impl DesiredPool {
    /// Renders the request that makes the pool, disabled and marked, so that a crash at any point leaves something we find again and that
    /// starts no runner.
    pub fn create(&self, uid: &str) -> CreatePool {
        CreatePool {
            provider_name: self.provider_name.clone(),
            max_runners: self.max_runners,
            min_idle_runners: self.min_idle_runners,
            image: self.image.clone(),
            flavor: self.flavor.clone(),
            os_type: self.os_type.clone(),
            os_arch: self.os_arch.clone(),
            tags: self.tags.clone(),
            enabled: false,
            runner_bootstrap_timeout: self.bootstrap_timeout,
            extra_specs: Some(self.extra_specs.clone()),
            github_runner_group: self.runner_group.clone(),
            priority: self.priority.unwrap_or_default(),
            runner_prefix: marker(uid),
        }
    }

    /// Lists the managed fields in which GARM's pool differs. Extra specs count only where the answer carried them.
    pub fn diff(&self, actual: &Pool) -> UpdatePool {
        let number = |desired: i64, actual: i64| (desired != actual).then_some(desired);
        let word = |desired: &str, actual: &str| (desired != actual).then(|| desired.to_owned());
        UpdatePool {
            max_runners: number(self.max_runners, actual.max_runners),
            min_idle_runners: number(self.min_idle_runners, actual.min_idle_runners),
            runner_bootstrap_timeout: number(
                self.bootstrap_timeout,
                normal_timeout(actual.runner_bootstrap_timeout),
            ),
            enabled: (self.enabled != actual.enabled).then_some(self.enabled),
            priority: self
                .priority
                .and_then(|priority| number(priority, actual.priority)),
            github_runner_group: (!same_runner_group(
                &self.runner_group,
                &actual.github_runner_group,
            ))
            .then(|| self.runner_group.clone()),
            image: word(&self.image, &actual.image),
            flavor: word(&self.flavor, &actual.flavor),
            os_type: word(&self.os_type, &actual.os_type),
            os_arch: word(&self.os_arch, &actual.os_arch),
            runner_prefix: word(&self.runner_prefix, &actual.runner_prefix),
            tags: (!same_tags(&self.tags, &actual.tags)).then(|| self.tags.clone()),
            extra_specs: actual
                .extra_specs
                .as_ref()
                .filter(|specs| !same_extra_specs(Some(&self.extra_specs), Some(specs)))
                .map(|_| self.extra_specs.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::refs::TypedRef;
    use proptest::prelude::*;
    use serde_json::json;

    fn spec() -> PoolSpec {
        PoolSpec {
            provider_name: "fake".to_owned(),
            max_runners: 4,
            min_idle_runners: 1,
            flavor: "small".to_owned(),
            os_type: "linux".to_owned(),
            os_arch: "amd64".to_owned(),
            tags: vec!["linux".to_owned()],
            enabled: true,
            runner_bootstrap_timeout: 20,
            image_name: "image".to_owned(),
            github_scope_ref: TypedRef::new("Organization", "acme"),
            ..PoolSpec::default()
        }
    }

    /// A pool as GARM would show it after it had been made and updated as desired.
    fn actual(desired: &DesiredPool) -> Pool {
        Pool {
            provider_name: desired.provider_name.clone(),
            image: desired.image.clone(),
            flavor: desired.flavor.clone(),
            os_type: desired.os_type.clone(),
            os_arch: desired.os_arch.clone(),
            max_runners: desired.max_runners,
            min_idle_runners: desired.min_idle_runners,
            tags: desired.tags.clone(),
            enabled: desired.enabled,
            runner_prefix: desired.runner_prefix.clone(),
            github_runner_group: desired.runner_group.clone(),
            runner_bootstrap_timeout: desired.bootstrap_timeout,
            extra_specs: Some(desired.extra_specs.clone()),
            ..Pool::default()
        }
    }

    #[test]
    fn extra_specs_do_not_show() {
        let spec = PoolSpec {
            extra_specs: Some("{\"token\": \"hunter2\"}".to_owned()),
            ..spec()
        };
        let shown = format!("{:?}", desired(&spec, "tag").unwrap());
        assert!(shown.contains("fake") && !shown.contains("hunter2"));
    }

    #[test]
    fn defaults_of_garm_are_no_difference() {
        let desired = desired(
            &PoolSpec {
                runner_bootstrap_timeout: 0,
                ..spec()
            },
            "tag",
        )
        .unwrap();
        assert!(desired.diff(&actual(&desired)).is_empty());
        let org_pool = Pool {
            runner_bootstrap_timeout: 0,
            extra_specs: None,
            priority: 7,
            ..actual(&desired)
        };
        assert!(
            desired.diff(&org_pool).is_empty(),
            "an absent timeout is 20, priority is unmanaged, unknown extra specs do not count"
        );
        let null = Pool {
            extra_specs: Some(Value::Null),
            github_runner_group: "Default".to_owned(),
            ..actual(&desired)
        };
        assert!(desired.diff(&null).is_empty());
    }

    #[test]
    fn one_change_is_one_field() {
        let wanted = desired(&spec(), "tag").unwrap();
        let before = actual(&wanted);
        let update = desired(
            &PoolSpec {
                max_runners: 9,
                ..spec()
            },
            "tag",
        )
        .unwrap()
        .diff(&before);
        assert_eq!(
            serde_json::to_value(update).unwrap(),
            json!({"max_runners": 9})
        );
        let update = desired(&spec(), "other").unwrap().diff(&before);
        assert_eq!(
            serde_json::to_value(update).unwrap(),
            json!({"image": "other"})
        );
    }

    #[test]
    fn cleared_fields_are_spelled_out() {
        let with = PoolSpec {
            extra_specs: Some("{\"a\":1}".to_owned()),
            github_runner_group: Some("special".to_owned()),
            runner_prefix: Some("team".to_owned()),
            ..spec()
        };
        let before = actual(&desired(&with, "tag").unwrap());
        let update = desired(&spec(), "tag").unwrap().diff(&before);
        assert_eq!(
            serde_json::to_value(update).unwrap(),
            json!({"extra_specs": {}, "github-runner-group": "", "runner_prefix": "garm"})
        );
    }

    #[test]
    fn a_pool_is_made_disabled_and_marked_and_then_finished_by_one_update() {
        let wanted = desired(&spec(), "tag").unwrap();
        let uid = "01234567-89ab-cdef-0123-456789abcdef";
        let create = wanted.create(uid);
        assert!(!create.enabled);
        assert_eq!(marked_uid(&create.runner_prefix), Some(uid));
        let made = Pool {
            enabled: false,
            runner_prefix: marker(uid),
            ..actual(&wanted)
        };
        assert_eq!(
            serde_json::to_value(wanted.diff(&made)).unwrap(),
            json!({"enabled": true, "runner_prefix": "garm"})
        );
    }

    #[test]
    fn only_our_form_is_a_marker() {
        for ordinary in [
            "garm",
            "new-",
            "new-team",
            "new-01234567",
            "01234567-89ab-cdef-0123-456789abcdef",
        ] {
            assert_eq!(marked_uid(ordinary), None);
        }
    }

    #[test]
    fn only_marked_disabled_and_empty_pools_are_abandoned() {
        let left = Pool {
            runner_prefix: marker("01234567-89ab-cdef-0123-456789abcdef"),
            ..Pool::default()
        };
        assert!(is_abandoned(&left, 0));
        assert!(!is_abandoned(&left, 1));
        let enabled = Pool {
            enabled: true,
            ..left.clone()
        };
        assert!(!is_abandoned(&enabled, 0));
        let ordinary = Pool {
            runner_prefix: "new-team".to_owned(),
            ..left
        };
        assert!(!is_abandoned(&ordinary, 0));
    }

    proptest! {
        #[test]
        fn the_plan_after_the_update_is_empty(max in 1i64..100, min in 0i64..100, enabled: bool, tags in prop::collection::vec("[a-zA-Z]{1,6}", 1..4), prefix in proptest::option::of("[a-z]{0,10}"), timeout in 0i64..60, specs in prop::sample::select(vec!["", "{}", "{\"b\": 1, \"a\": [2]}"])) {
            let spec = PoolSpec { max_runners: max.max(min), min_idle_runners: min, enabled, tags, runner_prefix: prefix, runner_bootstrap_timeout: timeout, extra_specs: Some(specs.to_owned()), ..spec() };
            let wanted = desired(&spec, "tag").unwrap();
            prop_assert!(wanted.diff(&actual(&wanted)).is_empty());
        }

        #[test]
        fn reading_a_spec_never_panics(max: i64, min: i64, timeout: i64, specs in ".{0,40}", prefix in ".{0,60}", tags in prop::collection::vec(".{0,5}", 0..3)) {
            let spec = PoolSpec { max_runners: max, min_idle_runners: min, runner_bootstrap_timeout: timeout, extra_specs: Some(specs), runner_prefix: Some(prefix), tags, ..spec() };
            let _ = desired(&spec, "tag");
        }
    }
}
