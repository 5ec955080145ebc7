//! Merges the sources of settings: default < environment < flag < file.

use std::{collections::BTreeMap, ffi::OsString, fmt, fmt::Write as _};

use super::{
    file,
    problem::{Problem, Sort},
    settings::{Kind, SETTINGS, Setting, by_key},
};

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// This environment variable.
    Env(&'static str),
    /// This flag, without dashes.
    Flag(&'static str),
    /// The configuration file.
    File,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag --{name}"),
            Self::File => f.write_str("file"),
        }
    }
}

/// What was found outside the program. Not to be printed: it holds the password.
#[derive(Clone, Default)]
pub struct Sources {
    /// Values of the flags that were given, by the path of their setting.
    pub flags: BTreeMap<&'static str, String>,
    /// The environment; unknown names are ignored, because Kubernetes puts some of its own there.
    pub env: Vec<(OsString, OsString)>,
    /// Text of the configuration file, if one is used.
    pub file: Option<String>,
}

/// The value of one setting.
#[derive(Clone)]
pub struct Value {
    /// Which setting.
    pub setting: &'static Setting,
    /// Value as written.
    pub text: String,
    /// Who wrote it.
    pub source: Source,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.setting.kind == Kind::Secret {
            "***"
        } else {
            &self.text
        };
        write!(f, "{}={shown:?} ({})", self.setting.key, self.source)
    }
}

/// The value of every setting, in the order of the table.
#[derive(Clone, Debug)]
pub struct Values(Vec<Value>);

impl Values {
    /// Merges the sources. Problems of one source do not hide the others.
    pub fn merge(sources: &Sources, problems: &mut Vec<Problem>) -> Self {
        let env = from_env(&sources.env, problems);
        let content = sources.file.as_deref().map(file::read).unwrap_or_default();
        problems.extend(content.problems);
        let file = by_setting(content.values, problems);
        let value = |setting: &'static Setting| {
            let (text, source) = if let Some(text) = file.get(setting.key) {
                (text.clone(), Source::File)
            } else if let Some(text) = sources.flags.get(setting.key) {
                (text.clone(), Source::Flag(setting.flag))
            } else if let Some((text, name)) = env.get(setting.key) {
                (text.clone(), Source::Env(name))
            } else {
                (setting.default.to_owned(), Source::Default)
            };
            Value {
                setting,
                text,
                source,
            }
        };
        Self(SETTINGS.iter().map(value).collect())
    }

    /// Finds the value of a setting by its path.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|value| value.setting.key == key)
    }

    /// Prints the values as a configuration file, each with its source as a comment, secrets as `***`.
    ///
    /// `normal` gives the form a value is shown in, e.g. `5m0s` for `300s`.
    pub fn to_yaml(&self, normal: impl Fn(&Value) -> String) -> String {
        let mut yaml = String::new();
        let mut open: Vec<&str> = Vec::new();
        for value in &self.0 {
            let mut path: Vec<&str> = value.setting.key.split('.').collect();
            let Some(name) = path.pop() else { continue };
            let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
            // Writing to a String cannot fail.
            for (depth, section) in path.iter().enumerate().skip(shared) {
                let _ = writeln!(yaml, "{:1$}{section}:", "", 2 * depth);
            }
            let shown = match value.setting.kind {
                Kind::Secret if value.text.is_empty() => quoted(""),
                Kind::Secret => quoted("***"),
                Kind::Text | Kind::File => quoted(&normal(value)),
                Kind::Bool | Kind::Number | Kind::Duration => normal(value),
            };
            let indent = 2 * path.len();
            let _ = writeln!(yaml, "{:indent$}{name}: {shown} # {}", "", value.source);
            open = path;
        }
        yaml
    }
}

/// Quotes text for YAML where it could be read as something else. JSON text is YAML text.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !text.ends_with(':')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/:._-@".contains(c))
        && matches!(serde_saphyr::from_str(text), Ok(serde_json::Value::String(read)) if read == text);
    if plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

/// Picks the variables that are settings, by the path of their setting, with the name each was found under.
fn from_env(
    env: &[(OsString, OsString)],
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'static str, (String, &'static str)> {
    let mut found: BTreeMap<&'static str, (String, &'static str)> = BTreeMap::new();
    for setting in SETTINGS {
        let names = setting
            .aliases
            .iter()
            .map(|alias| alias.env)
            .chain([setting.env]);
        for name in names {
            let Some((_, value)) = env.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let Some(text) = value.to_str() else {
                problems.push(Problem::new(
                    setting.key,
                    Sort::Value,
                    format!("{name} is not UTF-8"),
                ));
                continue;
            };
            if let Some((other, other_name)) = found.get(setting.key)
                && other != text
            {
                let message = format!("{name} and {other_name} say different things; set one");
                problems.push(Problem::new(setting.key, Sort::Value, message));
            }
            found.insert(setting.key, (text.to_owned(), name));
        }
    }
    found
}

/// Brings the paths of a file to those of the settings.
fn by_setting(
    values: BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'static str, String> {
    let mut found: BTreeMap<&'static str, String> = BTreeMap::new();
    for (path, text) in values {
        let Some(setting) = by_key(&path) else {
            continue;
        };
        if found.get(setting.key).is_some_and(|other| *other != text) {
            let message = format!("is in the config file under two names, one is {path}; keep one");
            problems.push(Problem::new(setting.key, Sort::Value, message));
        }
        found.insert(setting.key, text);
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    fn merged(sources: &Sources) -> (Values, Vec<String>) {
        let mut problems = Vec::new();
        let values = Values::merge(sources, &mut problems);
        (values, problems.iter().map(ToString::to_string).collect())
    }

    proptest! {
        /// Each source that has the setting writes its own name as the value.
        #[test]
        fn the_highest_source_that_has_a_setting_wins(
            index in 0..SETTINGS.len(), in_env: bool, in_flag: bool, in_file: bool,
        ) {
            let setting = &SETTINGS[index];
            let mut sources = Sources::default();
            if in_env { sources.env.push(env(setting.env, "from env")); }
            if in_flag { sources.flags.insert(setting.key, "from flag".to_owned()); }
            if in_file {
                let nested = setting.key.split('.').enumerate();
                let lines: Vec<_> = nested.map(|(depth, name)| format!("{:1$}{name}:", "", 2 * depth)).collect();
                sources.file = Some(format!("{} from file\n", lines.join("\n")));
            }
            let (values, problems) = merged(&sources);
            let value = values.get(setting.key).unwrap();
            let expected = match (in_file, in_flag, in_env) {
                (true, ..) => ("from file", Source::File),
                (_, true, _) => ("from flag", Source::Flag(setting.flag)),
                (_, _, true) => ("from env", Source::Env(setting.env)),
                _ => (setting.default, Source::Default),
            };
            prop_assert_eq!((value.text.as_str(), value.source), expected);
            prop_assert!(problems.is_empty());
            // Nobody else moved.
            let moved = values.0.iter().filter(|value| value.source != Source::Default).count();
            prop_assert_eq!(moved, usize::from(in_env || in_flag || in_file));
        }

        #[test]
        fn quoted_text_reads_back(text in "\\PC*|[a-z0-9:#'\" .*&!-]{0,20}") {
            let yaml = format!("a: {} # comment\n", quoted(&text));
            let read: BTreeMap<String, String> = serde_saphyr::from_str(&yaml).unwrap();
            prop_assert_eq!(&read["a"], &text);
        }
    }

    #[test]
    fn an_empty_value_counts_as_set() {
        let sources = Sources {
            env: vec![env("GARM_EMAIL", "")],
            ..Sources::default()
        };
        let (values, _) = merged(&sources);
        assert_eq!(values.get("garm.email").unwrap().text, "");
    }

    #[test]
    fn unknown_variables_are_ignored() {
        let injected = vec![
            env("GARM_PORT", "tcp://10.0.0.1:80"),
            env("OPERATOR_SERVICE_HOST", "x"),
        ];
        let (values, problems) = merged(&Sources {
            env: injected,
            ..Sources::default()
        });
        assert!(problems.is_empty());
        assert!(values.0.iter().all(|value| value.source == Source::Default));
    }

    #[test]
    fn takes_the_documented_misspelling_and_the_other_name() {
        for name in ["OPERATOR_RUNNER_RECONCILATION", "OPERATOR_SYNC_RUNNERS"] {
            let (values, _) = merged(&Sources {
                env: vec![env(name, "true")],
                ..Sources::default()
            });
            let value = values.get("operator.runnerReconciliation").unwrap();
            assert_eq!(
                (value.text.as_str(), value.source.to_string()),
                ("true", format!("env {name}"))
            );
        }
        for path in ["runnerReconcilation", "syncRunners"] {
            let file = Some(format!("operator:\n  {path}: true\n"));
            let (values, _) = merged(&Sources {
                file,
                ..Sources::default()
            });
            assert_eq!(
                values.get("operator.runnerReconciliation").unwrap().text,
                "true"
            );
        }
    }

    #[test]
    fn two_names_with_two_values_are_refused() {
        let both = vec![
            env("OPERATOR_SYNC_RUNNERS", "true"),
            env("OPERATOR_RUNNER_RECONCILIATION", "false"),
        ];
        assert_eq!(
            merged(&Sources {
                env: both,
                ..Sources::default()
            })
            .1
            .len(),
            1
        );
        let file = "operator:\n  runnerReconcilation: true\n  runnerReconciliation: false\n";
        assert_eq!(
            merged(&Sources {
                file: Some(file.to_owned()),
                ..Sources::default()
            })
            .1
            .len(),
            1
        );
    }
}
