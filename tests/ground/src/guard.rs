//! The guard: one small process per ground that outlives us just long enough to end what we started.
//!
//! Servers started by a test would stay behind when the test panics, is interrupted or is killed. So their process groups and
//! directories are told to a second process through a pipe. When the pipe ends, for whatever reason, the guard ends what is still
//! registered and goes. It is this same executable, started once more (see [`crate::entry`]).

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// Tells a started copy of this executable that it is the guard.
pub(crate) const GUARD_VARIABLE: &str = "GARM_GROUND_GUARD";

/// How long a process may take to end by SIGTERM before it gets SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A handle on the guard process; clones share it.
#[derive(Clone, Debug)]
pub struct Guard {
    inner: Arc<Mutex<Option<Inner>>>,
}

#[derive(Debug)]
struct Inner {
    child: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// Starts the guard process.
    pub fn start() -> Result<Self> {
        let executable = std::env::current_exe()
            .context("find this executable, which also serves as the guard")?;
        let mut child = Command::new(&executable)
            .env(GUARD_VARIABLE, "1")
            // A group of its own: Ctrl-C must reach us and not it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {} as the guard", executable.display()))?;
        let pipe = child.stdin.take().context("the guard has no stdin")?;
        Ok(Self {
            inner: Arc::new(Mutex::new(Some(Inner { child, pipe }))),
        })
    }

    /// Has the process group `pid` ended when we are gone.
    pub fn watch_process(&self, pid: u32) -> Result<()> {
        self.tell(&format!("+{pid}"))
    }

    /// Forgets the process group `pid`: it has ended, and its number may be given to somebody else.
    pub fn forget_process(&self, pid: u32) -> Result<()> {
        self.tell(&format!("-{pid}"))
    }

    /// Has the directory removed when we are gone.
    pub fn watch_directory(&self, path: &Path) -> Result<()> {
        self.tell(&format!("+DIR {}", path.display()))
    }

    /// Ends the guard, and with it whatever is still registered; returns when it is done.
    pub fn finish(&self) {
        let inner = self
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Inner { mut child, pipe }) = inner {
            drop(pipe);
            // Nothing is left to do about a guard that cannot be waited for.
            let _ = child.wait();
        }
    }

    fn tell(&self, line: &str) -> Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = inner.as_mut().context("the guard has already been ended")?;
        writeln!(inner.pipe, "{line}").context("the guard process is gone")
    }
}

/// Acts as the guard until its input ends.
pub(crate) fn run(input: impl BufRead) {
    let mut watched = Watched::default();
    for line in input.lines() {
        let Ok(line) = line else { break };
        watched.note(&line);
    }
    watched.end();
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Watched {
    groups: BTreeSet<i32>,
    directories: BTreeSet<PathBuf>,
}

impl Watched {
    fn note(&mut self, line: &str) {
        if let Some(path) = line.strip_prefix("+DIR ") {
            self.directories.insert(PathBuf::from(path));
        } else if let Some(pid) = line.strip_prefix('+').and_then(|pid| pid.parse().ok()) {
            self.groups.insert(pid);
        } else if let Some(pid) = line.strip_prefix('-').and_then(|pid| pid.parse().ok()) {
            self.groups.remove(&pid);
        }
    }

    /// Ends all groups, first politely, then removes the directories they wrote to.
    fn end(&self) {
        let groups: Vec<Pid> = self
            .groups
            .iter()
            .copied()
            .filter_map(Pid::from_raw)
            .collect();
        for group in &groups {
            let _ = kill_process_group(*group, Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while Instant::now() < deadline
            && groups
                .iter()
                .any(|group| test_kill_process_group(*group).is_ok())
        {
            thread::sleep(Duration::from_millis(20));
        }
        for group in &groups {
            let _ = kill_process_group(*group, Signal::KILL);
        }
        for directory in &self.directories {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_registered_and_drops_what_ended() {
        let mut watched = Watched::default();
        for line in ["+10", "+11", "-10", "+DIR /a b/c", "nonsense", "+x"] {
            watched.note(line);
        }
        assert_eq!(watched.groups, BTreeSet::from([11]));
        assert_eq!(
            watched.directories,
            BTreeSet::from([PathBuf::from("/a b/c")])
        );
    }
}
