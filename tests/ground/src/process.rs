//! Child processes that write their output to a file and do not outlive the ground.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::{process::Command, time::timeout};

use crate::guard::{GRACE, Guard};

/// How much of a log an error carries, in bytes.
const TAIL: usize = 4096;

/// A running program with its log file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: tokio::process::Child,
    pid: u32,
    log: PathBuf,
    guard: Guard,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with both outputs appended to `log`, in a process group of its own that the guard watches.
    pub fn start(name: &str, mut command: Command, log: &Path, guard: &Guard) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("open the log {} of {name}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share the log")?)
            .stderr(output)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "start {name} ({})",
                    command.as_std().get_program().display()
                )
            })?;
        let pid = child
            .id()
            .with_context(|| format!("{name} ended before it began"))?;
        guard.watch_process(pid)?;
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            log: log.to_owned(),
            guard: guard.clone(),
            status: None,
        })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds what the program has written.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// What the program has written so far.
    pub fn output(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of what the program has written.
    pub fn tail(&self) -> String {
        tail(&self.output(), TAIL).to_owned()
    }

    /// Fails, with the end of the log, when the program has ended.
    pub fn check_running(&mut self) -> Result<()> {
        if let Some(status) = self.try_status()? {
            bail!(
                "{} ended by itself ({status}); its log ends so:\n{}",
                self.name,
                self.tail()
            );
        }
        Ok(())
    }

    /// Returns the exit status if the program has ended.
    pub fn try_status(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some(status) = self
                .child
                .try_wait()
                .with_context(|| format!("look at {}", self.name))?
        {
            self.note_end(status);
        }
        Ok(self.status)
    }

    /// Waits until the program ends; fails when that takes longer than `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let status = timeout(limit, self.child.wait())
            .await
            .with_context(|| {
                format!(
                    "{} did not end within {limit:?}; its log ends so:\n{}",
                    self.name,
                    self.tail()
                )
            })?
            .with_context(|| format!("wait for {}", self.name))?;
        self.note_end(status);
        Ok(status)
    }

    /// Sends SIGTERM to the program alone.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal to the program alone, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none()
            && let Some(pid) = self.raw_pid()
        {
            // It may end at this moment by itself.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends the program at once (SIGKILL to its whole group) and waits until it is gone.
    pub async fn kill(&mut self) -> Result<ExitStatus> {
        if self.status.is_none()
            && let Some(pid) = self.raw_pid()
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.wait(Duration::from_secs(10)).await
    }

    /// Ends the program politely, then by force.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        self.terminate();
        match self.wait(GRACE).await {
            Ok(status) => Ok(status),
            Err(_) => self.kill().await,
        }
    }

    fn raw_pid(&self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }

    fn forget(&self) {
        // Without a guard nobody is left who could mistake the number.
        let _ = self.guard.forget_process(self.pid);
    }

    fn note_end(&mut self, status: ExitStatus) {
        self.status = Some(status);
        // What it has started itself may still run, and then ends with the ground.
        if self
            .raw_pid()
            .is_none_or(|group| test_kill_process_group(group).is_err())
        {
            self.forget();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none()
            && let Some(pid) = self.raw_pid()
        {
            let _ = kill_process_group(pid, Signal::KILL);
            self.forget();
        }
    }
}

/// The last `limit` bytes of `text`, from a line's beginning where there is one.
pub(crate) fn tail(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut start = text.len() - limit;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let cut = &text[start..];
    cut.split_once('\n').map_or(cut, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn cuts_a_log_at_a_line() {
        assert_eq!(tail("one\ntwo\nthree\n", 8), "three\n");
        assert_eq!(tail("short", 8), "short");
        assert_eq!(tail("ääääää", 5), "ää");
    }
}
