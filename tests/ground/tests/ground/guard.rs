//! Nothing is left behind, however a test binary ends.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use garm_operator_ground::{
    Ground, Guard, Process,
    harness::Suite,
    poll::{Seen, poll_until},
};

/// Makes a copy of this executable a process that starts something and then ends as told.
const ROLE: &str = "GROUND_TEST_ROLE";

pub fn add(suite: &mut Suite) {
    suite
        .test("nothing_is_left_after_sigkill", async |ground: &Ground| {
            nothing_is_left(ground, "wait").await
        })
        .test("nothing_is_left_after_a_panic", async |ground: &Ground| {
            nothing_is_left(ground, "panic").await
        });
}

/// Acts as the process that ends badly, if this is one.
#[expect(clippy::unwrap_used, reason = "it is to end badly")]
pub fn play_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (role, directory) = role.split_once(' ').unwrap();
    let directory = PathBuf::from(directory);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let guard = Guard::start().unwrap();
    guard.watch_directory(&directory).unwrap();
    // It ignores SIGTERM, and has a child of its own.
    let mut command = tokio::process::Command::new("/bin/sh");
    command.args(["-c", "trap '' TERM; sleep 600 & echo $!; wait"]);
    let log = directory.join("log");
    let process = Process::start("sleeper", command, &log, &guard).unwrap();
    while process.output().is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    println!("{} {}", process.pid(), process.output().trim());
    std::io::stdout().flush().unwrap();
    // Its destructor would end the process.
    std::mem::forget(process);
    assert_ne!(role, "panic", "as told");
    thread::sleep(Duration::from_secs(600));
}

async fn nothing_is_left(ground: &Ground, role: &str) -> Result<()> {
    let directory = ground.directory().join(format!("left-after-{role}"));
    fs::create_dir_all(&directory)?;
    let mut child = Command::new(std::env::current_exe()?)
        .env(ROLE, format!("{role} {}", directory.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pids = first_line(&mut child)?;
    let pids: Vec<&str> = pids.split_whitespace().collect();
    ensure!(
        pids.len() == 2 && (role == "panic" || pids.iter().all(|pid| lives(pid))),
        "{pids:?}"
    );
    child.kill()?;
    child.wait()?;
    poll_until(Duration::from_secs(10), "everything is gone", async || {
        let left: Vec<_> = pids.iter().filter(|pid| lives(pid)).collect();
        Ok(Seen::when((left, directory.exists()), |(left, there)| {
            left.is_empty() && !there
        })
        .map(drop))
    })
    .await
}

fn first_line(child: &mut Child) -> Result<String> {
    let mut line = String::new();
    let stdout = child.stdout.take().context("no stdout")?;
    if BufReader::new(stdout).read_line(&mut line)? == 0 {
        bail!("the process ended at once: {}", child.wait()?);
    }
    Ok(line)
}

/// Whether a process runs; one that nobody has waited for does not.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
