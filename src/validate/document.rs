//! Manifests as text: documents, the objects in them, and the line of each field.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use crate::api::meta::API_VERSION_V1ALPHA1;

/// Bytes of stack for the parser.
const STACK: usize = 32 << 20;

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

/// Why a text could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
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
/// # Errors
/// Fails as a whole where the text is no YAML, a document is no map, or a list holds something else than maps.
pub fn read(file: &str, text: &str) -> Result<Vec<Document>, Unreadable> {
    let unreadable = |line, message: &str| Unreadable {
        file: file.to_owned(),
        line,
        message: message.to_owned(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let roots = parse(text).map_err(|error| {
        let line = error.location().map(|location| location.line());
        unreadable(line, malformed(&error, text))
    })?;
    let mut documents = Vec::new();
    for root in roots {
        let line = root.referenced.line();
        match root.value {
            Node::Map(entries) if is_list(&entries) => {
                for item in items(entries) {
                    let line = item.referenced.line();
                    let Node::Map(_) = &item.value else {
                        return Err(unreadable(
                            Some(line),
                            "an item of a list must be an object",
                        ));
                    };
                    documents.push(document(file, item));
                }
            }
            Node::Map(_) => documents.push(document(file, root)),
            Node::Scalar(Value::Null) => {}
            Node::Scalar(_) | Node::Sequence(_) => {
                return Err(unreadable(
                    Some(line),
                    "not a Kubernetes object: it must be a map with apiVersion and kind",
                ));
            }
        }
    }
    Ok(documents)
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

/// Parses a text on a stack of its own: the parser takes much of it for each level of nesting, of which it allows 64.
fn parse(text: &str) -> Result<Vec<Spanned<Node>>, serde_saphyr::Error> {
    let parse = || {
        let options = serde_saphyr::options! {
            with_snippet: false,
            budget: serde_saphyr::budget! { max_documents: 1_000_000, max_nodes: 10_000_000, max_events: 40_000_000 },
        };
        serde_saphyr::from_multiple_with_options(text, options)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let parsed = thread
            .spawn_scoped(scope, parse)
            .map(std::thread::ScopedJoinHandle::join);
        match parsed {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(serde::de::Error::custom(error)),
        }
    })
}

fn document(file: &str, root: Spanned<Node>) -> Document {
    let mut lines = BTreeMap::from([(String::new(), root.referenced.line())]);
    let object = value("", root.value, &mut lines);
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

/// A YAML node whose parts know their lines.
enum Node {
    Scalar(Value),
    Sequence(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        // Infinity and NaN are no JSON.
        Ok(Node::Scalar(
            Number::from_f64(value).map_or(Value::Null, Value::Number),
        ))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Node::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn one(text: &str) -> Document {
        let mut documents = read("f.yaml", text).unwrap();
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
            let documents = read("f", text).unwrap();
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
            let error = read("f.yaml", text).err().unwrap();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            if line.is_some() {
                assert_eq!(error.line, line, "{text:?}: {error}");
            }
        }
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
                assert!(read("f", &text).is_ok() || !is_plain, "{open:?} {depth}");
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
