//! Reads the configuration file into texts by path.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    problem::{FILE, Problem, Sort},
    settings::{by_key, nearest_key},
};

/// What a file holds: the text of each value as written, by path, and all that is wrong with it.
#[derive(Debug, Default)]
pub struct Content {
    /// Values by the path as written, which may be another name of the setting.
    pub values: BTreeMap<String, String>,
    /// Unknown paths, and values that are lists or maps.
    pub problems: Vec<Problem>,
}

/// A file as text values: `None` is YAML's null.
type Texts = BTreeMap<String, Option<BTreeMap<String, Option<String>>>>;

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
    let Value::Object(sections) = shape else {
        if !shape.is_null() {
            let message = "must hold a map with the keys garm and operator";
            content
                .problems
                .push(Problem::new(FILE, Sort::Syntax, message));
        }
        return content;
    };
    for (section, entries) in sections {
        match entries {
            Value::Null if is_section(&section) => {}
            Value::Object(entries) => {
                for (name, value) in entries {
                    let text = texts
                        .get(&section)
                        .and_then(|texts| texts.as_ref()?.get(&name));
                    entry(
                        &mut content,
                        format!("{section}.{name}"),
                        &value,
                        text.cloned().flatten().or_else(|| plain(&value)),
                    );
                }
            }
            _ if is_section(&section) => {
                let message = "must be a map of settings";
                content
                    .problems
                    .push(Problem::new(section, Sort::Syntax, message));
            }
            _ => content.problems.push(unknown(&section)),
        }
    }
    content
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

fn is_section(name: &str) -> bool {
    matches!(name, "garm" | "operator")
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
