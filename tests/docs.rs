//! The documentation: what is generated is that of the code, its YAML is right, its links lead somewhere, and nothing that an object can say
//! is missing. The commands of the quickstart are run on real servers (`tests/it/guide`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use garm_operator::domain::defaults::PoolDefaults;
use garm_operator::generate::{crds, docs};
use garm_operator::validate::input::Input;
use garm_operator::validate::report::Severity;
use garm_operator::validate::schema::Schemas;
use garm_operator::validate::validate;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A page.
struct Page {
    /// From the root.
    path: PathBuf,
    text: String,
}

/// What stands between two fences.
struct Block {
    /// The words after the opening fence.
    info: String,
    text: String,
}

fn page(path: &str) -> Page {
    Page {
        path: path.into(),
        text: std::fs::read_to_string(root().join(path)).unwrap(),
    }
}

/// All pages: those in `docs`, and those that stand beside what they are about.
fn pages() -> Vec<Page> {
    let mut pages: Vec<Page> = ["README.md", "manifests/README.md", "certs/README.md"]
        .map(page)
        .into();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(page(path.to_str().unwrap()));
            }
        }
    }
    assert!(pages.len() > 20, "{}", pages.len());
    pages
}

impl Page {
    /// Lines outside of blocks, and the blocks.
    fn parts(&self) -> (Vec<&str>, Vec<Block>) {
        let (mut lines, mut blocks) = (Vec::new(), Vec::new());
        let mut open: Option<(usize, Block)> = None;
        for line in self.text.lines() {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            match (&mut open, trimmed.strip_prefix("```")) {
                (None, Some(info)) => {
                    let block = Block {
                        info: info.to_owned(),
                        text: String::new(),
                    };
                    open = Some((indent, block));
                }
                (None, None) => lines.push(line),
                (Some(_), Some("")) => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((indent, block)), _) => {
                    let line = line.get(*indent..).unwrap_or_default();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
        }
        assert!(
            open.is_none(),
            "{}: a block has no end",
            self.path.display()
        );
        (lines, blocks)
    }

    /// What links may lead to within the page.
    fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for line in self.parts().0 {
            let title = line.trim_start_matches('#');
            if title.len() < line.len() {
                let anchor = slug(title.trim());
                assert!(
                    anchors.insert(anchor.clone()),
                    "{}: two headings are #{anchor}",
                    self.path.display()
                );
            }
            let named = line.split("<a id=\"").skip(1);
            anchors.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        anchors
    }

    /// Where its links lead to.
    fn links(&self) -> Vec<String> {
        let mut links = Vec::new();
        for line in self.parts().0 {
            // Every second piece is code.
            let prose: String = line.split('`').step_by(2).collect();
            let targets = prose.split("](").skip(1);
            links.extend(targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())));
        }
        links
    }
}

/// The anchor that GitHub gives a heading.
fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn generated_parts_are_those_of_the_code() {
    let files = docs::files(&root().join("docs")).unwrap();
    assert!(files.len() > 10, "{}", files.len());
    for file in files {
        let committed = page(&format!("docs/{}", file.name)).text;
        assert!(
            committed == file.text,
            "docs/{} differs: run `cargo run -- generate docs --out docs`",
            file.name
        );
    }
}

#[test]
fn yaml_in_pages_is_what_it_says_to_be() {
    let schemas = Schemas::new();
    let (mut objects, mut configurations) = (0, 0);
    for page in pages() {
        for block in page.parts().1 {
            let name = page.path.display().to_string();
            match block.info.as_str() {
                "yaml" => {
                    objects += 1;
                    let input = Input {
                        name: name.clone(),
                        text: block.text.clone(),
                        named: true,
                    };
                    let report = validate(&[input], &schemas, &PoolDefaults::default());
                    let faults = report.findings.iter();
                    let is_right = report.unreadable.is_empty()
                        && faults
                            .filter(|finding| finding.severity == Severity::Error)
                            .count()
                            == 0;
                    assert!(is_right, "{}\n{}", report.to_text(), block.text);
                }
                "yaml config" => {
                    configurations += 1;
                    ensure_configuration(&name, &block.text);
                }
                "yaml workflow" => {
                    let _: serde_json::Value = serde_saphyr::from_str(&block.text).unwrap();
                }
                other => assert!(!other.starts_with("yaml"), "{name}: {other}"),
            }
        }
    }
    assert!(
        objects > 10 && configurations > 0,
        "{objects} {configurations}"
    );
}

fn ensure_configuration(name: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, text).unwrap();
    let ended = program(&["--config", path.to_str().unwrap(), "--dry-run"]);
    assert!(
        ended.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

fn program(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_garm-operator"))
        .env_clear()
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn examples_are_right_together() {
    let folder = root().join("docs/examples");
    let judged = program(&["validate", "--strict", "-f", folder.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{told}");
}

#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    let mut count = 0;
    for page in pages() {
        for link in page.links() {
            if link.starts_with("https://") {
                continue;
            }
            count += 1;
            let told = format!("{}: {link}", page.path.display());
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.path.parent().unwrap();
            let target = match path {
                "" => root().join(&page.path),
                path => root().join(folder).join(path),
            };
            assert!(target.exists(), "{told}: no such file");
            if anchor.is_empty() {
                continue;
            }
            let target = Page {
                text: std::fs::read_to_string(&target).unwrap(),
                path: target,
            };
            assert!(target.anchors().contains(anchor), "{told}: no such heading");
        }
    }
    assert!(count > 100, "{count}");
}

/// The texts of the constants in a module of the code.
fn constants(file: &str, module: &str) -> Vec<String> {
    let code = page(file).text;
    let (_, module) = code.split_once(&format!("pub mod {module} {{")).unwrap();
    let (module, _) = module.split_once("\n}").unwrap();
    let lines = module.lines().filter(|line| line.contains("pub const"));
    let texts = lines.map(|line| line.split('"').nth(1).unwrap().to_owned());
    texts.collect()
}

#[test]
fn every_reason_condition_and_alert_has_an_entry() {
    let troubleshooting = page("docs/troubleshooting.md");
    let anchors = troubleshooting.anchors();
    let reasons = constants("src/api/condition.rs", "reasons");
    assert!(reasons.len() > 30, "{reasons:?}");
    for reason in reasons {
        assert!(anchors.contains(&slug(&reason)), "no entry for {reason}");
    }
    for type_ in constants("src/api/condition.rs", "types") {
        let row = format!("| `{type_}` |");
        assert!(troubleshooting.text.contains(&row), "no row for {type_}");
    }
    let rules = page("manifests/monitoring/prometheus-rules.yaml").text;
    let alerts = rules.matches("- alert: ").count();
    let runbooks = rules
        .lines()
        .filter_map(|line| line.split_once("runbook_url: "));
    let runbooks: Vec<&str> = runbooks.map(|(_, url)| url).collect();
    assert!(alerts == runbooks.len() && alerts > 5);
    for runbook in runbooks {
        let (path, anchor) = runbook.split_once('#').unwrap();
        assert_eq!(Path::new(path), troubleshooting.path);
        assert!(anchors.contains(anchor), "no entry for {runbook}");
    }
    for line in rules
        .lines()
        .filter_map(|line| line.split_once("- alert: "))
    {
        let named = format!("`{}`: ", line.1);
        assert!(troubleshooting.text.contains(&named), "no {named}");
    }
}

#[test]
fn every_kind_has_a_page_with_fields_rules_and_an_example() {
    for crd in crds::definitions() {
        let kind = crd.spec.names.kind;
        let page = page(&format!("docs/kinds/{}.md", kind.to_lowercase()));
        let (lines, blocks) = page.parts();
        let mut wanted = vec![format!("<!-- generated: columns {kind} -->")];
        if kind != "Image" {
            wanted.push(format!("<!-- generated: fields {kind} status -->"));
        }
        if kind != "Runner" {
            wanted.push(format!("<!-- generated: fields {kind} spec -->"));
            wanted.extend(["## Rules", "## Example", "## What GARM then holds"].map(str::to_owned));
            let line = format!("kind: {kind}\n");
            let is_shown = blocks.iter().any(|block| block.text.contains(&line));
            assert!(is_shown, "no example of {kind}");
        }
        for line in wanted {
            assert!(lines.contains(&line.as_str()), "{kind}: no {line}");
        }
    }
}

#[test]
fn commands_of_the_program_are_such_as_it_knows() {
    let mut count = 0;
    for page in pages() {
        for block in page.parts().1 {
            if !matches!(block.info.as_str(), "console" | "sh") {
                continue;
            }
            let commands = block.text.lines().flat_map(|line| line.split(" | "));
            for command in commands.map(str::trim) {
                let Some(words) = command.strip_prefix("garm-operator ") else {
                    continue;
                };
                count += 1;
                let words = words.split('#').next().unwrap_or_default();
                let mut arguments: Vec<&str> = words.split_whitespace().collect();
                arguments.push("--help");
                let ended = program(&arguments);
                assert!(
                    ended.status.success(),
                    "{}: {command}\n{}",
                    page.path.display(),
                    String::from_utf8_lossy(&ended.stderr)
                );
            }
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let page = Page {
        path: "x.md".into(),
        text: "# A `b` c: d\n\n1. See [x](y.md#z) and `[no](link)`.\n\n   ```sh\n   a\n     b\n   ```\n<a id=\"named\"></a>\n".to_owned(),
    };
    assert_eq!(page.links(), ["y.md#z"]);
    let (_, blocks) = page.parts();
    assert_eq!(
        (blocks[0].info.as_str(), blocks[0].text.as_str()),
        ("sh", "a\n  b\n")
    );
    let anchors: Vec<String> = page.anchors().into_iter().collect();
    assert_eq!(anchors, ["a-b-c-d", "named"]);
}
