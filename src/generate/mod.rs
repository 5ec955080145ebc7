//! Writes the deployable files that follow from the code. A test fails when a committed file differs.

pub mod crds;
pub mod webhooks;

use std::{io, path::Path};

use anyhow::Context as _;

/// One generated file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct File {
    /// Name without folder.
    pub name: String,
    /// Whole text, the comment that says what made it included.
    pub text: String,
}

/// Writes files into a folder, which is made if need be. Files that are right already stay untouched.
pub fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for file in files {
        let path = folder.join(&file.name);
        if std::fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        std::fs::write(&path, &file.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints files as one YAML stream, fit for `kubectl apply -f -`.
pub fn print(mut out: impl io::Write, files: &[File]) -> io::Result<()> {
    for file in files {
        write!(out, "---\n{}", file.text)?;
    }
    Ok(())
}
