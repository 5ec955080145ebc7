//! What a process takes of the machine, as Linux tells it.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// Linux counts processor time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Memory that is in use and not shared out yet to others, in MiB (resident set).
pub fn memory(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

/// The part of it that is no file's: files, the program's own first of all, can be read again and are shared.
pub fn own_memory(pid: u32) -> Result<f64> {
    status(pid, "RssAnon:")
}

/// A size that Linux tells in KiB, in MiB.
fn status(pid: u32, key: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = number.with_context(|| format!("no {key}"))?.parse()?;
    Ok(kib / 1024.0)
}

/// Processor time since the start, of all threads, in seconds.
pub fn cpu(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name, in brackets, may hold anything.
    let (_, rest) = text.rsplit_once(')').context("no name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| -> Result<u32> {
        let field = fields.get(index).context("too few fields")?;
        Ok(field.parse()?)
    };
    Ok((TICK * (ticks(11)? + ticks(12)?)).as_secs_f64())
}

/// The most memory it ever took, in MiB.
pub fn highest_memory(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}
