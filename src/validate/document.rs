//! Manifests as text: documents, the objects in them, and the line of each field.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::node::{Node, parse, parse_one, pieces};
use crate::api::meta::API_VERSION_V1ALPHA1;

/// One object of a manifest.
#[derive(Clone)]
pub struct Document {
    /// Name of the file, `-` for standard input.
    pub file: String,
    /// The object as written.
    pub object: Value,
    /// Line of each field by its path, e.g. `spec.tags[0]`; the object itself has the path "".
    lines: BTreeMap<String, u64>,
}

/// Why a text, or a part of one, could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Name of the file.
    pub file: String,
    /// Line of the fault, where there is one.
    pub line: Option<u64>,
    /// What is wrong; never repeats what is written.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl Document {
    /// Tells how a field of v1beta1 is spelt in the version of this object.
    pub fn written<'a>(&self, path: &'a str) -> &'a str {
        let is_old = self.object["apiVersion"] == API_VERSION_V1ALPHA1;
        if is_old && path.starts_with("spec.credentialsRef") {
            "spec.credentialsName"
        } else {
            path
        }
    }

    /// Finds the line of a field; of one that is not written, the line of what it belongs to.
    pub fn line(&self, path: &str) -> u64 {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            path = match path.rfind(['.', '[']) {
                Some(end) => &path[..end],
                None if path.is_empty() => return 1,
                None => "",
            };
        }
    }
}

/// Reads all objects of a YAML or JSON text: several documents, and lists as `kubectl get -o yaml` prints them. Empty documents are skipped.
///
/// What cannot be read is told, and hides no other document: where a text is no YAML, a document is no map, or a list holds something else than
/// maps.
pub fn read(file: &str, text: &str) -> (Vec<Document>, Vec<Unreadable>) {
    let mut found = Found {
        file,
        documents: Vec::new(),
        unreadable: Vec::new(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match parse_one(text) {
        Ok(roots) => found.take(roots, 0),
        Err(error) => {
            let pieces = pieces(text);
            let texts: Vec<&str> = pieces.iter().map(|(_, piece)| *piece).collect();
            for (parsed, (before, piece)) in parse(&texts).into_iter().zip(pieces) {
                match parsed {
                    Ok(roots) => found.take(roots, before),
                    Err(error) => found.malformed(&error, piece, before),
                }
            }
            if found.unreadable.is_empty() {
                // Broken only as a whole: too large, say.
                found.malformed(&error, text, 0);
            }
        }
    }
    (found.documents, found.unreadable)
}

/// What a text holds.
struct Found<'a> {
    file: &'a str,
    documents: Vec<Document>,
    unreadable: Vec<Unreadable>,
}

impl Found<'_> {
    /// Takes over what was parsed, with `before` lines before it.
    fn take(&mut self, roots: Vec<Spanned<Node>>, before: u64) {
        for root in roots {
            match root.value {
                Node::Map(entries) if is_list(&entries) => {
                    for item in items(entries) {
                        if let Node::Map(_) = &item.value {
                            self.documents.push(document(self.file, item, before));
                        } else {
                            let line = before + item.referenced.line();
                            self.refuse(Some(line), "an item of a list must be an object");
                        }
                    }
                }
                Node::Map(_) => self.documents.push(document(self.file, root, before)),
                Node::Scalar(Value::Null) => {}
                Node::Scalar(_) | Node::Sequence(_) => self.refuse(
                    Some(before + root.referenced.line()),
                    "not a Kubernetes object: it must be a map with apiVersion and kind",
                ),
            }
        }
    }

    fn malformed(&mut self, error: &serde_saphyr::Error, text: &str, before: u64) {
        let line = error.location().map(|location| before + location.line());
        self.refuse(line, malformed(error, text));
    }

    fn refuse(&mut self, line: Option<u64>, message: &str) {
        self.unreadable.push(Unreadable {
            file: self.file.to_owned(),
            line,
            message: message.to_owned(),
        });
    }
}

/// Says what is wrong with a text, without the parser's own words: they can repeat what is written there, and people keep Secrets beside.
fn malformed(error: &serde_saphyr::Error, text: &str) -> &'static str {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { .. } => "this key is there twice",
        _ if text.contains("{{") => "looks like a template; render it first",
        _ if text.contains('\t') => {
            "not YAML that can be read; is there a tab where spaces are needed?"
        }
        _ => "not YAML that can be read",
    }
}

fn document(file: &str, root: Spanned<Node>, before: u64) -> Document {
    let mut lines = BTreeMap::from([(String::new(), root.referenced.line())]);
    let object = value("", root.value, &mut lines);
    for line in lines.values_mut() {
        *line += before;
    }
    Document {
        file: file.to_owned(),
        object,
        lines,
    }
}

/// Tells whether this is a list of objects (`List`, `PoolList`).
fn is_list(entries: &[(Spanned<String>, Spanned<Node>)]) -> bool {
    let has = |name: &str, wanted: &dyn Fn(&Node) -> bool| {
        let mut found = entries.iter().filter(|(key, _)| key.value == name);
        found.any(|(_, node)| wanted(&node.value))
    };
    has("items", &|node| matches!(node, Node::Sequence(_)))
        && has(
            "kind",
            &|node| matches!(node, Node::Scalar(Value::String(kind)) if kind.ends_with("List")),
        )
}

fn items(entries: Vec<(Spanned<String>, Spanned<Node>)>) -> Vec<Spanned<Node>> {
    entries
        .into_iter()
        .filter(|(key, _)| key.value == "items")
        .flat_map(|(_, node)| match node.value {
            Node::Sequence(items) => items,
            Node::Map(_) | Node::Scalar(_) => Vec::new(),
        })
        .collect()
}

/// Makes a JSON value of a node, and notes the line of everything in it.
fn value(path: &str, node: Node, lines: &mut BTreeMap<String, u64>) -> Value {
    match node {
        Node::Scalar(value) => value,
        Node::Sequence(items) => {
            let items = items.into_iter().enumerate().map(|(index, item)| {
                let path = format!("{path}[{index}]");
                lines.insert(path.clone(), item.referenced.line());
                value(&path, item.value, lines)
            });
            Value::Array(items.collect())
        }
        Node::Map(entries) => {
            let entries = entries.into_iter().map(|(key, node)| {
                let path = match path {
                    "" => key.value.clone(),
                    above => format!("{above}.{}", key.value),
                };
                lines.insert(path.clone(), key.referenced.line());
                (key.value, value(&path, node.value, lines))
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn all(text: &str) -> Vec<Document> {
        let (documents, unreadable) = read("f.yaml", text);
        assert_eq!(unreadable, [], "{text}");
        documents
    }

    fn one(text: &str) -> Document {
        let mut documents = all(text);
        assert_eq!(documents.len(), 1, "{text}");
        documents.remove(0)
    }

    #[test]
    fn knows_the_line_of_every_field() {
        let document = one(
            "# a comment\napiVersion: v1\nkind: Pool\nspec:\n  tags:\n  - one\n  - two\n  githubScopeRef: {name: x,\n    kind: y}\n  extraSpecs: |\n    {\"a\":\n     1}\n",
        );
        let lines = [
            ("", 2),
            ("spec", 4),
            ("spec.tags", 5),
            ("spec.tags[1]", 7),
            ("spec.githubScopeRef.name", 8),
            ("spec.githubScopeRef.kind", 9),
            ("spec.extraSpecs", 10),
            ("spec.providerName", 4),
            ("spec.tags[9]", 5),
            ("metadata.name", 2),
        ];
        for (path, line) in lines {
            assert_eq!(document.line(path), line, "{path}");
        }
        assert_eq!(document.object["spec"]["extraSpecs"], "{\"a\":\n 1}\n");
    }

    #[test]
    fn takes_documents_lists_and_json_alike() {
        let text = "---\n# nothing\n---\nkind: A\n---\nkind: PoolList\nitems:\n- kind: B\n- kind: C\n...\n---\n";
        let kinds = |text: &str| -> Vec<(String, u64)> {
            let documents = all(text);
            let kind = |document: &Document| {
                (
                    document.object["kind"].as_str().unwrap_or("?").to_owned(),
                    document.line(""),
                )
            };
            documents.iter().map(kind).collect()
        };
        let named = |found: &[(&str, u64)]| -> Vec<(String, u64)> {
            found
                .iter()
                .map(|(kind, line)| ((*kind).to_owned(), *line))
                .collect()
        };
        assert_eq!(kinds(text), named(&[("A", 4), ("B", 8), ("C", 9)]));
        assert_eq!(
            kinds("{\n\t\"kind\": \"List\",\n\t\"items\": [\n\t\t{\"kind\": \"A\"}\n\t]\n}\n"),
            named(&[("A", 4)])
        );
        assert_eq!(kinds("\u{feff}kind: A\r\n"), named(&[("A", 1)]));
        assert_eq!(kinds(""), []);
        assert_eq!(kinds("# only a comment\n"), []);
    }

    #[test]
    fn follows_anchors_and_keeps_types() {
        let document = one(
            "a: &x {n: 1}\nb: *x\nc: [1, -2, 1.5, true, ~, '1', 18446744073709551615]\nd: yes\n",
        );
        assert_eq!(
            document.object,
            json!({"a": {"n": 1}, "b": {"n": 1}, "c": [1, -2, 1.5, true, null, "1", u64::MAX], "d": true})
        );
    }

    #[test]
    fn says_where_a_text_is_broken_without_repeating_it() {
        for (text, line) in [
            ("kind: A\nspec: [hunter2\n", None),
            ("kind: A\nkind: hunter2\n", Some(2)),
            ("hunter2", Some(1)),
            ("- hunter2\n", Some(1)),
            ("kind: List\nitems:\n- hunter2\n", Some(3)),
            ("a: hunter2: x\n", Some(1)),
            ("hunter2: 1\nhunter2: 2\n", Some(2)),
        ] {
            let (_, mut unreadable) = read("f.yaml", text);
            assert_eq!(unreadable.len(), 1, "{text:?}");
            let error = unreadable.remove(0);
            assert!(!error.to_string().contains("hunter2"), "{error}");
            if line.is_some() {
                assert_eq!(error.line, line, "{text:?}: {error}");
            }
        }
    }

    #[test]
    fn what_is_broken_hides_no_other_document() {
        let broken = [
            "a: [1\n",
            "a: b: c\n",
            "a: 1\na: 2\n",
            "- 1\n",
            "text\n",
            "a: \"\n",
            "kind: List\nitems: [1]\n",
        ];
        for broken in broken {
            for head in ["", "# a comment\n", "%YAML 1.2\n---\n", "---\r\n"] {
                let text = format!("{head}kind: A\n---\n{broken}--- # the next\nkind: B\nb: 1\n");
                let (documents, unreadable) = read("f", &text);
                let line = |of: &str| {
                    let place = text.lines().position(|line| line == of).unwrap();
                    u64::try_from(place + 1).unwrap()
                };
                let places: Vec<(u64, u64)> = documents
                    .iter()
                    .map(|document| (document.line(""), document.line("b")))
                    .collect();
                let (a, b) = (line("kind: A"), line("kind: B"));
                assert_eq!(places, [(a, a), (b, b + 1)], "{text}");
                assert_eq!(unreadable.len(), 1, "{text}\n{unreadable:?}");
                let told = unreadable[0].line.unwrap_or(a + 2);
                assert!((a + 2..=b).contains(&told), "{text}\n{unreadable:?}");
            }
        }
        let (documents, unreadable) = read(
            "f",
            "a: [\n---\nb: [\n---\nkind: List\nitems: [{c: 1}, 2]\n",
        );
        assert_eq!((documents.len(), unreadable.len()), (1, 3));
    }

    #[test]
    fn deep_nesting_is_read_or_refused() {
        for depth in [10, 60, 70, 1_000, 100_000] {
            for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
                let text = format!(
                    "kind: A\na:\n  {}{}",
                    open.repeat(depth),
                    close.repeat(depth)
                );
                // A key that is no text names nothing in a Kubernetes object.
                let is_plain = depth < 50 && open != "? ";
                assert!(
                    read("f", &text).1.is_empty() || !is_plain,
                    "{open:?} {depth}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "([a-z:\\-{}\\[\\]&*!|>%@`'\"#,?~. \n]|---\n|\\PC){0,80}") {
            let _ = read("f", &text);
        }

        #[test]
        fn json_reads_as_itself(numbers in proptest::collection::vec(any::<i64>(), 0..4), text in "\\PC{0,20}") {
            let object = json!({"kind": "A", "numbers": numbers, "text": text, "nested": [{"deep": {"er": null}}]});
            prop_assert_eq!(&one(&object.to_string()).object, &object);
            prop_assert_eq!(&one(&serde_json::to_string_pretty(&object).unwrap()).object, &object);
        }
    }
}
