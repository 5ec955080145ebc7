//! Finds and reads what `-f` names: files, folders, standard input.

use std::{
    collections::HashMap,
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

/// Reads everything, folders with all that is below them, in the order of names. Hidden folders are left out. What is given in several ways, also by
/// links, is read once and has the name that comes first.
pub fn read(paths: &[PathBuf], unreadable: &mut Vec<Unreadable>) -> Vec<Input> {
    let mut reading = Reading {
        inputs: Vec::new(),
        unreadable,
        known: HashMap::new(),
    };
    for path in paths {
        if path == Path::new("-") {
            reading.take(path.clone(), path, true, || {
                let mut text = String::new();
                io::stdin().lock().read_to_string(&mut text).map(|_| text)
            });
        } else if path.is_dir() {
            if !reading.folder(path) {
                reading.refuse(path, "no *.yaml, *.yml or *.json is in this folder");
            }
        } else {
            reading.file(path, true);
        }
    }
    reading.inputs
}

/// What has been read so far.
struct Reading<'a> {
    inputs: Vec<Input>,
    unreadable: &'a mut Vec<Unreadable>,
    /// Places that have been read, with their index among the inputs.
    known: HashMap<PathBuf, Option<usize>>,
}

impl Reading<'_> {
    /// Reads all files below a folder; says whether there is anything to say of it.
    fn folder(&mut self, path: &Path) -> bool {
        let entries = fs::read_dir(path).and_then(|entries| {
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            paths.collect::<io::Result<Vec<_>>>()
        });
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.refuse(path, &format!("cannot be read: {error}"));
                return true;
            }
        };
        entries.sort();
        let mut has_some = false;
        for entry in entries {
            let name = entry.file_name().unwrap_or_default();
            if entry.is_dir() {
                let is_hidden = name.to_string_lossy().starts_with('.');
                // A link to a folder could lead back up.
                if !is_hidden && !entry.is_symlink() {
                    has_some |= self.folder(&entry);
                }
            } else if entry
                .extension()
                .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
            {
                has_some = true;
                self.file(&entry, false);
            }
        }
        has_some
    }

    fn file(&mut self, path: &Path, named: bool) {
        // What leads nowhere is told of when it is read.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.take(place, path, named, || fs::read_to_string(path));
    }

    /// Takes what is in this place, unless that has been taken.
    fn take(
        &mut self,
        place: PathBuf,
        path: &Path,
        named: bool,
        read: impl FnOnce() -> io::Result<String>,
    ) {
        if let Some(known) = self.known.get(&place) {
            if let Some(input) = known.and_then(|index| self.inputs.get_mut(index)) {
                input.named |= named;
            }
            return;
        }
        let text = read();
        let index = text.is_ok().then_some(self.inputs.len());
        self.known.insert(place, index);
        match text {
            Ok(text) => self.inputs.push(Input {
                name: path.display().to_string(),
                text,
                named,
            }),
            Err(error) => self.refuse(path, &format!("cannot be read: {error}")),
        }
    }

    fn refuse(&mut self, path: &Path, message: &str) {
        self.unreadable.push(Unreadable {
            file: path.display().to_string(),
            line: None,
            message: message.to_owned(),
        });
    }
}
