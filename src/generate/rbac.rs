//! Who may do what, as values and as YAML: the operator itself, with no right that it does not use, and people.
//!
//! The rules stand here once; manifests and chart carry what this makes of them. A test lets the operator live by them and reads in the API
//! server's audit log that nothing was refused and that nothing lies idle.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::File;
use crate::api::install::{
    self, CONVERTED, LEASE, NAMESPACE, PREFIX, crd, mutating_webhooks, plurals, validating_webhooks,
};
use crate::api::meta::GROUP;

/// What an installation reaches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reach {
    /// Namespace of the operator itself.
    pub own: String,
    /// Namespaces whose objects it works on; none: all there are.
    pub watched: Vec<String>,
    /// Whether it makes its webhook certificates itself.
    pub self_managed: bool,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            own: NAMESPACE.to_owned(),
            watched: Vec::new(),
            self_managed: false,
        }
    }
}

/// Kinds whose objects hold a finalizer of ours: it is put on, and after a conflict decided again on what is stored. A Pool is read before it
/// is made in GARM, too.
const HELD: [&str; 7] = [
    "enterprises",
    "githubcredentials",
    "githubendpoints",
    "organizations",
    "pools",
    "repositories",
    "runners",
];

/// Lists what the operator does with the objects it works on, wherever they are.
pub fn watched() -> Vec<PolicyRule> {
    let plurals = plurals();
    let with_status = plurals.iter().filter(|plural| *plural != "images");
    let status: Vec<String> = with_status
        .map(|plural| format!("{plural}/status"))
        .collect();
    vec![
        rule(GROUP, &HELD, &["get", "list", "patch", "watch"]),
        // It has no finalizer; when it was last pushed is an annotation.
        rule(GROUP, &["garmserverconfigs"], &["list", "patch", "watch"]),
        // Read only.
        rule(GROUP, &["images"], &["list", "watch"]),
        rule(GROUP, &["runners"], &["create", "delete"]),
        rule(GROUP, &status, &["patch"]),
        // Metadata are watched, data read when they are needed.
        rule("", &["secrets"], &["get", "list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// Lists what replicas do in the operator's own namespace to elect a leader.
pub fn leader_election() -> Vec<PolicyRule> {
    let leases = "coordination.k8s.io";
    vec![
        // What is to be made has no name yet that a rule could name.
        rule(leases, &["leases"], &["create"]),
        named(leases, &["leases"], &["get", "update", "watch"], &[LEASE]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

/// Lists what an operator that makes its own certificates does in its own namespace.
pub fn webhook_ca(prefix: &str) -> Vec<PolicyRule> {
    let name = install::webhook_ca(prefix);
    vec![
        rule("", &["secrets"], &["create"]),
        named("", &["secrets"], &["get", "update"], &[name]),
    ]
}

/// Lists what such an operator does with the objects by which the API server knows its CA.
pub fn webhook_bundle(prefix: &str) -> Vec<PolicyRule> {
    let verbs = ["list", "patch", "watch"];
    let configuration = |plural, name| {
        let group = "admissionregistration.k8s.io";
        named(group, &[plural], &verbs, &[name])
    };
    vec![
        configuration(
            "validatingwebhookconfigurations",
            validating_webhooks(prefix),
        ),
        configuration("mutatingwebhookconfigurations", mutating_webhooks(prefix)),
        named(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &verbs,
            &CONVERTED.map(crd),
        ),
    ]
}

/// Lists what people may do who look on.
pub fn viewer() -> Vec<PolicyRule> {
    let status: Vec<String> = plurals().map(|plural| format!("{plural}/status")).into();
    vec![
        rule(GROUP, &plurals(), &["get", "list", "watch"]),
        rule(GROUP, &status, &["get"]),
        rule(GROUP, &["pools/scale"], &["get"]),
    ]
}

/// Lists what people may do besides who work with runner pools. Runners are made by the operator alone.
pub fn editor() -> Vec<PolicyRule> {
    let plurals = plurals();
    let made: Vec<&str> = plurals.iter().map(AsRef::as_ref).collect();
    let made: Vec<&str> = made
        .into_iter()
        .filter(|plural| *plural != "runners")
        .collect();
    let changes = ["delete", "deletecollection", "patch", "update"];
    vec![
        rule(GROUP, &made, &["create"]),
        rule(GROUP, &plurals, &changes),
        rule(GROUP, &["pools/scale"], &["patch", "update"]),
    ]
}

/// Builds the roles and bindings of an installation.
pub fn objects(reach: &Reach) -> Vec<Value> {
    let mut all = for_work(reach);
    all.extend(for_election(&reach.own));
    if reach.self_managed {
        all.extend(for_certificates(&reach.own));
    }
    all.extend(for_people());
    all
}

/// Renders the file for an installation.
pub fn files(reach: &Reach) -> anyhow::Result<Vec<File>> {
    let default = Reach::default();
    let mut words = vec!["garm-operator generate rbac".to_owned()];
    if reach.own != default.own {
        words.push(format!("--namespace {}", reach.own));
    }
    if !reach.watched.is_empty() {
        words.push(format!("--watch-namespace {}", reach.watched.join(",")));
    }
    if reach.self_managed {
        words.push("--self-managed".to_owned());
    }
    let command = words.join(" ");
    Ok(vec![super::yaml("rbac.yaml", &command, &objects(reach))?])
}

/// Builds what the work takes: for all namespaces, or in each of those that are watched.
pub(super) fn for_work(reach: &Reach) -> Vec<Value> {
    let (role, binding) = names("manager");
    if reach.watched.is_empty() {
        return vec![
            cluster_role(&role, &watched()),
            cluster_binding(&binding, &role, &reach.own),
        ];
    }
    let namespaces = reach.watched.iter();
    namespaces
        .flat_map(|namespace| {
            [
                local_role(namespace, &role, &watched()),
                local_binding(namespace, &binding, &role, &reach.own),
            ]
        })
        .collect()
}

/// Builds what the election of a leader takes.
fn for_election(own: &str) -> [Value; 2] {
    let (role, binding) = names("leader-election");
    [
        local_role(own, &role, &leader_election()),
        local_binding(own, &binding, &role, own),
    ]
}

/// Builds what own certificates take.
pub(super) fn for_certificates(own: &str) -> [Value; 4] {
    let (ca, ca_binding) = names("webhook-ca");
    let (bundle, bundle_binding) = names("webhook-bundle");
    [
        local_role(own, &ca, &webhook_ca(PREFIX)),
        local_binding(own, &ca_binding, &ca, own),
        cluster_role(&bundle, &webhook_bundle(PREFIX)),
        cluster_binding(&bundle_binding, &bundle, own),
    ]
}

/// Builds the roles that grow those which every cluster has: whoever may view or edit a namespace may do so with our kinds.
fn for_people() -> [Value; 2] {
    let grown = |kind: &str, of: &[&str], rules: &[PolicyRule]| {
        let mut role = cluster_role(&names(kind).0, rules);
        for name in of {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
            role["metadata"]["labels"][label] = "true".into();
        }
        role
    };
    [
        grown("viewer", &["admin", "edit", "view"], &viewer()),
        grown("editor", &["admin", "edit"], &editor()),
    ]
}

/// Names a role and its binding.
fn names(what: &str) -> (String, String) {
    (
        format!("{PREFIX}-{what}-role"),
        format!("{PREFIX}-{what}-rolebinding"),
    )
}

fn rule(group: &str, resources: &[impl AsRef<str>], verbs: &[&str]) -> PolicyRule {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(
            resources
                .iter()
                .map(|one| one.as_ref().to_owned())
                .collect(),
        ),
        verbs: words(verbs),
        ..PolicyRule::default()
    }
}

fn named(group: &str, resources: &[&str], verbs: &[&str], names: &[impl AsRef<str>]) -> PolicyRule {
    PolicyRule {
        resource_names: Some(names.iter().map(|one| one.as_ref().to_owned()).collect()),
        ..rule(group, resources, verbs)
    }
}

const API: &str = "rbac.authorization.k8s.io";

fn cluster_role(name: &str, rules: &[PolicyRule]) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules,
    })
}

fn local_role(namespace: &str, name: &str, rules: &[PolicyRule]) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"), "kind": "Role",
        "metadata": {"name": name, "namespace": namespace}, "rules": rules,
    })
}

fn cluster_binding(name: &str, role: &str, own: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": API, "kind": "ClusterRole", "name": role},
        "subjects": [account(own)],
    })
}

fn local_binding(namespace: &str, name: &str, role: &str, own: &str) -> Value {
    json!({
        "apiVersion": format!("{API}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": API, "kind": "Role", "name": role},
        "subjects": [account(own)],
    })
}

/// The account that the operator runs as.
fn account(own: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": install::account(PREFIX), "namespace": own})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn reach(watched: &[&str], self_managed: bool) -> Reach {
        Reach {
            watched: watched.iter().map(|&name| name.to_owned()).collect(),
            self_managed,
            ..Reach::default()
        }
    }

    fn shown(reach: &Reach) -> Vec<String> {
        let shown = |object: &Value| {
            let meta = &object["metadata"];
            let place = meta["namespace"].as_str().unwrap_or("-");
            format!(
                "{} {place}/{}",
                object["kind"].as_str().unwrap(),
                meta["name"].as_str().unwrap()
            )
        };
        objects(reach).iter().map(shown).collect()
    }

    #[test]
    fn all_namespaces_take_a_cluster_role_and_the_lease_a_role() {
        assert_eq!(
            shown(&reach(&[], false)),
            [
                "ClusterRole -/garm-operator-manager-role",
                "ClusterRoleBinding -/garm-operator-manager-rolebinding",
                "Role garm-operator-system/garm-operator-leader-election-role",
                "RoleBinding garm-operator-system/garm-operator-leader-election-rolebinding",
                "ClusterRole -/garm-operator-viewer-role",
                "ClusterRole -/garm-operator-editor-role",
            ]
        );
    }

    #[test]
    fn chosen_namespaces_take_a_role_each_and_nothing_for_the_cluster() {
        let shown = shown(&reach(&["team-a", "team-b"], false));
        assert_eq!(
            shown[..4],
            [
                "Role team-a/garm-operator-manager-role",
                "RoleBinding team-a/garm-operator-manager-rolebinding",
                "Role team-b/garm-operator-manager-role",
                "RoleBinding team-b/garm-operator-manager-rolebinding",
            ]
        );
        assert!(
            !shown
                .iter()
                .any(|one| one.starts_with("ClusterRoleBinding"))
        );
    }

    #[test]
    fn own_certificates_add_rights_by_name_only() {
        let (without, with) = (shown(&reach(&[], false)), shown(&reach(&[], true)));
        let added: BTreeSet<_> = with.iter().filter(|one| !without.contains(one)).collect();
        assert_eq!(added.len(), 4, "{added:?}");
        for rule in webhook_bundle(PREFIX) {
            assert!(!rule.resource_names.unwrap_or_default().is_empty());
        }
        // A Secret to be made has no name that a rule could name; everything else has one.
        let nameless = webhook_ca(PREFIX);
        let mut nameless = nameless.iter().filter(|rule| rule.resource_names.is_none());
        assert_eq!(nameless.next().unwrap().verbs, ["create"]);
        assert!(nameless.next().is_none());
    }

    #[test]
    fn the_operator_never_writes_a_spec_and_no_rule_is_a_star() {
        let all = [
            watched(),
            leader_election(),
            webhook_ca(PREFIX),
            webhook_bundle(PREFIX),
            viewer(),
            editor(),
        ];
        for rule in all.iter().flatten() {
            let lists = [&rule.api_groups, &rule.resources, &rule.resource_names];
            let words = lists.into_iter().flatten().flatten().chain(&rule.verbs);
            assert!(words.clone().all(|word| !word.contains('*')), "{rule:?}");
        }
        for rule in watched() {
            assert!(!rule.verbs.iter().any(|verb| verb == "update"), "{rule:?}");
        }
    }

    #[test]
    fn people_get_all_kinds_by_the_roles_they_have() {
        let [view, edit] = for_people();
        let labels = |role: &Value| {
            let labels = role["metadata"]["labels"].as_object().unwrap();
            labels
                .keys()
                .map(|key| key.replace("rbac.authorization.k8s.io/aggregate-to-", ""))
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(&view), ["admin", "edit", "view"]);
        assert_eq!(labels(&edit), ["admin", "edit"]);
        let resources = |rules: &[PolicyRule]| -> BTreeSet<String> {
            let resources = rules.iter().filter_map(|rule| rule.resources.clone());
            resources
                .flatten()
                .filter(|one| !one.contains('/'))
                .collect()
        };
        let all: BTreeSet<String> = plurals().map(std::borrow::Cow::into_owned).into();
        assert_eq!(resources(&viewer()), all);
        assert_eq!(resources(&editor()), all);
        assert!(HELD.iter().all(|plural| all.contains(*plural)));
    }
}
