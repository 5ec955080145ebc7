//! Finds and reads what `-f` names: files, folders, standard input.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::document::Unreadable;

/// Endings of manifests in folders, as kubectl knows them.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// One text.
pub struct Input {
    /// Name as it is shown: the path as given or below the folder as given; `-` for standard input.
    pub name: String,
    /// Its content.
    pub text: String,
    /// Whether it was named itself. Folders hold other YAML as well: values of charts, kustomizations.
    pub named: bool,
}

/// Reads everything, folders with all that is below them, in the order of names. Hidden folders are left out.
pub fn read(paths: &[PathBuf], unreadable: &mut Vec<Unreadable>) -> Vec<Input> {
    let mut inputs = Vec::new();
    for path in paths {
        let before = inputs.len() + unreadable.len();
        if path == Path::new("-") {
            let mut text = String::new();
            let read = io::stdin().lock().read_to_string(&mut text);
            take("-", true, read.map(|_| text), &mut inputs, unreadable);
        } else if path.is_dir() {
            folder(path, &mut inputs, unreadable);
            if before == inputs.len() + unreadable.len() {
                unreadable.push(fault(path, "no *.yaml, *.yml or *.json is in this folder"));
            }
        } else {
            let name = path.display().to_string();
            take(
                &name,
                true,
                fs::read_to_string(path),
                &mut inputs,
                unreadable,
            );
        }
    }
    inputs
}

fn folder(path: &Path, inputs: &mut Vec<Input>, unreadable: &mut Vec<Unreadable>) {
    let entries = fs::read_dir(path).and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            unreadable.push(fault(path, &format!("cannot be read: {error}")));
            return;
        }
    };
    entries.sort();
    for entry in entries {
        let hidden = entry
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if entry.is_dir() {
            // A link to a folder could lead back up.
            if !hidden && !entry.is_symlink() {
                folder(&entry, inputs, unreadable);
            }
        } else if entry
            .extension()
            .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
        {
            let name = entry.display().to_string();
            take(&name, false, fs::read_to_string(&entry), inputs, unreadable);
        }
    }
}

fn take(
    name: &str,
    named: bool,
    text: io::Result<String>,
    inputs: &mut Vec<Input>,
    unreadable: &mut Vec<Unreadable>,
) {
    match text {
        Ok(text) => inputs.push(Input {
            name: name.to_owned(),
            text,
            named,
        }),
        Err(error) => unreadable.push(fault(Path::new(name), &format!("cannot be read: {error}"))),
    }
}

fn fault(path: &Path, message: &str) -> Unreadable {
    Unreadable {
        file: path.display().to_string(),
        line: None,
        message: message.to_owned(),
    }
}
