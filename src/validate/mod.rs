//! `garm-operator validate`: judges manifests without a cluster, by the rules of admission, the schemas of the kinds, and each other.

pub mod document;
pub mod input;
mod metadata;
mod node;
pub mod object;
pub mod report;
pub mod schema;
#[cfg(test)]
mod tests;
mod together;

use self::input::Input;
use self::object::{Object, Sort};
use self::report::{Finding, Report, Severity};
use self::schema::Schemas;
use crate::api::meta::GROUP;
use crate::domain::defaults::PoolDefaults;

/// Judges manifests, each by itself and all together. What the cluster holds is not known here.
pub fn validate(inputs: &[Input], schemas: &Schemas, defaults: &PoolDefaults) -> Report {
    let mut report = Report::default();
    let mut objects = Vec::new();
    let mut empty = Vec::new();
    for input in inputs {
        let (documents, unreadable) = document::read(&input.name, &input.text);
        let before = objects.len() + report.unreadable.len();
        report.unreadable.extend(unreadable);
        for document in documents {
            let line = document.line("");
            match object::judge(document, schemas, defaults) {
                Sort::Ours(object) => objects.push(*object),
                Sort::Nameless if input.named => report.unreadable.push(document::Unreadable {
                    file: input.name.clone(),
                    line: Some(line),
                    message: "not a Kubernetes object: apiVersion and kind are needed".to_owned(),
                }),
                Sort::Nameless | Sort::Foreign => {}
            }
        }
        if input.named && objects.len() + report.unreadable.len() == before {
            empty.push(input.name.as_str());
        }
    }
    report.objects = objects.len();
    report.findings = objects.iter().flat_map(own).collect();
    report.findings.extend(together::findings(&objects));
    report.findings.extend(empty.into_iter().map(nothing_in));
    report
        .findings
        .sort_by(|a, b| (&a.file, a.line, &a.field).cmp(&(&b.file, b.line, &b.field)));
    report
}

/// Says that a file that was named holds no object of ours: a wrong path, or a wrong API group.
fn nothing_in(file: &str) -> Finding {
    Finding {
        file: file.to_owned(),
        line: 1,
        kind: String::new(),
        namespace: String::new(),
        name: String::new(),
        severity: Severity::Warning,
        field: String::new(),
        message: format!("no object of {GROUP} is in this file"),
    }
}

/// What is wrong with an object by itself.
fn own(object: &Object) -> Vec<Finding> {
    let faults = object.faults.iter();
    let errors =
        faults.map(|fault| finding(object, Severity::Error, &fault.path, fault.message.clone()));
    let doubts = object.doubts.iter();
    let warnings =
        doubts.map(|(path, message)| finding(object, Severity::Warning, path, message.clone()));
    errors.chain(warnings).collect()
}

fn finding(object: &Object, severity: Severity, field: &str, message: String) -> Finding {
    Finding {
        file: object.document.file.clone(),
        line: object.document.line(field),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        severity,
        field: field.to_owned(),
        message,
    }
}
