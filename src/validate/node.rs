//! A YAML text as nodes that know their lines.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

/// Bytes of stack for the parser.
const STACK: usize = 32 << 20;

/// The documents of a text.
pub type Parsed = Result<Vec<Spanned<Node>>, serde_saphyr::Error>;

/// Parses a text of any number of documents.
pub fn parse_one(text: &str) -> Parsed {
    parse(&[text]).pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// Parses texts, each by itself, on a stack of their own: the parser takes much of it for each level of nesting, of which it allows 64.
pub fn parse(texts: &[&str]) -> Vec<Parsed> {
    let parse = |text: &&str| {
        let options = serde_saphyr::options! {
            with_snippet: false,
            budget: serde_saphyr::budget! { max_documents: 1_000_000, max_nodes: 10_000_000, max_events: 40_000_000 },
        };
        serde_saphyr::from_multiple_with_options(text, options)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let parsed = thread
            .spawn_scoped(scope, || texts.iter().map(parse).collect())
            .map(std::thread::ScopedJoinHandle::join);
        match parsed {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => vec![Err(de::Error::custom(error))],
        }
    })
}

/// Takes a text apart where documents begin, each with the count of lines before it. A line of `---` begins one wherever it stands, also in a text
/// that is broken; directives and comments before it belong to it.
pub fn pieces(text: &str) -> Vec<(u64, &str)> {
    let mut pieces = Vec::new();
    let (mut start, mut before) = (0, 0);
    let (mut end, mut lines) = (0, 0);
    let mut says_something = false;
    for line in text.split_inclusive('\n') {
        let after = line.strip_prefix("---");
        let after = after.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if after.is_some() && says_something {
            pieces.push((before, &text[start..end]));
            (start, before) = (end, lines);
            says_something = false;
        }
        let said = after.unwrap_or(line).trim_start();
        says_something |= !(said.is_empty() || said.starts_with(['#', '%']));
        end += line.len();
        lines += 1;
    }
    pieces.push((before, &text[start..]));
    pieces
}

/// A YAML node whose parts know their lines.
pub enum Node {
    /// Text, a number, a yes or no, or nothing.
    Scalar(Value),
    /// A sequence.
    Sequence(Vec<Spanned<Self>>),
    /// A map, in the order in which it is written.
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
