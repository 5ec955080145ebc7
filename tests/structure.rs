//! Keeps imports going one way: `api` ← `domain` ← `controllers` ← `run`. GARM's client knows nothing of Kubernetes, the Kubernetes side
//! nothing of pools, and what is pure names no client, no clock of its own and nothing asynchronous.

#![expect(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may name of the others: a module, or one path within it.
const MAY_USE: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("domain", &["api", "garm::wire"]),
    ("garm", &[]),
    ("runtime", &["telemetry", "api::meta"]),
    // What is shown of objects as metrics.
    ("telemetry", &["config", "api"]),
    // Who manages its own certificate writes to the cluster, as the leader.
    (
        "server",
        &["telemetry", "config", "api::install", "runtime"],
    ),
    // The connection's times and the rules' own settings are part of the configuration.
    ("config", &["garm", "domain"]),
    (
        "controllers",
        &["api", "domain", "garm", "runtime", "telemetry", "config"],
    ),
    (
        "admission",
        &[
            "api",
            "domain",
            "runtime",
            "telemetry",
            "config",
            "controllers",
        ],
    ),
    // Tables of the documentation are made of what is there.
    (
        "generate",
        &[
            "api",
            "admission::hooks",
            "config::settings",
            "domain::defaults",
            "telemetry::reference",
        ],
    ),
    ("validate", &["api", "domain", "generate"]),
    // Tools that read once and end.
    ("look", &["config", "garm"]),
    ("export", &["api", "domain", "garm", "validate"]),
    (
        "diff",
        &[
            "api",
            "config",
            "controllers",
            "domain",
            "garm",
            "look",
            "runtime",
            "telemetry",
            "validate",
        ],
    ),
    (
        "cli",
        &[
            "config", "diff", "domain", "export", "generate", "look", "run", "validate",
        ],
    ),
    (
        "run",
        &[
            "api",
            "domain",
            "garm",
            "runtime",
            "telemetry",
            "server",
            "config",
            "controllers",
            "admission",
        ],
    ),
];

/// Words that pure modules must not hold.
const IMPURE: &[&str] = &[
    "Client",
    "reqwest",
    "tokio",
    "async",
    "await",
    "Instant",
    "SystemTime",
    "Timestamp::now",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All files of the library by top-level module, with their code.
fn files() -> BTreeMap<String, Vec<(PathBuf, String)>> {
    let mut all: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let relative = path.strip_prefix(source()).unwrap();
                let first = relative.components().next().unwrap();
                let module = first.as_os_str().to_str().unwrap().trim_end_matches(".rs");
                let code = code(&fs::read_to_string(&path).unwrap());
                let files = all.entry(module.to_owned()).or_default();
                files.push((relative.to_owned(), code));
            }
        }
    }
    all.remove("main");
    all.remove("lib");
    all
}

/// The text without line comments, and with single spaces.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

/// All paths that a text names after this root, those in braces spelled out to their first branch.
fn paths_after(code: &str, root: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (start, _) in code.match_indices(root) {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[start + root.len()..];
        match rest.strip_prefix('{') {
            None => {
                paths.insert(path(rest));
            }
            Some(group) => paths.extend(branches(group)),
        }
    }
    paths
}

/// The first branches of a group, whose closing brace ends it.
fn branches(group: &str) -> Vec<String> {
    let (mut depth, mut branch, mut all) = (0, String::new(), Vec::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(path(branch.trim()));
                branch.clear();
                continue;
            }
            _ => {}
        }
        branch.push(c);
    }
    all.push(path(branch.trim()));
    all.retain(|path| !path.is_empty());
    all
}

/// The path at the start of a text.
fn path(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    text[..end.unwrap_or(text.len())].to_owned()
}

fn is_within(path: &str, allowed: &str) -> bool {
    path == allowed || path.starts_with(&format!("{allowed}::"))
}

#[test]
fn modules_name_only_what_stands_below_them() {
    let files = files();
    let known: BTreeSet<&str> = MAY_USE.iter().map(|(module, _)| *module).collect();
    let found: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(found, known, "a module is missing in the table, or gone");
    let mut faults = Vec::new();
    for (module, allowed) in MAY_USE {
        for (file, code) in &files[*module] {
            for used in paths_after(code, "crate::") {
                let is_allowed = is_within(&used, module)
                    || allowed.iter().any(|allowed| is_within(&used, allowed));
                if !is_allowed {
                    faults.push(format!("{} names crate::{used}", file.display()));
                }
            }
            // A way around: up to the root and down again.
            let depth = file.components().count();
            let up = "super::".repeat(depth);
            for used in paths_after(code, &up) {
                let used = used.trim_start_matches("super::");
                let top = used.split("::").next().unwrap_or_default();
                if known.contains(top) && top != *module {
                    faults.push(format!("{} climbs to {used}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_pure_names_no_client_no_clock_and_nothing_asynchronous() {
    let mut faults = Vec::new();
    for module in ["api", "domain"] {
        for (file, code) in &files()[module] {
            for word in IMPURE {
                let is_named = code.match_indices(word).any(|(start, _)| {
                    let end = start + word.len();
                    let is_part = |c: char| c.is_alphanumeric() || c == '_';
                    !code[..start].chars().next_back().is_some_and(is_part)
                        && !code[end..].chars().next().is_some_and(is_part)
                });
                if is_named {
                    faults.push(format!("{} names {word}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_controllers_and_the_process_know_both_sides() {
    for module in ["garm", "runtime", "server", "telemetry", "api", "domain"] {
        for (file, code) in &files()[module] {
            let file = file.display();
            let kubernetes = ["kube::", "k8s_openapi::"];
            if module == "garm" {
                for root in kubernetes {
                    let used = paths_after(code, root);
                    assert!(used.is_empty(), "{file} names {root}{used:?}");
                }
            }
            assert!(
                !code.contains("crate::controllers"),
                "{file} names a controller"
            );
        }
    }
}

#[test]
fn paths_are_found_in_all_their_forms() {
    let code = code(
        "use crate::api::meta; // crate::x\nuse crate::{\n  garm::{Garm, wire},\n  runtime,\n};\n// use crate::y;\nlet a = crate::domain::pool::marker(b); my_crate::z();",
    );
    let found: Vec<String> = paths_after(&code, "crate::").into_iter().collect();
    assert_eq!(
        found,
        [
            "api::meta",
            "domain::pool::marker",
            "garm::",
            "runtime",
            "x"
        ]
    );
    assert!(is_within("garm::wire::Pool", "garm::wire") && !is_within("garmx", "garm"));
}
