//! Finds or builds the real servers.
//!
//! Each server is built once from a small Go module in `tests/ground/servers` into `ground/bin` of cargo's target directory.
//! A stamp beside each binary says from what it was built, so that a changed version or `go.sum` builds anew.

mod build;
#[cfg(test)]
mod script;
mod toolchain;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use build::Builder;

/// One of the programs the tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Server {
    /// The store of the API server.
    Etcd,
    /// The Kubernetes API server.
    KubeApiserver,
    /// Garbage collection and the deletion of namespaces.
    KubeControllerManager,
    /// The command line client.
    Kubectl,
    /// GARM in one of its versions.
    Garm(GarmVersion),
    /// Renders and checks charts.
    Helm,
    /// Checks the rules of Prometheus and runs their tests.
    Promtool,
}

/// The GARM versions the operator is tested on: the oldest and the newest release it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GarmVersion {
    /// v0.1.5.
    V0_1_5,
    /// v0.2.1.
    V0_2_1,
}

impl GarmVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 2] = [Self::V0_1_5, Self::V0_2_1];

    /// As GARM reports it, with the `v`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_5 => "v0.1.5",
            Self::V0_2_1 => "v0.2.1",
        }
    }

    /// Whether this is an 0.1 release, of which several answers and rules differ.
    pub fn is_0_1(self) -> bool {
        self == Self::V0_1_5
    }
}

impl fmt::Display for GarmVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl std::str::FromStr for GarmVersion {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .with_context(|| format!("unknown GARM version {text:?}: take v0.1.5 or v0.2.1"))
    }
}

const KUBERNETES_VERSION: &str = "v1.36.3";

impl Server {
    /// Every server that a ground runs, in the order in which they are built. Tools are asked for by whoever needs them.
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Garm(GarmVersion::V0_1_5),
        Self::Garm(GarmVersion::V0_2_1),
    ];

    /// The program's file name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Garm(GarmVersion::V0_1_5) => "garm-v0.1.5",
            Self::Garm(GarmVersion::V0_2_1) => "garm-v0.2.1",
            Self::Helm => "helm",
            Self::Promtool => "promtool",
        }
    }

    /// The folder of its Go module.
    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => "kubernetes",
            Self::Garm(_) | Self::Helm => self.file_name(),
            Self::Promtool => "prometheus",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::Garm(_) => "github.com/cloudbase/garm/cmd/garm",
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool",
        }
    }

    /// The linker's flags: they put the version into the binary, which these programs report and which GARM's clients look at.
    fn linker_flags(self) -> String {
        match self {
            Self::Etcd | Self::Helm | Self::Promtool => "-s -w".to_owned(),
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => {
                let package = "k8s.io/component-base/version";
                format!(
                    "-s -w -X {package}.gitVersion={KUBERNETES_VERSION} -X {package}.gitMajor=1 -X {package}.gitMinor=36"
                )
            }
            Self::Garm(version) => {
                format!("-s -w -X github.com/cloudbase/garm/util/appdefaults.Version={version}")
            }
        }
    }

    /// Whether it has C in it: GARM's SQLite.
    fn needs_c(self) -> bool {
        matches!(self, Self::Garm(_))
    }

    /// How long a first build takes on two cores, to tell who waits.
    fn cold_build(self) -> &'static str {
        match self {
            Self::KubeApiserver => "some 5 min",
            Self::KubeControllerManager => "some 90 s",
            Self::Helm => "some 3 min",
            Self::Promtool => "some 4 min",
            _ => "about a minute",
        }
    }

    /// The variable that names an existing binary, or the folder that holds it.
    fn variable(self) -> &'static str {
        self.own_variable().unwrap_or("KUBEBUILDER_ASSETS")
    }

    /// The variable that names an existing binary of this server alone.
    fn own_variable(self) -> Option<&'static str> {
        match self {
            Self::Garm(GarmVersion::V0_1_5) => Some("GARM_V0_1_5_BIN"),
            Self::Garm(GarmVersion::V0_2_1) => Some("GARM_V0_2_1_BIN"),
            Self::Helm => Some("HELM_BIN"),
            Self::Promtool => Some("PROMTOOL_BIN"),
            _ => None,
        }
    }
}

/// Where each server's binary is.
#[derive(Clone, Debug)]
pub struct Servers {
    paths: BTreeMap<Server, PathBuf>,
}

impl Servers {
    /// Finds or builds all servers. Blocks: a first build takes about ten minutes on two cores.
    pub fn ensure() -> Result<Self> {
        Self::ensure_only(&Server::ALL)
    }

    /// Finds or builds some of the servers, as [`Servers::ensure`] does.
    pub fn ensure_only(wanted: &[Server]) -> Result<Self> {
        Sources::from_environment().ensure(wanted)
    }

    /// The binary of a server; fails for one that was not asked for.
    pub fn path(&self, server: Server) -> Result<&Path> {
        let path = self.paths.get(&server);
        path.map(PathBuf::as_path)
            .with_context(|| format!("{} was not asked for", server.file_name()))
    }
}

/// Where servers may come from; a value so that tests can look at other surroundings.
#[derive(Debug)]
struct Sources {
    /// `KUBEBUILDER_ASSETS`.
    assets: Option<PathBuf>,
    /// `GARM_V…_BIN` and the like.
    named: BTreeMap<Server, PathBuf>,
    /// `PATH`, to find Go and a C compiler.
    search_path: OsString,
    /// `ground` in cargo's target directory.
    directory: PathBuf,
}

impl Sources {
    fn from_environment() -> Self {
        let path_of = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let all = Server::ALL
            .into_iter()
            .chain([Server::Helm, Server::Promtool]);
        Self {
            assets: path_of("KUBEBUILDER_ASSETS"),
            named: all
                .filter_map(|server| Some((server, path_of(server.own_variable()?)?)))
                .collect(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            directory: target_directory(path_of("CARGO_TARGET_DIR")).join("ground"),
        }
    }

    fn ensure(&self, wanted: &[Server]) -> Result<Servers> {
        let mut paths = BTreeMap::new();
        let mut missing = Vec::new();
        let builder = Builder::new(&self.directory, &self.search_path);
        for &server in wanted {
            if let Some(path) = self.existing(server)? {
                paths.insert(server, path);
            } else if builder.is_built(server)? {
                paths.insert(server, builder.binary(server));
            } else {
                missing.push(server);
            }
        }
        paths.extend(builder.build(&missing)?);
        Ok(Servers { paths })
    }

    /// The binary that the environment names for this server.
    fn existing(&self, server: Server) -> Result<Option<PathBuf>> {
        let path = if server.own_variable().is_some() {
            self.named.get(&server).cloned()
        } else {
            let assets = self.assets.as_ref();
            assets.map(|assets| assets.join(server.file_name()))
        };
        let Some(path) = path else { return Ok(None) };
        if fs::metadata(&path).is_ok_and(|found| found.is_file()) {
            return Ok(Some(path));
        }
        // The usual sets of binaries for tests hold the API server, etcd and kubectl only.
        if server == Server::KubeControllerManager {
            return Ok(None);
        }
        bail!(
            "{} is set, but {} is not there: correct the variable, or unset it to have {} built",
            server.variable(),
            path.display(),
            server.file_name()
        );
    }
}

/// The workspace's root, two folders above this package.
fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}

/// Cargo's target directory: as the variable says (relative to the folder cargo was called in, which for its tests is the
/// package's own: so relative ones count from the workspace), else `target` in the workspace.
fn target_directory(variable: Option<PathBuf>) -> PathBuf {
    workspace().join(variable.unwrap_or_else(|| PathBuf::from("target")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(directory: &Path) -> Sources {
        Sources {
            assets: None,
            named: BTreeMap::new(),
            search_path: OsString::new(),
            directory: directory.to_owned(),
        }
    }

    #[test]
    fn says_what_to_install_when_there_is_no_go() {
        let directory = tempfile::tempdir().unwrap();
        let error = sources(directory.path())
            .ensure(&[Server::Etcd])
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("install Go 1.26.2 or newer"), "{text}");
        assert!(
            text.contains("KUBEBUILDER_ASSETS") && text.contains("etcd"),
            "{text}"
        );
    }

    #[test]
    fn names_the_variable_that_points_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let mut sources = sources(directory.path());
        sources.assets = Some(directory.path().join("nowhere"));
        let text = format!("{:#}", sources.ensure(&[Server::Kubectl]).unwrap_err());
        assert!(
            text.contains("KUBEBUILDER_ASSETS") && text.contains("nowhere/kubectl"),
            "{text}"
        );
    }

    #[test]
    fn takes_existing_binaries_without_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut sources = sources(directory.path());
        let garm = Server::Garm(GarmVersion::V0_2_1);
        for name in ["etcd", "my-garm"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        sources.assets = Some(directory.path().to_owned());
        sources.named = BTreeMap::from([(garm, directory.path().join("my-garm"))]);
        let servers = sources.ensure(&[Server::Etcd, garm]).unwrap();
        assert_eq!(
            servers.path(garm).unwrap(),
            directory.path().join("my-garm")
        );
        assert!(servers.path(Server::Kubectl).is_err());
    }

    #[test]
    fn the_target_directory_follows_cargo() {
        assert_eq!(
            target_directory(Some("/elsewhere".into())),
            PathBuf::from("/elsewhere")
        );
        assert_eq!(target_directory(None), workspace().join("target"));
    }
}
