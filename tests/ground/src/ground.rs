//! The whole ground of a test binary.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::sync::OnceCell;

use crate::{
    control_plane::ControlPlane,
    garm::{Garm, GarmOptions},
    guard::Guard,
    operator::OperatorCommand,
    servers::{GarmVersion, Server, Servers},
};

/// Real servers for one test binary: one control plane, and as many GARMs as there are tests.
///
/// Everything ends with [`Ground::shutdown`]; when that is not reached, the guard ends it. Everything of it must be used on one
/// tokio runtime: its clients keep connections, which end with the runtime they were opened on.
pub struct Ground {
    servers: Servers,
    guard: Guard,
    directory: PathBuf,
    control_plane: OnceCell<ControlPlane>,
}

impl Ground {
    /// Finds or builds all servers (which may take minutes) and makes a directory; starts nothing yet but the guard.
    pub async fn start() -> Result<Self> {
        Self::start_only(&Server::ALL).await
    }

    /// As [`Ground::start`] for some of the servers.
    pub async fn start_only(wanted: &[Server]) -> Result<Self> {
        let wanted = wanted.to_vec();
        let found = tokio::task::spawn_blocking(move || Servers::ensure_only(&wanted)).await;
        let servers = found.context("look for the servers")??;
        let guard = Guard::start()?;
        let directory = tempfile::Builder::new()
            .prefix("garm-ground-")
            .tempdir()
            .context("make a directory")?;
        // From here on the guard removes it, also where no destructor runs.
        guard.watch_directory(directory.path())?;
        Ok(Self {
            servers,
            guard,
            directory: directory.keep(),
            control_plane: OnceCell::new(),
        })
    }

    /// Does some work with a control plane and one version of GARM, until it is done or Ctrl-C is pressed, which answers `None`. Ends
    /// the servers whatever happens.
    pub async fn play<T>(
        version: GarmVersion,
        work: impl AsyncFnOnce(&Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let wanted = [
            Server::Etcd,
            Server::KubeApiserver,
            Server::KubeControllerManager,
            Server::Kubectl,
            Server::Garm(version),
        ];
        let ground = Self::start_only(&wanted).await?;
        let result = tokio::select! {
            result = work(&ground) => result.map(Some),
            _ = tokio::signal::ctrl_c() => {
                crate::progress("ending");
                Ok(None)
            }
        };
        ground.shutdown().await?;
        result
    }

    /// The control plane; started when first asked for.
    pub async fn control_plane(&self) -> Result<&ControlPlane> {
        let start = async || ControlPlane::start(&self.servers, &self.guard, &self.directory).await;
        self.control_plane.get_or_try_init(start).await
    }

    /// A new GARM, set up and with runners that go idle by themselves.
    pub async fn garm(&self, version: GarmVersion) -> Result<Garm> {
        self.garm_with(version, GarmOptions::default()).await
    }

    /// A new GARM with options.
    pub async fn garm_with(&self, version: GarmVersion, options: GarmOptions) -> Result<Garm> {
        Garm::start(
            version,
            &self.servers,
            &self.guard,
            &self.directory,
            options,
        )
        .await
    }

    /// An operator process to be, of this program.
    pub fn operator(&self, program: impl Into<PathBuf>) -> OperatorCommand {
        OperatorCommand::new(program.into(), &self.guard, &self.directory)
    }

    /// Where everything keeps its files; gone after the end.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the binaries are.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The process that cleans up after us.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Ends everything and removes all files; GARMs and operators that are still there end, too.
    pub async fn shutdown(self) -> Result<()> {
        if let Some(control_plane) = self.control_plane.into_inner() {
            control_plane.stop().await?;
        }
        let guard = self.guard;
        tokio::task::spawn_blocking(move || guard.finish())
            .await
            .context("end the guard")
    }
}
