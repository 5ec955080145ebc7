//! A shell as people have it who read the documentation: in a checkout, with kubectl and the program at hand.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use garm_operator_ground::servers::Server;
use garm_operator_ground::{ControlPlane, Ground};
use tokio::process::Command;

/// Longer than any command waits by itself.
const LIMIT: Duration = Duration::from_secs(240);

/// A place to run commands in.
pub struct Shell {
    checkout: tempfile::TempDir,
    kubeconfig: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Shell {
    /// Sets one up for this control plane, with these variables.
    pub fn new(
        ground: &Ground,
        plane: &ControlPlane,
        variables: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let checkout = tempfile::tempdir_in(ground.directory())?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["docs", "manifests"] {
            symlink(source.join(folder), checkout.path().join(folder))?;
        }
        let programs = checkout.path().join("bin");
        std::fs::create_dir(&programs)?;
        let kubectl = ground.servers().path(Server::Kubectl)?;
        symlink(kubectl, programs.join("kubectl"))?;
        let operator = env!("CARGO_BIN_EXE_garm-operator");
        symlink(operator, programs.join("garm-operator"))?;
        Ok(Self {
            checkout,
            kubeconfig: plane.kubeconfig_path(),
            variables,
        })
    }

    /// Where a file of the checkout is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.checkout.path().join(name)
    }

    /// Runs a script; answers what it prints, and fails when one of its commands does.
    pub async fn run(&self, script: &str) -> Result<String> {
        let programs = self.path("bin");
        let command = Command::new("bash")
            .args(["-e", "-u", "-o", "pipefail", "-c", script])
            .current_dir(self.checkout.path())
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("HOME", self.checkout.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(LIMIT, command).await;
        let output = ended.with_context(|| format!("{script:?} does not end"))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            bail!("{script}\n{}{}", text(&output.stdout), text(&output.stderr));
        }
        Ok(text(&output.stdout))
    }
}

/// The texts of the blocks of this sort in a page, those below a heading, or all.
pub fn blocks(page: &str, sort: &str, below: Option<&str>) -> Vec<String> {
    let page = match below {
        Some(heading) => page
            .split_once(&format!("\n## {heading}\n"))
            .map_or("", |(_, rest)| rest)
            .split("\n## ")
            .next()
            .unwrap_or_default(),
        None => page,
    };
    let fence = format!("\n```{sort}\n");
    page.split(&fence)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned()))
        .collect()
}
