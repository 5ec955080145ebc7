//! Reads the configuration file into texts by path.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, Visitor},
};
use serde_json::Value;

use super::{
    problem::{FILE, Problem, Sort},
    settings::{SETTINGS, by_key, nearest_key},
};

/// What a file holds: the text of each value as written, by path, and all that is wrong with it.
#[derive(Debug, Default)]
pub struct Content {
    /// Values by the path as written, which may be another name of the setting.
    pub values: BTreeMap<String, String>,
    /// Unknown paths, and values that are lists or maps.
    pub problems: Vec<Problem>,
}

/// Reads YAML. Never fails and never shows a value: one may be a password.
pub fn read(yaml: &str) -> Content {
    let mut content = Content::default();
    // Twice: once for the shape, once for the values as written (a password of 0123 is no number).
    let options = || serde_saphyr::options! { with_snippet: false };
    let shape: Value = match serde_saphyr::from_str_with_options(yaml, options()) {
        Ok(shape) => shape,
        Err(error) => {
            content
                .problems
                .push(Problem::new(FILE, Sort::Syntax, malformed(&error)));
            return content;
        }
    };
    let texts: Texts = serde_saphyr::from_str_with_options(yaml, options()).unwrap_or_default();
    match shape {
        Value::Object(sections) => {
            for (section, value) in sections {
                walk(&mut content, &texts, section, &value);
            }
        }
        Value::Null => {}
        _ => {
            let message = "must hold a map with the keys garm and operator";
            content
                .problems
                .push(Problem::new(FILE, Sort::Syntax, message));
        }
    }
    content
}

/// Takes over what stands at a path: a map of settings, or one setting.
fn walk(content: &mut Content, texts: &Texts, path: String, value: &Value) {
    match value {
        Value::Null if is_map(&path) => {}
        // What stands below a misspelt section is looked at too, for the hint.
        Value::Object(entries) if is_map(&path) || !path.contains('.') => {
            for (name, value) in entries {
                walk(content, texts, format!("{path}.{name}"), value);
            }
        }
        _ if is_map(&path) => {
            let message = "must be a map of settings";
            content
                .problems
                .push(Problem::new(path, Sort::Syntax, message));
        }
        _ => {
            let text = texts.0.get(&path).cloned().or_else(|| plain(value));
            entry(content, path, value, text);
        }
    }
}

/// The single values of a file as written, by path; empty when something in it has another shape than settings have.
#[derive(Debug, Default)]
struct Texts(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = BTreeMap::new();
        let root = TextsBelow {
            path: "",
            texts: &mut texts,
        };
        root.deserialize(deserializer)?;
        Ok(Self(texts))
    }
}

/// Reads the map at a path. The reader is told to expect text wherever a setting stands, or it would make numbers of digits.
struct TextsBelow<'a> {
    path: &'a str,
    texts: &'a mut BTreeMap<String, String>,
}

impl<'de> DeserializeSeed<'de> for TextsBelow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for TextsBelow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of settings")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let path = match self.path {
                "" => name,
                above => format!("{above}.{name}"),
            };
            if is_map(&path) {
                map.next_value_seed(TextsBelow {
                    path: &path,
                    texts: self.texts,
                })?;
            } else if let Some(text) = map.next_value::<Option<String>>()? {
                self.texts.insert(path, text);
            }
        }
        Ok(())
    }
}

/// Takes one entry over, or says what is wrong with it.
fn entry(content: &mut Content, path: String, value: &Value, text: Option<String>) {
    if by_key(&path).is_none() {
        content.problems.push(unknown(&path));
    } else if value.is_array() || value.is_object() {
        let message =
            "must be a single value; several are written as one text, separated by commas";
        content
            .problems
            .push(Problem::new(path, Sort::Value, message));
    } else {
        // Null counts as set and empty.
        content.values.insert(path, text.unwrap_or_default());
    }
}

/// A value as text where it could not be read as it was written, because something else in the file has another shape.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Tells whether settings stand below this path.
fn is_map(path: &str) -> bool {
    SETTINGS.iter().any(|setting| {
        let below = setting.key.strip_prefix(path);
        below.is_some_and(|below| below.starts_with('.'))
    })
}

fn unknown(path: &str) -> Problem {
    let hint = nearest_key(path)
        .map(|key| format!("; did you mean {key}?"))
        .unwrap_or_default();
    Problem::new(path, Sort::Syntax, format!("no such setting{hint}"))
}

/// Says where a file is broken, without the parser's own words: they can repeat what is written there.
fn malformed(error: &serde_saphyr::Error) -> String {
    let place = error
        .location()
        .map(|location| format!(" in line {}, column {}", location.line(), location.column()))
        .unwrap_or_default();
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("has the key {key} twice{place}")
        }
        _ => format!("not YAML that can be read{place}; text with special characters needs quotes"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problems(yaml: &str) -> Vec<String> {
        read(yaml)
            .problems
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn keeps_values_as_they_are_written() {
        let content =
            read("garm:\n  password: 0123\n  email:\n  init: T\noperator:\n  syncPeriod: 1h # x\n");
        assert_eq!(content.problems, []);
        let values: Vec<_> = content
            .values
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            values,
            [
                ("garm.email", ""),
                ("garm.init", "T"),
                ("garm.password", "0123"),
                ("operator.syncPeriod", "1h")
            ]
        );
    }

    #[test]
    fn keeps_values_as_written_beside_and_within_a_nested_map() {
        let content = read(
            "operator:\n  poolDefaults:\n    minIdleRunners: 07\n    osType: windows\n    runnerPrefix:\n  poolConcurrency: 0x10\ngarm:\n  password: 0123\n",
        );
        assert_eq!(content.problems, []);
        let values: Vec<_> = content
            .values
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            values,
            [
                ("garm.password", "0123"),
                ("operator.poolConcurrency", "0x10"),
                ("operator.poolDefaults.minIdleRunners", "07"),
                ("operator.poolDefaults.osType", "windows"),
                ("operator.poolDefaults.runnerPrefix", ""),
            ]
        );
        let found = problems("operator:\n  poolDefaults:\n    osTyp: linux\n");
        assert_eq!(
            found,
            [
                "operator.poolDefaults.osTyp: no such setting; did you mean operator.poolDefaults.osType?"
            ]
        );
        let found = problems("operator:\n  poolDefaults: linux\n");
        assert_eq!(found, ["operator.poolDefaults: must be a map of settings"]);
    }

    #[test]
    fn takes_an_empty_file_and_empty_sections() {
        for yaml in [
            "",
            "# nothing\n",
            "garm:\n",
            "garm:\noperator: ~\n",
            "---\n",
        ] {
            let content = read(yaml);
            assert!(
                content.problems.is_empty() && content.values.is_empty(),
                "{yaml:?}"
            );
        }
    }

    #[test]
    fn names_every_unknown_path_with_a_hint() {
        let found = problems(
            "garm:\n  pasword: x\noperator:\n  syncPeriod: 5m\n  deep:\n    er: 1\nwebhook:\n  port: 1\nlist: [1]\n",
        );
        assert_eq!(
            found,
            [
                "garm.pasword: no such setting; did you mean garm.password?",
                "list: no such setting",
                "operator.deep: no such setting",
                "webhook.port: no such setting",
            ]
        );
    }

    #[test]
    fn never_repeats_what_is_written() {
        for yaml in [
            "garm: [hunter2",
            "garm:\n  password: *hunter2\n",
            "garm:\n  password: a: hunter2",
            "garm:\n  password: [hunter2]",
            "garm: hunter2",
            "hunter2",
        ] {
            let found = problems(yaml).join("\n");
            assert!(
                !found.is_empty() && !found.contains("hunter2"),
                "{yaml:?}: {found}"
            );
        }
    }

    #[test]
    fn names_a_key_that_is_there_twice() {
        let found = problems("garm:\n  server: a\n  server: b\n");
        assert_eq!(
            found,
            ["config file: has the key server twice in line 3, column 3"]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn any_yaml_like_text_gives_an_answer(text in "(garm|operator|[a-z{}\\[\\]&*!|>%@`'\"#,:?\n -]){0,60}") {
            read(&text);
        }
    }
}
