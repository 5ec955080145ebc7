//! Rules about pools: what a spec means, what differs in GARM, which marker makes a pool ours.

use std::fmt;

use serde_json::{Value, json};

use crate::api::v1beta1::PoolSpec;
use crate::domain::compare::{same_extra_specs, same_runner_group, same_tags};
use crate::domain::defaults::PoolDefaults;
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
    let mut errors = Vec::new();
    check_numbers(spec, &mut errors);
    check_words(spec, &mut errors);
    let extra_specs = parse_extra_specs(spec.extra_specs.as_deref().unwrap_or_default())
        .unwrap_or_else(|error| {
            errors.push(error);
            Value::Null
        });
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

/// Names the values of these defaults that no Pool may have.
pub fn faults_of_defaults(defaults: &PoolDefaults) -> Vec<FieldError> {
    let spec = PoolSpec {
        // What has no default is such that only the defaults can be at fault.
        provider_name: "provider".to_owned(),
        flavor: "flavor".to_owned(),
        tags: vec!["tag".to_owned()],
        max_runners: MAX_RUNNERS,
        os_type: defaults.os_type.clone(),
        os_arch: defaults.os_arch.clone(),
        enabled: defaults.enabled,
        min_idle_runners: defaults.min_idle_runners,
        runner_bootstrap_timeout: defaults.runner_bootstrap_timeout,
        runner_prefix: defaults.runner_prefix.clone(),
        github_runner_group: defaults.github_runner_group.clone(),
        ..PoolSpec::default()
    };
    desired(&spec, "").err().unwrap_or_default()
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

fn check_numbers(spec: &PoolSpec, errors: &mut Vec<FieldError>) {
    if !(1..=MAX_RUNNERS).contains(&spec.max_runners) {
        let message = format!("{} is not between 1 and {MAX_RUNNERS}", spec.max_runners);
        errors.push(FieldError::new("spec.maxRunners", message));
    }
    if !(0..=MAX_RUNNERS).contains(&spec.min_idle_runners) {
        let message = format!(
            "{} is not between 0 and {MAX_RUNNERS}",
            spec.min_idle_runners
        );
        errors.push(FieldError::new("spec.minIdleRunners", message));
    } else if spec.min_idle_runners > spec.max_runners {
        let message = format!(
            "{} is more than maxRunners ({})",
            spec.min_idle_runners, spec.max_runners
        );
        errors.push(FieldError::new("spec.minIdleRunners", message));
    }
    if !(0..=MAX_RUNNERS).contains(&spec.runner_bootstrap_timeout) {
        let message = format!(
            "{} minutes is not a timeout; use 20 or more for most images",
            spec.runner_bootstrap_timeout
        );
        errors.push(FieldError::new("spec.runnerBootstrapTimeout", message));
    }
    if let Some(priority) = spec.priority.filter(|p| !(0..=MAX_RUNNERS).contains(p)) {
        errors.push(FieldError::new(
            "spec.priority",
            format!("{priority} is not between 0 and {MAX_RUNNERS}"),
        ));
    }
}

fn check_words(spec: &PoolSpec, errors: &mut Vec<FieldError>) {
    for (path, value, allowed) in [
        ("spec.osType", &spec.os_type, &["linux", "windows"][..]),
        ("spec.osArch", &spec.os_arch, &["amd64", "arm64", "arm"][..]),
    ] {
        if !allowed.contains(&value.as_str()) {
            errors.push(FieldError::new(
                path,
                format!("{value:?} is not one of {}", allowed.join(", ")),
            ));
        }
    }
    for (path, value) in [
        ("spec.providerName", &spec.provider_name),
        ("spec.flavor", &spec.flavor),
    ] {
        if value.is_empty() {
            errors.push(FieldError::new(path, "must not be empty"));
        }
    }
    if spec.tags.is_empty() {
        errors.push(FieldError::new(
            "spec.tags",
            "at least one tag is needed, or no job ever finds the pool",
        ));
    }
    for (index, tag) in spec.tags.iter().enumerate() {
        if tag.trim().is_empty() {
            errors.push(FieldError::new(
                format!("spec.tags[{index}]"),
                "must not be empty",
            ));
        }
    }
    let prefix = spec.runner_prefix.as_deref().unwrap_or_default();
    if prefix.chars().count() > MAX_PREFIX {
        let message = format!(
            "has {} characters; GitHub's limit for runner names leaves {MAX_PREFIX}",
            prefix.chars().count()
        );
        errors.push(FieldError::new("spec.runnerPrefix", message));
    }
    if marked_uid(prefix).is_some() {
        errors.push(FieldError::new(
            "spec.runnerPrefix",
            "this form is reserved for pools that are being made; choose another prefix",
        ));
    }
}

/// Parses extra specs: empty is `{}`, anything but a JSON object is refused.
///
/// The message names the position and never the text, which may hold secrets.
pub fn parse_extra_specs(text: &str) -> Result<Value, FieldError> {
    const PATH: &str = "spec.extraSpecs";
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(FieldError::new(
            PATH,
            "must be a JSON object, such as {\"disk\": 50}",
        )),
        Err(error) => Err(FieldError::new(
            PATH,
            format!(
                "is not JSON (line {}, column {})",
                error.line(),
                error.column()
            ),
        )),
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
    use proptest::prelude::*;

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

    fn faults(change: impl FnOnce(&mut PoolSpec)) -> Vec<String> {
        let mut spec = spec();
        change(&mut spec);
        match desired(&spec, "tag") {
            Ok(_) => Vec::new(),
            Err(errors) => errors.into_iter().map(|e| e.path).collect(),
        }
    }

    #[test]
    fn names_every_fault_at_once() {
        let paths = faults(|s| {
            s.max_runners = -1;
            s.os_type = "solaris".to_owned();
            s.os_arch = "mips".to_owned();
            s.tags.clear();
            s.extra_specs = Some("[]".to_owned());
            s.runner_prefix = Some("x".repeat(50));
        });
        let expected = [
            "spec.maxRunners",
            "spec.minIdleRunners",
            "spec.osType",
            "spec.osArch",
            "spec.tags",
            "spec.runnerPrefix",
            "spec.extraSpecs",
        ];
        assert_eq!(paths, expected);
        assert_eq!(
            faults(|s| s.max_runners = 1_000_000_000_000),
            ["spec.maxRunners"]
        );
        assert_eq!(faults(|s| s.min_idle_runners = 5), ["spec.minIdleRunners"]);
        assert_eq!(faults(|s| s.tags.push(" ".to_owned())), ["spec.tags[1]"]);
        assert_eq!(
            faults(|s| s.runner_prefix = Some(marker("01234567-89ab-cdef-0123-456789abcdef"))),
            ["spec.runnerPrefix"]
        );
        assert_eq!(
            faults(|s| s.runner_prefix = Some("new-team".to_owned())),
            Vec::<String>::new()
        );
    }

    #[test]
    fn extra_specs_are_an_object_or_nothing_and_the_message_does_not_repeat_them() {
        for good in ["", "  ", "{}", "{\"a\":1}"] {
            assert!(parse_extra_specs(good).is_ok(), "{good}");
        }
        for bad in ["[]", "3", "\"x\"", "{", "null", "{\"token\": hunter2}"] {
            let error = parse_extra_specs(bad).unwrap_err();
            assert_eq!(error.path, "spec.extraSpecs");
            assert!(!error.message.contains("hunter2"));
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
