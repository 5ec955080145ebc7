use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const POOL: &str = r"apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Pool
metadata:
  name: NAME
spec:
  githubScopeRef: {apiGroup: garm-operator.mercedes-benz.com, kind: Repository, name: tools}
  providerName: fake
  imageName: ubuntu
  flavor: small
  tags: [linux]
  maxRunners: 4
";

const TOOLS: &str = r"apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Repository
metadata: {name: tools}
spec:
  owner: acme
  credentialsRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: token}
  webhookSecretRef: {name: secret, key: key}
";

const IMAGE: &str = r"apiVersion: garm-operator.mercedes-benz.com/v1beta1
kind: Image
metadata: {name: ubuntu}
spec: {tag: 24.04-lts}
";

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::new);

fn pool(name: &str) -> String {
    POOL.replace("NAME", name)
}

fn report(texts: &[(&str, &str)]) -> Report {
    let input = |(name, text): &(&str, &str)| Input {
        name: (*name).to_owned(),
        text: (*text).to_owned(),
        named: true,
    };
    let inputs: Vec<Input> = texts.iter().map(input).collect();
    validate(&inputs, &SCHEMAS, &PoolDefaults::default())
}

fn lines(text: &str) -> Vec<String> {
    let report = report(&[("f.yaml", text)]);
    assert_eq!(report.unreadable, []);
    report.to_text().lines().map(str::to_owned).collect()
}

#[test]
fn a_whole_set_is_clean_but_for_what_it_refers_to_elsewhere() {
    let text = [pool("a"), TOOLS.to_owned(), IMAGE.to_owned()].join("---\n");
    assert_eq!(
        lines(&text),
        [
            "f.yaml:18: warning: Repository/tools: spec.credentialsRef: GitHubCredential \"token\" is not among these manifests"
        ]
    );
}

#[test]
fn names_every_fault_with_its_line() {
    let text = pool("a")
        .replace("maxRunners: 4", "maxRunners: 0\n  minIdleRunners: x\n  osType: solaris\n  extraSpecs: '{\"a\"'\n  flavour: y")
        .replace("providerName: fake", "providerName: ''");
    let errors: Vec<String> = lines(&text)
        .into_iter()
        .filter(|line| !line.contains("warning"))
        .collect();
    assert_eq!(
        errors,
        [
            "f.yaml:12: Pool/a: spec.minIdleRunners: Invalid value: must be of type integer, not string",
            "f.yaml:15: Pool/a: spec.flavour: Forbidden: there is no such field",
        ]
    );
    let errors: Vec<String> = lines(&text.replace("minIdleRunners: x", "minIdleRunners: 1"))
        .into_iter()
        .filter(|line| !line.contains("warning"))
        .map(|line| line.split(": ").take(3).collect::<Vec<_>>().join(": "))
        .collect();
    assert_eq!(
        errors,
        [
            "f.yaml:7: Pool/a: spec.providerName",
            "f.yaml:11: Pool/a: spec.maxRunners",
            "f.yaml:12: Pool/a: spec.minIdleRunners",
            "f.yaml:13: Pool/a: spec.osType",
            "f.yaml:14: Pool/a: spec.extraSpecs",
            "f.yaml:15: Pool/a: spec.flavour",
        ]
    );
}

#[test]
fn finds_equal_pools_and_the_same_object_across_files() {
    let other_image = IMAGE.replace("ubuntu", "also-ubuntu");
    let twin = pool("b").replace("imageName: ubuntu", "imageName: also-ubuntu");
    let report = report(&[
        ("1.yaml", &[pool("a"), IMAGE.to_owned()].join("---\n")),
        (
            "2.yaml",
            &[twin, other_image, TOOLS.to_owned()].join("---\n"),
        ),
        ("3.yaml", TOOLS),
    ]);
    let text = report.to_text();
    let has = |part: &str| assert!(text.contains(part), "no {part:?} in\n{text}");
    has("2.yaml:5: Pool/b: spec: Pool \"a\" has the same");
    has("have the same tag");
    has("(in 1.yaml:1)");
    has("3.yaml:3: warning: Repository/tools: metadata.name: the same object is also in 2.yaml:18");
    assert_eq!(report.exit_code(false), 1);
}

#[test]
fn whole_numbers_with_a_point_hide_no_fault() {
    let text = pool("a")
        .replace("maxRunners: 4", "maxRunners: 0.0")
        .replace("tags: [linux]", "tags: []")
        .replace("kind: Repository, name", "kind: Nope, name");
    let found = lines(&text).join("\n");
    for path in ["spec.maxRunners", "spec.tags", "spec.githubScopeRef"] {
        assert!(found.contains(path), "no {path} in {found}");
    }
}

#[test]
fn another_namespace_is_another_world() {
    let elsewhere = pool("b").replace("name: b", "name: b\n  namespace: team-b");
    let text = [pool("a"), elsewhere, TOOLS.to_owned(), IMAGE.to_owned()].join("---\n");
    let found = lines(&text);
    assert!(
        !found.iter().any(|line| line.contains("has the same")),
        "{found:?}"
    );
    assert_eq!(
        found.iter().filter(|line| line.contains("Pool/b")).count(),
        2,
        "{found:?}"
    );
}

#[test]
fn judges_old_versions_by_the_same_rules() {
    let old = TOOLS.replace("v1beta1", "v1alpha1").replace(
        "credentialsRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: token}",
        "credentialsName: ''",
    );
    assert_eq!(
        lines(&old),
        [
            "f.yaml:1: warning: Repository/tools: apiVersion: v1alpha1 is deprecated; use v1beta1",
            "f.yaml:6: Repository/tools: spec.credentialsName: Required value",
        ]
    );
}

#[test]
fn skips_what_is_not_ours_and_refuses_what_only_looks_like_it() {
    assert_eq!(
        lines("apiVersion: v1\nkind: Secret\ndata: {a: 1}\n"),
        ["f.yaml:1: warning: no object of garm-operator.mercedes-benz.com is in this file"]
    );
    assert_eq!(
        lines("apiVersion: garm-operator.mercedes-benz.com/v1beta1\nkind: Pol\n"),
        [
            "f.yaml:2: Pol/: kind: Invalid value: \"Pol\": garm-operator.mercedes-benz.com has no such kind"
        ]
    );
    assert_eq!(
        lines("apiVersion: garm-operator.mercedes-benz.com/v2\nkind: Image\n"),
        [
            "f.yaml:1: Image/: apiVersion: Unsupported value: \"v2\": supported values: \"v1alpha1\", \"v1beta1\""
        ]
    );
    let nameless = report(&[("f.yaml", "spec: {}\n")]);
    assert_eq!(
        (nameless.exit_code(false), nameless.unreadable.len()),
        (2, 1)
    );
}

#[test]
fn refuses_names_that_the_api_server_would_refuse() {
    let errors = |text: &str| lines(&text.replace("24.04-lts", "x")).join("\n");
    assert!(errors(&IMAGE.replace("name: ubuntu", "name: Ubuntu")).contains("metadata.name"));
    assert!(errors(&IMAGE.replace("{name: ubuntu}", "{}")).contains("metadata.name: Required"));
    assert_eq!(
        errors(&IMAGE.replace("name: ubuntu", "generateName: ubuntu-")),
        ""
    );
    assert!(
        errors(&IMAGE.replace("{name: ubuntu}", "{name: a, namespace: a.b}"))
            .contains("metadata.namespace")
    );
}

#[test]
fn a_pool_of_garm_is_asked_for_by_its_id_and_by_one_pool() {
    let asking = |name: &str, id: &str| {
        pool(name).replace(
            "metadata:\n",
            &format!(
                "metadata:\n  annotations: {{garm-operator.mercedes-benz.com/adopt-id: {id}}}\n"
            ),
        )
    };
    let found = lines(&asking("a", "small")).join("\n");
    assert!(
        found.contains("must be the id of a pool in GARM"),
        "{found}"
    );
    let id = "9a6b8c1e-5b7d-4f5e-8d3a-2f1e0c9b8a77";
    let both = asking("a", id) + "---\n" + &asking("b", &id.to_uppercase());
    let found = lines(&both.replacen("flavor: small", "flavor: large", 1)).join("\n");
    assert!(
        found.contains("Pool \"a\" asks for the same pool of GARM (in f.yaml:1)"),
        "{found}"
    );
}

#[test]
fn never_shows_what_extra_specs_hold() {
    let text = pool("a") + "  extraSpecs: '{\"token\": hunter2}'\n";
    let found = lines(&text).join("\n");
    assert!(
        found.contains("spec.extraSpecs") && !found.contains("hunter2"),
        "{found}"
    );
}

proptest! {
    #[test]
    fn any_change_of_a_manifest_gives_an_answer(
        position in 0usize..1000, length in 0usize..12, with in "([a-z:\\-{}\\[\\]&*!|>%@`'\"#,?~. \n0-9]|\\PC){0,12}",
    ) {
        let whole: Vec<char> = [pool("a"), TOOLS.to_owned(), IMAGE.to_owned()].join("---\n").chars().collect();
        let start = whole.len() * position / 1000;
        let end = (start + length).min(whole.len());
        let changed: String = whole[..start].iter().chain(&with.chars().collect::<Vec<_>>()).chain(&whole[end..]).collect();
        let report = report(&[("f", &changed)]);
        prop_assert!(report.exit_code(true) <= 2);
        report.to_json().unwrap();
    }
}
