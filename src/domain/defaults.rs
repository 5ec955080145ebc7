//! Values of Pool fields that a manifest leaves out.

use serde_json::{Value, json};

use crate::domain::field::FieldError;
use crate::domain::pool;

/// What a Pool gets where its manifest says nothing (`operator.poolDefaults`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolDefaults {
    /// `spec.osType`.
    pub os_type: String,
    /// `spec.osArch`.
    pub os_arch: String,
    /// `spec.enabled`.
    pub enabled: bool,
    /// `spec.minIdleRunners`.
    pub min_idle_runners: i64,
    /// `spec.runnerBootstrapTimeout`, in minutes.
    pub runner_bootstrap_timeout: i64,
    /// `spec.runnerPrefix`; `None` leaves it absent, which is GARM's own.
    pub runner_prefix: Option<String>,
    /// `spec.githubRunnerGroup`; `None` leaves it absent, which is GitHub's default one.
    pub github_runner_group: Option<String>,
}

/// The built-in defaults.
impl Default for PoolDefaults {
    fn default() -> Self {
        Self {
            os_type: "linux".to_owned(),
            os_arch: "amd64".to_owned(),
            enabled: true,
            min_idle_runners: 0,
            runner_bootstrap_timeout: 20,
            runner_prefix: None,
            github_runner_group: None,
        }
    }
}

impl PoolDefaults {
    /// Names the values that no Pool may have, by the path of their field.
    pub fn faults(&self) -> Vec<FieldError> {
        pool::faults_of_defaults(self)
    }

    /// Lists the operations of a JSON patch (RFC 6902) that give a Pool, as it was sent, the fields that it lacks; none when it lacks none.
    ///
    /// `null` is absent, as it is to the API server. A Pool without a spec stays without one: no defaults make it a Pool that can work.
    /// References are left alone, since they belong as a whole to whoever wrote them.
    pub fn patch(&self, object: &Value) -> Vec<Value> {
        let Some(spec) = object["spec"].as_object() else {
            return Vec::new();
        };
        let is_absent = |field: &str| spec.get(field).is_none_or(Value::is_null);
        self.values()
            .into_iter()
            .filter(|(field, _)| is_absent(field))
            .map(|(field, value)| json!({"op": "add", "path": format!("/spec/{field}"), "value": value}))
            .collect()
    }

    /// Gives a Pool the fields that it lacks, as admission would.
    pub fn fill(&self, object: &mut Value) {
        for operation in self.patch(object) {
            let path = operation["path"].as_str();
            if let Some(field) = path.and_then(|path| path.strip_prefix("/spec/")) {
                object["spec"][field] = operation["value"].clone();
            }
        }
    }

    /// The fields that have a default.
    fn values(&self) -> Vec<(&'static str, Value)> {
        let optional = [
            ("runnerPrefix", &self.runner_prefix),
            ("githubRunnerGroup", &self.github_runner_group),
        ];
        let optional = optional
            .into_iter()
            .filter_map(|(field, value)| Some((field, json!(value.as_ref()?))));
        [
            ("osType", json!(self.os_type)),
            ("osArch", json!(self.os_arch)),
            ("enabled", json!(self.enabled)),
            ("minIdleRunners", json!(self.min_idle_runners)),
            (
                "runnerBootstrapTimeout",
                json!(self.runner_bootstrap_timeout),
            ),
        ]
        .into_iter()
        .chain(optional)
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use proptest::prelude::*;

    use super::*;
    use crate::api::v1beta1::Pool;

    /// What RFC 6902 makes of our only operation.
    fn apply(object: &Value, patch: &[Value]) -> Value {
        let mut object = object.clone();
        for operation in patch {
            assert_eq!(operation["op"], "add");
            let field = operation["path"].as_str().unwrap().strip_prefix("/spec/");
            object["spec"][field.unwrap()] = operation["value"].clone();
        }
        object
    }

    fn by_platform() -> PoolDefaults {
        PoolDefaults {
            os_arch: "arm64".to_owned(),
            runner_prefix: Some("acme".to_owned()),
            github_runner_group: Some("shared".to_owned()),
            ..PoolDefaults::default()
        }
    }

    #[test]
    fn a_pool_that_says_nothing_gets_the_built_in_values() {
        let object = json!({"spec": {"githubScopeRef": {"kind": "Repository", "name": "tools"}}});
        let defaulted = apply(&object, &PoolDefaults::default().patch(&object));
        let expected = json!({
            "githubScopeRef": {"kind": "Repository", "name": "tools"},
            "osType": "linux", "osArch": "amd64", "enabled": true, "minIdleRunners": 0, "runnerBootstrapTimeout": 20,
        });
        assert_eq!(defaulted["spec"], expected);
    }

    #[test]
    fn prefix_and_runner_group_are_the_platform_teams_to_give() {
        let object = json!({"spec": {"osType": "windows", "enabled": false}});
        let defaulted = apply(&object, &by_platform().patch(&object));
        let expected = json!({
            "osType": "windows", "osArch": "arm64", "enabled": false, "minIdleRunners": 0, "runnerBootstrapTimeout": 20,
            "runnerPrefix": "acme", "githubRunnerGroup": "shared",
        });
        assert_eq!(defaulted["spec"], expected);
    }

    #[test]
    fn null_is_absent_and_what_is_no_spec_is_left_to_the_schema() {
        let object = json!({"spec": {"osType": null}});
        assert_eq!(
            apply(&object, &by_platform().patch(&object))["spec"]["osType"],
            "linux"
        );
        for object in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": [1]}),
            json!(7),
        ] {
            assert!(by_platform().patch(&object).is_empty());
        }
    }

    fn fields() -> Vec<&'static str> {
        by_platform()
            .values()
            .into_iter()
            .map(|(field, _)| field)
            .collect()
    }

    /// A spec with any of the fields, of any sort, and some that nobody knows.
    fn any_spec() -> impl Strategy<Value = Value> {
        let value = prop_oneof![
            Just(json!("")),
            Just(json!(false)),
            Just(json!(-1)),
            Just(json!({"kind": "x"})),
            "[a-z]{0,4}".prop_map(Value::from),
        ];
        let names: Vec<&str> = fields()
            .into_iter()
            .chain(["githubScopeRef", "tags", "unknown", "a/b~c"])
            .collect();
        prop::collection::btree_map(prop::sample::select(names), value, 0..10)
            .prop_map(|fields| json!({"spec": fields, "kind": "Pool"}))
    }

    proptest! {
        #[test]
        fn defaulting_adds_only_what_is_absent_and_once(object in any_spec(), given in any::<bool>()) {
            let defaults = if given { by_platform() } else { PoolDefaults::default() };
            let defaulted = apply(&object, &defaults.patch(&object));
            prop_assert!(defaults.patch(&defaulted).is_empty());
            let (before, after) = (object["spec"].as_object().unwrap(), defaulted["spec"].as_object().unwrap());
            for (field, value) in before {
                prop_assert_eq!(after.get(field), Some(value));
            }
            let added = after.keys().filter(|field| !before.contains_key(*field));
            prop_assert!(added.into_iter().all(|field| fields().contains(&field.as_str())));
        }
    }

    #[test]
    fn of_what_the_schema_requires_only_what_no_default_fits_is_left_to_users() {
        let crd = serde_json::to_value(Pool::crd()).unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let object = json!({"spec": {
            "githubScopeRef": {}, "providerName": "", "imageName": "", "flavor": "", "tags": [], "maxRunners": 1,
        }});
        let defaulted = apply(&object, &PoolDefaults::default().patch(&object));
        for field in spec["required"].as_array().unwrap() {
            let field = field.as_str().unwrap();
            assert!(defaulted["spec"].get(field).is_some(), "{field} is missing");
        }
        for field in fields() {
            assert!(spec["properties"].get(field).is_some(), "{field}");
        }
    }
}
