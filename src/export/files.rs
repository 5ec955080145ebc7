//! An export as files.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context as _;

use super::{Document, Export};

/// Name of the file that lists the others for kustomize.
pub const KUSTOMIZATION: &str = "kustomization.yaml";

const HEAD: &str = "# The objects that describe a GARM, for `kubectl apply -k` or a GitOps tool.
#
# The Secrets in the folder secrets are not listed: fill them in and apply them by hand, or let a store of secrets make them. Nobody but
# you knows what belongs there, and what is listed here would put it back to nothing.
";

/// Lists all files but the Secrets to fill in.
pub(super) fn kustomization(documents: &[Document]) -> Document {
    let mut text = format!(
        "{HEAD}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
    );
    for document in documents.iter().filter(|document| !document.is_filled_in) {
        // Writing into a string does not fail.
        let _ = writeln!(text, "  - {}", document.path);
    }
    Document {
        path: KUSTOMIZATION.to_owned(),
        text,
        is_filled_in: false,
    }
}

/// Writes the files into a folder, which is made if need be. A Secret that is there already stays: somebody may have filled it in. Answers the
/// paths of those.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write(folder: &Path, export: &Export) -> anyhow::Result<Vec<String>> {
    let mut kept = Vec::new();
    for document in &export.documents {
        let path = folder.join(&document.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make the folder {}", parent.display()))?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true);
        if document.is_filled_in {
            options.create_new(true);
        } else {
            options.create(true).truncate(true);
        }
        let file = match options.open(&path) {
            Err(error) if document.is_filled_in && error.kind() == ErrorKind::AlreadyExists => {
                kept.push(document.path.clone());
                continue;
            }
            file => file,
        };
        file.and_then(|mut file| std::io::Write::write_all(&mut file, document.text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(kept)
}
