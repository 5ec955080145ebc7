//! What the spec of a Pool may be: faults that GARM would refuse or take without effect, and doubts that only the user can judge.

use serde_json::{Value, json};

use super::{MAX_PREFIX, MAX_RUNNERS, marked_uid};
use crate::api::refs::TypedRef;
use crate::api::v1beta1::{PoolSpec, Repository};
use crate::domain::defaults::PoolDefaults;
use crate::domain::field::FieldError;
use crate::domain::judgement::{Judgement, Reference};
use crate::domain::{
    reference,
    scope::{self, Scope},
};

/// Longest tag for which GARM's database has room.
const MAX_TAG: usize = 64;

/// Judges a spec that somebody writes, and what it makes of the one that was there.
pub fn judge(old: Option<&PoolSpec>, spec: &PoolSpec) -> Judgement {
    let mut faults = faults_when_written(spec);
    faults.extend(old.iter().flat_map(|old| faults_of_update(old, spec)));
    let scope = &spec.github_scope_ref;
    Judgement {
        faults,
        doubts: doubts(spec),
        references: vec![
            Reference::new("spec.githubScopeRef", &scope.kind, &scope.name),
            Reference::new("spec.imageName", "Image", &spec.image_name),
        ],
    }
}

/// Names what is wrong with a spec, all faults at once.
pub fn faults(spec: &PoolSpec) -> Vec<FieldError> {
    check(spec).1
}

/// Names what is wrong with a spec that somebody writes now. Stricter than [`faults`] where stored objects may hold what works, but not as it
/// was meant.
fn faults_when_written(spec: &PoolSpec) -> Vec<FieldError> {
    let mut errors = faults(spec);
    if spec.runner_bootstrap_timeout == 0 {
        errors.push(bootstrap_timeout(0));
    }
    let prefix = spec.runner_prefix.as_deref().unwrap_or_default();
    // Measured: GARM takes it, and then nobody can delete or ask about the runners, whose names stand in paths of its API.
    if prefix.chars().any(|c| c == '/' || c.is_control()) {
        errors.push(FieldError::invalid(
            "spec.runnerPrefix",
            prefix,
            "must not contain '/' or control characters: GARM could not be asked about such runners",
        ));
    }
    errors
}

/// Names the fields of `new` that GARM cannot change from what they are in `old`. A field that was empty may be filled in.
fn faults_of_update(old: &PoolSpec, new: &PoolSpec) -> Vec<FieldError> {
    let (was, is) = (&old.github_scope_ref, &new.github_scope_ref);
    [
        ("spec.providerName", &old.provider_name, &new.provider_name),
        ("spec.githubScopeRef", &was.name, &is.name),
        ("spec.githubScopeRef", &was.kind, &is.kind),
    ]
    .into_iter()
    .filter(|(_, old, new)| old != new && !old.is_empty())
    .map(|(path, old, new)| FieldError::immutable(path, old, new))
    .collect()
}

/// Names what is allowed and probably not meant.
fn doubts(spec: &PoolSpec) -> Vec<String> {
    let mut doubts = Vec::new();
    let group = spec.github_runner_group.as_deref().unwrap_or_default();
    if spec.github_scope_ref.kind == Repository::NAME && !group.is_empty() {
        doubts.push(
            "spec.githubRunnerGroup: has no effect, since repositories have no runner groups"
                .to_owned(),
        );
    }
    doubts.extend(reference::doubt(
        "spec.githubScopeRef",
        &spec.github_scope_ref,
    ));
    let prefix = spec.runner_prefix.as_deref().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !prefix.chars().all(is_plain) {
        doubts.push(
            "spec.runnerPrefix: GitHub or the provider may refuse names with more than letters, digits, '-', '_' and '.'"
                .to_owned(),
        );
    }
    for (index, tag) in spec.tags.iter().enumerate() {
        if tag.trim() != tag {
            doubts.push(format!(
                "spec.tags[{index}]: begins or ends with a space, which no job asks for"
            ));
        }
        if tag.chars().count() > MAX_TAG {
            doubts.push(format!(
                "spec.tags[{index}]: is longer than {MAX_TAG} characters, which GARM may refuse"
            ));
        }
    }
    doubts
}

/// Names the values of these defaults that no Pool may have.
pub fn faults_of_defaults(defaults: &PoolDefaults) -> Vec<FieldError> {
    let spec = PoolSpec {
        // What has no default is such that only the defaults can be at fault.
        github_scope_ref: TypedRef::new(Repository::NAME, "name"),
        provider_name: "provider".to_owned(),
        image_name: "image".to_owned(),
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
    faults_when_written(&spec)
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
        Ok(_) => Err(FieldError::invalid_unshown(
            PATH,
            "must be a JSON object, such as {\"disk\": 50}",
        )),
        // serde_json tells what it expected and where, not what it found.
        Err(error) => Err(FieldError::invalid_unshown(
            PATH,
            &format!("is not JSON: {error}"),
        )),
    }
}

/// Reads what has to be parsed, and names all faults.
pub(super) fn check(spec: &PoolSpec) -> (Value, Vec<FieldError>) {
    let mut errors = Vec::new();
    check_references(spec, &mut errors);
    check_numbers(spec, &mut errors);
    check_words(spec, &mut errors);
    let extra_specs = parse_extra_specs(spec.extra_specs.as_deref().unwrap_or_default())
        .unwrap_or_else(|error| {
            errors.push(error);
            Value::Null
        });
    (extra_specs, errors)
}

fn check_references(spec: &PoolSpec, errors: &mut Vec<FieldError>) {
    let scope = &spec.github_scope_ref;
    errors.extend(scope::kind_referred_to("spec.githubScopeRef", scope).err());
    for (path, value) in [
        ("spec.githubScopeRef.name", &scope.name),
        ("spec.imageName", &spec.image_name),
        ("spec.providerName", &spec.provider_name),
        ("spec.flavor", &spec.flavor),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
}

fn check_numbers(spec: &PoolSpec, errors: &mut Vec<FieldError>) {
    for (path, value, least) in [
        ("spec.maxRunners", Some(spec.max_runners), 1),
        ("spec.minIdleRunners", Some(spec.min_idle_runners), 0),
        ("spec.priority", spec.priority, 0),
    ] {
        if let Some(value) = value.filter(|value| !(least..=MAX_RUNNERS).contains(value)) {
            let detail = format!("must be between {least} and {MAX_RUNNERS}, inclusive");
            errors.push(FieldError::invalid(path, value, &detail));
        }
    }
    if spec.min_idle_runners > spec.max_runners && spec.min_idle_runners <= MAX_RUNNERS {
        let detail = format!("must not be more than maxRunners ({})", spec.max_runners);
        errors.push(FieldError::invalid(
            "spec.minIdleRunners",
            spec.min_idle_runners,
            &detail,
        ));
    }
    if !(0..=MAX_RUNNERS).contains(&spec.runner_bootstrap_timeout) {
        errors.push(bootstrap_timeout(spec.runner_bootstrap_timeout));
    }
}

fn bootstrap_timeout(minutes: i64) -> FieldError {
    let detail =
        format!("must be between 1 and {MAX_RUNNERS} minutes; 20 or more suit most images");
    FieldError::invalid("spec.runnerBootstrapTimeout", minutes, &detail)
}

fn check_words(spec: &PoolSpec, errors: &mut Vec<FieldError>) {
    for (path, value, supported) in [
        ("spec.osType", &spec.os_type, &["linux", "windows"][..]),
        ("spec.osArch", &spec.os_arch, &["amd64", "arm64", "arm"][..]),
    ] {
        if !supported.contains(&value.as_str()) {
            errors.push(FieldError::not_supported(path, value, supported));
        }
    }
    if spec.tags.is_empty() {
        let detail = "without a tag no job ever finds the pool";
        errors.push(FieldError::required("spec.tags", detail));
    }
    for (index, tag) in spec.tags.iter().enumerate() {
        if tag.trim().is_empty() {
            errors.push(FieldError::required(format!("spec.tags[{index}]"), ""));
        }
    }
    check_prefix(spec.runner_prefix.as_deref().unwrap_or_default(), errors);
}

fn check_prefix(prefix: &str, errors: &mut Vec<FieldError>) {
    let length = prefix.chars().count();
    if length > MAX_PREFIX {
        let detail =
            format!("has {length} characters; GitHub's limit for runner names leaves {MAX_PREFIX}");
        errors.push(FieldError::invalid("spec.runnerPrefix", prefix, &detail));
    }
    if marked_uid(prefix).is_some() {
        let detail = "this form is reserved for pools that are being made; choose another prefix";
        errors.push(FieldError::invalid("spec.runnerPrefix", prefix, detail));
    }
}

#[cfg(test)]
mod tests;
