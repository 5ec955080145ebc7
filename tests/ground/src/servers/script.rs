//! Shell scripts that stand for programs in tests.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Writes a shell script to `path`, ready to run.
///
/// A process of its own writes the file: what another thread of this one starts meanwhile would hold a file that this one writes open until
/// its exec, and Linux runs no program that is open for writing (`ETXTBSY`).
pub(super) fn write(path: &Path, script: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    write!(input, "#!/bin/sh\n{script}\n").unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success());
}
