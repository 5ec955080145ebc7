//! `garm-operator export`: describes what a GARM holds as objects, such that applying them takes it over as it is.
//!
//! Endpoints, credentials and entities are found again by their names, as always; each Pool names its pool by the annotation `adopt-id`.
//! What GARM never shows (tokens, keys, webhook secrets) becomes an empty Secret: while it is empty the operator waits and GARM keeps what it
//! has.

mod files;
mod holdings;
mod names;
mod objects;
#[cfg(test)]
mod tests;

pub use files::write;
pub use holdings::{Holdings, read};

use crate::domain::defaults::PoolDefaults;
use crate::validate::input::Input;
use crate::validate::report::{Report, Severity};
use crate::validate::schema::Schemas;
use crate::validate::validate;

/// One file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Path below the folder that is written to.
    pub path: String,
    /// Its text: one object or two that belong together, with a comment that says what they are.
    pub text: String,
    /// Whether somebody fills it in by hand, so that a file that is there already must stay.
    pub is_filled_in: bool,
}

/// A GARM as objects.
#[derive(Debug)]
pub struct Export {
    /// The files.
    pub documents: Vec<Document>,
    /// What is not written, and why: a sentence each.
    pub left_out: Vec<String>,
    /// What the rules of admission say of the objects.
    pub judged: Report,
}

impl Export {
    /// Describes everything; objects are in this namespace, or in none.
    ///
    /// # Errors
    /// Fails when an object cannot be written as YAML.
    pub fn of(holdings: &Holdings, namespace: Option<&str>) -> anyhow::Result<Self> {
        let (mut documents, left_out) = objects::describe(holdings, namespace)?;
        let inputs: Vec<Input> = documents
            .iter()
            .map(|document| Input {
                name: document.path.clone(),
                text: document.text.clone(),
                named: false,
            })
            .collect();
        let judged = validate(&inputs, &Schemas::new(), &PoolDefaults::default());
        documents.push(files::kustomization(&documents));
        Ok(Self {
            documents,
            left_out,
            judged,
        })
    }

    /// All objects as one stream for `kubectl apply -f -`.
    pub fn to_stream(&self) -> String {
        let mut stream = String::new();
        for document in &self.documents {
            if document.path != files::KUSTOMIZATION {
                stream.push_str("---\n");
                stream.push_str(&document.text);
            }
        }
        stream
    }

    /// Tells what somebody has to look at, a line each.
    pub fn notes(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(|what| format!("left out: {what}"));
        let judged = self.judged.to_text();
        let holds_specs = self
            .documents
            .iter()
            .any(|document| document.text.contains("\n  extraSpecs: "));
        let specs = holds_specs.then(|| {
            "extraSpecs are written as GARM holds them: look for secrets in them before they go into Git"
                .to_owned()
        });
        left_out
            .chain(judged.lines().map(str::to_owned))
            .chain(specs)
            .collect()
    }

    /// Whether everything that GARM holds is described by objects that would be accepted.
    pub fn is_whole(&self) -> bool {
        let findings = &self.judged.findings;
        self.left_out.is_empty()
            && self.judged.unreadable.is_empty()
            && findings.iter().all(|one| one.severity != Severity::Error)
    }
}
