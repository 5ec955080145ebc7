//! Go and the C compiler: found, or an error that says what to install.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::Server;

/// The oldest Go that builds all modules (GARM v0.2.1 asks for it).
const OLDEST_GO: (u32, u32, u32) = (1, 26, 2);

/// The Go command that builds the servers.
#[derive(Debug)]
pub(super) struct Toolchain {
    pub go: PathBuf,
}

impl Toolchain {
    /// Finds what is needed to build `servers`, looking for programs in `search_path` (as in `PATH`).
    pub fn find(search_path: &OsStr, servers: &[Server], scratch: &Path) -> Result<Self> {
        let names: Vec<_> = servers.iter().map(|server| server.file_name()).collect();
        let instead = instead(servers);
        let oldest = format!("{}.{}.{}", OLDEST_GO.0, OLDEST_GO.1, OLDEST_GO.2);
        let Some(go) = find_program(search_path, OsStr::new("go")) else {
            bail!(
                "{} must be built, but there is no `go` in PATH: install Go {oldest} or newer from your distribution, or {instead}",
                names.join(", ")
            );
        };
        let toolchain = Self { go };
        let [version, switching, compiler] =
            toolchain.ask(scratch, ["GOVERSION", "GOTOOLCHAIN", "CC"])?;
        // An older Go fetches the one a module asks for, unless it is told not to.
        if parse_version(&version).is_some_and(|found| found < OLDEST_GO)
            && switching.starts_with("local")
        {
            bail!(
                "{} must be built, but {} is {version}: install Go {oldest} or newer from your distribution, set \
                 GOTOOLCHAIN=auto to let Go fetch it, or {instead}",
                names.join(", "),
                toolchain.go.display()
            );
        }
        let program = compiler.split_whitespace().next().unwrap_or("cc");
        if servers.iter().any(|server| server.needs_c())
            && find_program(search_path, OsStr::new(program)).is_none()
        {
            bail!(
                "GARM must be built, whose SQLite is C, but there is no C compiler (`{program}`) in PATH: install gcc or clang \
                 (and name it in CC), or {instead}"
            );
        }
        Ok(toolchain)
    }

    fn ask<const N: usize>(&self, scratch: &Path, names: [&str; N]) -> Result<[String; N]> {
        let output = Command::new(&self.go)
            .arg("env")
            .args(names)
            .current_dir(scratch)
            .output()
            .with_context(|| format!("run {} env", self.go.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines().map(ToOwned::to_owned);
        Ok(std::array::from_fn(|_| lines.next().unwrap_or_default()))
    }
}

/// What may be set in place of building these servers.
fn instead(servers: &[Server]) -> String {
    let mut variables: Vec<_> = servers.iter().map(|server| server.variable()).collect();
    variables.dedup();
    let told: Vec<_> = variables
        .into_iter()
        .map(|name| match name {
            "KUBEBUILDER_ASSETS" => {
                "KUBEBUILDER_ASSETS to a folder with kube-apiserver, kube-controller-manager, etcd and kubectl".to_owned()
            }
            name => format!("{name} to a GARM binary"),
        })
        .collect();
    format!("set {}", told.join(" and "))
}

/// Parses `go1.26.8` or `go1.27rc1`; other texts (development builds) are not judged.
fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text
        .strip_prefix("go")?
        .split(|char: char| !char.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse().ok());
    Some((next()?, next()?, next().unwrap_or(0)))
}

/// Finds an executable file as a shell does: names with a slash stand for themselves, others are looked up.
fn find_program(search_path: &OsStr, name: &OsStr) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(executable);
    }
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(executable)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{GarmVersion, script},
        *,
    };

    fn program(folder: &Path, name: &str, script: &str) {
        script::write(&folder.join(name), script);
    }

    #[test]
    fn reads_go_versions() {
        assert_eq!(parse_version("go1.26.8"), Some((1, 26, 8)));
        assert_eq!(parse_version("go1.27rc1"), Some((1, 27, 0)));
        assert_eq!(parse_version("devel +abc"), None);
    }

    #[test]
    fn refuses_an_old_go_that_may_not_fetch_a_newer_one() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "go", "echo go1.25.1; echo local; echo gcc");
        let error = Toolchain::find(folder.path().as_os_str(), &[Server::Etcd], folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("go1.25.1") && error.contains("GOTOOLCHAIN=auto"),
            "{error}"
        );

        program(folder.path(), "go", "echo go1.25.1; echo auto; echo gcc");
        Toolchain::find(folder.path().as_os_str(), &[Server::Etcd], folder.path()).unwrap();
    }

    #[test]
    fn asks_for_a_c_compiler_only_for_garm() {
        let folder = tempfile::tempdir().unwrap();
        program(folder.path(), "go", "echo go1.26.8; echo local; echo gcc");
        Toolchain::find(folder.path().as_os_str(), &[Server::Etcd], folder.path()).unwrap();
        let servers = [Server::Garm(GarmVersion::V0_1_5)];
        let error = Toolchain::find(folder.path().as_os_str(), &servers, folder.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`gcc`") && error.contains("GARM_V0_1_5_BIN"),
            "{error}"
        );

        program(folder.path(), "gcc", "");
        Toolchain::find(folder.path().as_os_str(), &servers, folder.path()).unwrap();
    }
}
