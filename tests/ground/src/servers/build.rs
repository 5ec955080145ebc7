//! Builds servers from their Go modules.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::{Server, toolchain::Toolchain};
use crate::process::tail;

/// How often a line says that a build goes on.
const PROGRESS: Duration = Duration::from_secs(30);

/// Builds into `bin` of its directory; many processes may do so at once.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    directory: &'a Path,
    search_path: &'a OsStr,
}

impl<'a> Builder<'a> {
    pub fn new(directory: &'a Path, search_path: &'a OsStr) -> Self {
        Self {
            directory,
            search_path,
        }
    }

    /// Where the binary is, once built.
    pub fn binary(&self, server: Server) -> PathBuf {
        self.directory.join("bin").join(server.file_name())
    }

    /// Whether the binary is there and was built from what the module says now.
    pub fn is_built(&self, server: Server) -> Result<bool> {
        match fs::read_to_string(self.stamp(server)) {
            Ok(stamp) => Ok(stamp == fingerprint(server)? && self.binary(server).is_file()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("read {}", self.stamp(server).display()))
            }
        }
    }

    /// Builds the servers one after the other (Go itself uses all cores), or waits for another process that does.
    pub fn build(&self, servers: &[Server]) -> Result<Vec<(Server, PathBuf)>> {
        if servers.is_empty() {
            return Ok(Vec::new());
        }
        fs::create_dir_all(self.directory.join("bin"))
            .with_context(|| format!("make the folder {}", self.directory.display()))?;
        let toolchain = Toolchain::find(self.search_path, servers, self.directory)?;
        let _lock = self.lock()?;
        for &server in servers {
            // Somebody else may have built it while we waited for the lock.
            if !self.is_built(server)? {
                self.build_one(server, &toolchain)?;
            }
        }
        Ok(servers
            .iter()
            .map(|&server| (server, self.binary(server)))
            .collect())
    }

    /// Takes the lock; it is released with the file, also when this process dies.
    fn lock(&self) -> Result<File> {
        let path = self.directory.join("lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            crate::progress("waiting for another process that builds the servers");
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("lock {}", path.display()))?;
        }
        Ok(file)
    }

    fn build_one(&self, server: Server, toolchain: &Toolchain) -> Result<()> {
        let name = server.file_name();
        crate::progress(&format!(
            "building {name} (the first time {} on two cores)",
            server.cold_build()
        ));
        let started = Instant::now();
        let unfinished = self
            .directory
            .join("bin")
            .join(format!(".{name}.{}", std::process::id()));
        let log = self.directory.join(format!("{name}.log"));
        let mut command = Command::new(&toolchain.go);
        command
            .current_dir(module_folder(server))
            .args([
                "build",
                "-trimpath",
                "-mod=readonly",
                "-buildvcs=false",
                "-ldflags",
            ])
            .arg(server.linker_flags())
            .arg("-o")
            .arg(&unfinished)
            .arg(server.package())
            // The surroundings' flags and workspace are about other modules.
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
            .env("CGO_ENABLED", if server.needs_c() { "1" } else { "0" });
        let built = run_with_progress(&mut command, name, &log, started);
        if let Err(error) = built {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        // In this order a death in between leaves no binary with the stamp of another.
        let stamp = self.stamp(server);
        if let Err(error) = fs::remove_file(&stamp)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("remove {}", stamp.display()));
        }
        fs::rename(&unfinished, self.binary(server))
            .with_context(|| format!("put {name} in its place"))?;
        fs::write(&stamp, fingerprint(server)?)
            .with_context(|| format!("write {}", stamp.display()))?;
        crate::progress(&format!(
            "built {name} in {} s",
            started.elapsed().as_secs()
        ));
        Ok(())
    }

    fn stamp(&self, server: Server) -> PathBuf {
        self.directory
            .join("bin")
            .join(format!("{}.stamp", server.file_name()))
    }
}

/// Runs a build, with a line on stderr every [`PROGRESS`].
fn run_with_progress(
    command: &mut Command,
    name: &str,
    log: &Path,
    started: Instant,
) -> Result<()> {
    let output = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let mut child = command
        .stdout(output.try_clone().context("share the log")?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    let mut told = Instant::now();
    loop {
        if let Some(status) = child
            .try_wait()
            .with_context(|| format!("wait for the build of {name}"))?
        {
            if status.success() {
                return Ok(());
            }
            let text = fs::read_to_string(log).unwrap_or_default();
            bail!(
                "cannot build {name} ({status}); the end of {}:\n{}",
                log.display(),
                tail(&text, 2000)
            );
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            crate::progress(&format!(
                "still building {name}, {} s",
                started.elapsed().as_secs()
            ));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn module_folder(server: Server) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("servers")
        .join(server.module())
}

/// A hash of everything of ours that goes into the binary.
fn fingerprint(server: Server) -> Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = module_folder(server).join(file);
        hash.update(fs::read(&path).with_context(|| format!("read {}", path.display()))?);
        hash.update([0]);
    }
    hash.update(server.package());
    hash.update(server.linker_flags());
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::{super::script, *};

    /// A `go` that answers `go env` and "builds" by writing its output file.
    fn fake_go(folder: &Path, build: &str) {
        let script = format!(
            "if [ \"$1\" = env ]; then echo go1.26.8; echo local; echo cc; exit 0; fi\n\
             while [ \"$1\" != -o ]; do shift; done\n{build}"
        );
        script::write(&folder.join("go"), &script);
    }

    #[test]
    fn builds_once_and_again_when_the_stamp_differs() {
        let folder = tempfile::tempdir().unwrap();
        fake_go(
            folder.path(),
            "echo built >> \"$2\"; echo x >> \"${0%/*}/count\"",
        );
        let target = folder.path().join("ground");
        let builder = Builder::new(&target, folder.path().as_os_str());
        let builds = || {
            fs::read_to_string(folder.path().join("count"))
                .unwrap()
                .lines()
                .count()
        };

        assert!(!builder.is_built(Server::Etcd).unwrap());
        builder.build(&[Server::Etcd]).unwrap();
        assert!(builder.is_built(Server::Etcd).unwrap());
        builder.build(&[Server::Etcd]).unwrap();
        assert_eq!(builds(), 1);

        fs::write(builder.stamp(Server::Etcd), "of another version").unwrap();
        builder.build(&[Server::Etcd]).unwrap();
        assert_eq!(builds(), 2);
    }

    #[test]
    fn shows_what_go_said_and_leaves_nothing_half_built() {
        let folder = tempfile::tempdir().unwrap();
        fake_go(
            folder.path(),
            "echo half > \"$2\"; echo 'missing go.sum entry' >&2; exit 1",
        );
        let target = folder.path().join("ground");
        let builder = Builder::new(&target, folder.path().as_os_str());
        let error = builder.build(&[Server::Etcd]).unwrap_err().to_string();
        assert!(
            error.contains("cannot build etcd") && error.contains("missing go.sum entry"),
            "{error}"
        );
        assert_eq!(fs::read_dir(target.join("bin")).unwrap().count(), 0);
    }
}
