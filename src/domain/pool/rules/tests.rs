use proptest::prelude::*;

use super::*;
use crate::domain::pool::{desired, marker};

fn spec() -> PoolSpec {
    PoolSpec {
        github_scope_ref: TypedRef::new("Organization", "acme"),
        provider_name: "fake".to_owned(),
        image_name: "image".to_owned(),
        flavor: "small".to_owned(),
        os_type: "linux".to_owned(),
        os_arch: "amd64".to_owned(),
        tags: vec!["linux".to_owned()],
        max_runners: 4,
        min_idle_runners: 1,
        runner_bootstrap_timeout: 20,
        ..PoolSpec::default()
    }
}

fn with(change: impl FnOnce(&mut PoolSpec)) -> PoolSpec {
    let mut spec = spec();
    change(&mut spec);
    spec
}

fn told(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn written(change: impl FnOnce(&mut PoolSpec)) -> Vec<String> {
    told(&faults_when_written(&with(change)))
}

type Change = fn(&mut PoolSpec);

#[test]
fn names_every_fault_at_once() {
    let spec = PoolSpec {
        max_runners: -1,
        runner_prefix: Some("x".repeat(50)),
        extra_specs: Some("[]".to_owned()),
        ..PoolSpec::default()
    };
    let paths: Vec<String> = faults_when_written(&spec)
        .into_iter()
        .map(|fault| fault.path)
        .collect();
    let expected = [
        "spec.githubScopeRef.kind",
        "spec.githubScopeRef.name",
        "spec.imageName",
        "spec.providerName",
        "spec.flavor",
        "spec.maxRunners",
        "spec.minIdleRunners",
        "spec.osType",
        "spec.osArch",
        "spec.tags",
        "spec.runnerPrefix",
        "spec.extraSpecs",
        "spec.runnerBootstrapTimeout",
    ];
    assert_eq!(paths, expected);
    assert!(written(|_| {}).is_empty());
}

#[test]
fn each_fault_says_what_is_wrong() {
    let timeout = "must be between 1 and 2147483647 minutes; 20 or more suit most images";
    let cases: [(Change, String); 11] = [
        (
            |s| s.max_runners = 1 << 33,
            "spec.maxRunners: Invalid value: 8589934592: must be between 1 and 2147483647, inclusive".to_owned(),
        ),
        (
            |s| s.min_idle_runners = 5,
            "spec.minIdleRunners: Invalid value: 5: must not be more than maxRunners (4)".to_owned(),
        ),
        (
            |s| s.min_idle_runners = -5,
            "spec.minIdleRunners: Invalid value: -5: must be between 0 and 2147483647, inclusive".to_owned(),
        ),
        (
            |s| s.priority = Some(-1),
            "spec.priority: Invalid value: -1: must be between 0 and 2147483647, inclusive".to_owned(),
        ),
        (
            |s| s.runner_bootstrap_timeout = 0,
            format!("spec.runnerBootstrapTimeout: Invalid value: 0: {timeout}"),
        ),
        (
            |s| s.runner_bootstrap_timeout = -1,
            format!("spec.runnerBootstrapTimeout: Invalid value: -1: {timeout}"),
        ),
        (
            |s| s.os_type = "solaris".to_owned(),
            r#"spec.osType: Unsupported value: "solaris": supported values: "linux", "windows""#.to_owned(),
        ),
        (
            |s| s.github_scope_ref.kind = "Pool".to_owned(),
            r#"spec.githubScopeRef.kind: Unsupported value: "Pool": supported values: "Enterprise", "Organization", "Repository""#.to_owned(),
        ),
        (
            |s| s.tags.push(" ".to_owned()),
            "spec.tags[1]: Required value".to_owned(),
        ),
        (
            |s| s.tags.clear(),
            "spec.tags: Required value: without a tag no job ever finds the pool".to_owned(),
        ),
        (
            |s| s.runner_prefix = Some(marker("01234567-89ab-cdef-0123-456789abcdef")),
            r#"spec.runnerPrefix: Invalid value: "new-01234567-89ab-cdef-0123-456789abcdef": this form is reserved for pools that are being made; choose another prefix"#.to_owned(),
        ),
    ];
    for (change, message) in cases {
        assert_eq!(written(change), [message]);
    }
}

#[test]
fn a_prefix_is_the_start_of_a_name() {
    let with_prefix = |prefix: &str| with(|s| s.runner_prefix = Some(prefix.to_owned()));
    for good in ["", "garm", "new-team", "A.b_c-1", &"x".repeat(49)] {
        let spec = with_prefix(good);
        assert!(faults_when_written(&spec).is_empty() && doubts(&spec).is_empty());
    }
    for odd in ["a b", "ü", "a?", "a%b"] {
        let spec = with_prefix(odd);
        assert!(faults_when_written(&spec).is_empty(), "{odd}");
        assert_eq!(doubts(&spec).len(), 1, "{odd}");
    }
    for bad in ["a/b", "a\nb", "\u{0}"] {
        assert_eq!(faults_when_written(&with_prefix(bad)).len(), 1, "{bad:?}");
    }
}

#[test]
fn what_a_stored_object_may_keep_is_no_fault_of_it() {
    let old = with(|s| {
        s.runner_bootstrap_timeout = 0;
        s.runner_prefix = Some("my/team".to_owned());
    });
    assert!(faults(&old).is_empty());
    assert_eq!(desired(&old, "tag").unwrap().bootstrap_timeout, 20);
    assert_eq!(faults_when_written(&old).len(), 2);
}

#[test]
fn extra_specs_are_an_object_or_nothing_and_the_message_does_not_repeat_them() {
    for good in ["", "  ", "{}", "{\"a\":1}"] {
        assert!(parse_extra_specs(good).is_ok(), "{good}");
    }
    for (bad, message) in [
        ("[]", "must be a JSON object, such as {\"disk\": 50}"),
        ("3", "must be a JSON object, such as {\"disk\": 50}"),
        ("\"x\"", "must be a JSON object, such as {\"disk\": 50}"),
        ("null", "must be a JSON object, such as {\"disk\": 50}"),
        (
            "{",
            "is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "{\"token\": hunter2}",
            "is not JSON: expected value at line 1 column 11",
        ),
    ] {
        let error = parse_extra_specs(bad).unwrap_err();
        assert_eq!(error.path, "spec.extraSpecs");
        assert_eq!(error.message, format!("Invalid value: {message}"));
    }
}

#[test]
fn provider_and_scope_cannot_change_and_everything_else_can() {
    let other = |s: &mut PoolSpec| {
        s.provider_name = "b".to_owned();
        s.github_scope_ref.kind = "Repository".to_owned();
        s.github_scope_ref.name = "tools".to_owned();
    };
    assert_eq!(
        told(&faults_of_update(&spec(), &with(other))),
        [
            r#"spec.providerName: Invalid value: "b": cannot be changed from "fake"; delete the object and make it anew"#,
            r#"spec.githubScopeRef: Invalid value: "tools": cannot be changed from "acme"; delete the object and make it anew"#,
            r#"spec.githubScopeRef: Invalid value: "Repository": cannot be changed from "Organization"; delete the object and make it anew"#,
        ]
    );
    let allowed = with(|s| {
        s.github_scope_ref.api_group = Some("garm-operator.mercedes-benz.com".to_owned());
        s.flavor = "large".to_owned();
        s.max_runners = 9;
    });
    assert!(faults_of_update(&spec(), &allowed).is_empty());
    assert!(
        faults_of_update(&PoolSpec::default(), &spec()).is_empty(),
        "what was empty is filled in"
    );
}

#[test]
fn doubts_are_told_and_nothing_else() {
    assert!(doubts(&spec()).is_empty());
    let doubtful = with(|s| {
        s.github_scope_ref.kind = "Repository".to_owned();
        s.github_scope_ref.api_group = Some("apps".to_owned());
        s.github_runner_group = Some("special".to_owned());
        s.tags = vec![" gpu".to_owned(), "x".repeat(65)];
    });
    assert_eq!(
        doubts(&doubtful),
        [
            "spec.githubRunnerGroup: has no effect, since repositories have no runner groups",
            "spec.githubScopeRef.apiGroup: \"apps\" is taken for garm-operator.mercedes-benz.com",
            "spec.tags[0]: begins or ends with a space, which no job asks for",
            "spec.tags[1]: is longer than 64 characters, which GARM may refuse",
        ]
    );
}

proptest! {
    #[test]
    fn no_message_repeats_extra_specs(start in "[ \\[{\"a-z:,]{0,12}") {
        if let Err(error) = parse_extra_specs(&format!("{start}hunter2")) {
            prop_assert!(!error.message.contains("hunter2"));
        }
    }
}
