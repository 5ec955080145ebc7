//! What a process takes of the machine, as Linux tells it.

use std::fs;

use anyhow::{Context, Result};

/// Memory that is in use and not shared out yet to others, in MiB (resident set).
pub fn memory(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = number.context("no VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}
