//! What was found in manifests, as lines for people and editors or as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::document::Unreadable;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The object would be refused.
    Error,
    /// The object would be accepted with a warning.
    Warning,
}

/// One finding about one field of one object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the file, `-` for standard input.
    pub file: String,
    /// Line in it, from 1.
    pub line: u64,
    /// Kind of the object; empty when it has none.
    pub kind: String,
    /// Namespace as written; empty when it has none.
    pub namespace: String,
    /// Name of the object; empty when it has none.
    pub name: String,
    /// How bad it is.
    pub severity: Severity,
    /// Path of the field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// All that was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Objects of our kinds that were looked at.
    pub objects: usize,
    /// Findings, in the order of files and lines.
    pub findings: Vec<Finding>,
    /// Input that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// The report as `-o json` prints it.
#[derive(Serialize)]
struct Json<'a> {
    objects: usize,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
    unreadable: &'a [Unreadable],
}

impl Report {
    /// Chooses the exit code: 0 clean, or warnings only; 1 errors, with `strict` warnings too; 2 input that could not be read.
    pub fn exit_code(&self, strict: bool) -> u8 {
        if !self.unreadable.is_empty() {
            return 2;
        }
        let has_errors = self.count(Severity::Error) > 0;
        u8::from(has_errors || (strict && !self.findings.is_empty()))
    }

    /// Prints a line for each finding: `file:line: Kind/name: field: message`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let warning = match finding.severity {
                Severity::Error => "",
                Severity::Warning => "warning: ",
            };
            let object = match finding.kind.as_str() {
                "" => String::new(),
                kind => format!("{kind}/{}: ", finding.name),
            };
            let field = match finding.field.as_str() {
                "" => String::new(),
                field => format!("{field}: "),
            };
            // Writing into a string does not fail.
            let _ = writeln!(
                text,
                "{}:{}: {warning}{object}{field}{}",
                finding.file, finding.line, finding.message
            );
        }
        text
    }

    /// Prints everything as one JSON object.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Json {
            objects: self.objects,
            errors: self.count(Severity::Error),
            warnings: self.count(Severity::Warning),
            findings: &self.findings,
            unreadable: &self.unreadable,
        })
    }

    /// Sums up in a sentence.
    pub fn summary(&self) -> String {
        let plural = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        format!(
            "{}: {}, {}",
            plural(self.objects, "object"),
            plural(self.count(Severity::Error), "error"),
            plural(self.count(Severity::Warning), "warning")
        )
    }

    fn count(&self, severity: Severity) -> usize {
        let of_severity = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(of_severity).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(severities: &[Severity]) -> Report {
        let finding = |severity: &Severity| Finding {
            file: "a/b.yaml".to_owned(),
            line: 7,
            kind: "Pool".to_owned(),
            namespace: String::new(),
            name: "p".to_owned(),
            severity: *severity,
            field: "spec.tags[0]".to_owned(),
            message: "must not be empty".to_owned(),
        };
        Report {
            objects: 1,
            findings: severities.iter().map(finding).collect(),
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn prints_a_line_that_editors_understand() {
        let text = report(&[Severity::Error, Severity::Warning]).to_text();
        assert_eq!(
            text,
            "a/b.yaml:7: Pool/p: spec.tags[0]: must not be empty\na/b.yaml:7: warning: Pool/p: spec.tags[0]: must not be empty\n"
        );
    }

    #[test]
    fn ends_with_a_code_for_each_case() {
        let codes = |report: &Report| (report.exit_code(false), report.exit_code(true));
        assert_eq!(codes(&report(&[])), (0, 0));
        assert_eq!(codes(&report(&[Severity::Warning])), (0, 1));
        assert_eq!(
            codes(&report(&[Severity::Warning, Severity::Error])),
            (1, 1)
        );
        let mut unreadable = report(&[Severity::Error]);
        unreadable.unreadable.push(Unreadable {
            file: "f".to_owned(),
            line: None,
            message: "m".to_owned(),
        });
        assert_eq!(codes(&unreadable), (2, 2));
    }
}
