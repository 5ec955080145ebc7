//! One test's world: a namespace, a GARM, counting proxies before both servers, and the operator as a process.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use garm_operator::generate::crds;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Proxy;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, Garm, GarmOptions, Ground, Operator, OperatorCommand};
use serde_json::{Value, json};

use crate::documents;
use crate::place::Place;

pub use crate::documents::{condition, image, join, message, pool, secret};
pub use crate::records::{Mark, told};

/// Within which a change has to arrive that nothing stands in the way of. Generous: the machine may be busy.
pub const SOON: Duration = Duration::from_secs(30);

/// How much of an operator's log a failed test shows.
const LOG_LINES: usize = 80;

/// Everything one test works with; what it does in its namespace is the [`Place`]'s.
pub struct World<'a> {
    place: Place<'a>,
    /// This test's GARM, its fake GitHub and its fake provider.
    pub garm: Garm,
    /// What stands between the operator and the API server.
    pub kube: Proxy,
    /// The command that runs the operator, but for the namespaces to watch.
    command: OperatorCommand,
    /// Logs of the operators of a test that has not come to its good end.
    logs: Mutex<Vec<PathBuf>>,
}

impl<'a> World<'a> {
    /// Builds a world with a GARM that is set up.
    pub async fn new(ground: &'a Ground, version: GarmVersion) -> Result<Self> {
        Self::with(ground, version, GarmOptions::default()).await
    }

    /// Builds a world with a GARM of choice.
    pub async fn with(
        ground: &'a Ground,
        version: GarmVersion,
        options: GarmOptions,
    ) -> Result<Self> {
        let plane = ground.control_plane().await?;
        install_crds(plane).await?;
        Self::on(ground, plane, version, options).await
    }

    /// Builds a world on a control plane of its own, which has what CRDs the test gives it.
    pub async fn on(
        ground: &'a Ground,
        plane: &'a ControlPlane,
        version: GarmVersion,
        options: GarmOptions,
    ) -> Result<Self> {
        let garm = ground.garm_with(version, options).await?;
        let kube = plane.proxy().await?;
        let home = Place::new(plane).await?;
        let command = ground
            .operator(env!("CARGO_BIN_EXE_garm-operator"))
            .kubernetes(&kube)
            .garm(&garm)
            .argument("--operator-runner-reconciliation=true")
            .argument("--operator-log-verbosity-level=1");
        Ok(Self {
            place: home,
            garm,
            kube,
            command,
            logs: Mutex::default(),
        })
    }

    /// The same world, in which the operator has no rights but these in its namespace.
    pub async fn with_rights(mut self, rules: &Value) -> Result<Self> {
        let name = "operator";
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}],
        });
        self.apply(&[account.to_string(), binding.to_string()])
            .await?;
        self.set_rights(rules).await?;
        let token = self.kubectl(&["create", "token", name], "").await?;
        self.kube = self.plane.proxy_as(token.trim()).await?;
        self.command = self.command.clone().kubernetes(&self.kube);
        Ok(self)
    }

    /// The same world, in which the operator has this namespace for its own and acts as an account of it that is there.
    pub async fn acting_as(mut self, own: &str, account: &str) -> Result<Self> {
        let token = ["-n", own, "create", "token", account];
        let token = self.plane.kubectl_ok(&token, "").await?;
        self.kube = self.plane.proxy_as(token.trim()).await?;
        let command = self.command.clone().kubernetes(&self.kube);
        self.command = command.own_namespace(own);
        Ok(self)
    }

    /// The same world in another namespace, which is there.
    pub fn moved_to(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.place.namespace);
        self
    }

    /// Gives the operator of [`Self::with_rights`] other rights.
    pub async fn set_rights(&self, rules: &Value) -> Result<()> {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "operator"},
            "rules": rules,
        });
        self.apply(&[role.to_string()]).await.map(drop)
    }

    /// The command that runs the operator, to add to.
    pub fn command(&self) -> OperatorCommand {
        self.command_watching(&[&self.namespace])
    }

    /// The command that runs the operator, without a word about namespaces.
    pub fn any_command(&self) -> OperatorCommand {
        self.command.clone()
    }

    /// The command that runs the operator on these namespaces.
    pub fn command_watching(&self, namespaces: &[&str]) -> OperatorCommand {
        self.command.clone().namespace(&namespaces.join(","))
    }

    /// Starts the operator and waits until it serves.
    pub async fn operator(&self) -> Result<Operator> {
        self.start(&self.command()).await
    }

    /// Starts a command made by [`Self::command`] and waits until it serves.
    pub async fn start(&self, command: &OperatorCommand) -> Result<Operator> {
        let mut operator = command.start()?;
        self.logs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(operator.log_path().to_owned());
        operator.wait_ready(SOON).await?;
        Ok(operator)
    }

    /// Starts the operator, applies everything, and waits until all is Ready, each pool has its idle runner, and nothing moves any more.
    pub async fn settled_operator(&self, command: &OperatorCommand) -> Result<Operator> {
        let operator = self.start(command).await?;
        self.apply(&self.manifests()).await?;
        self.wait_all_ready().await?;
        self.wait_idle_runners(2).await?;
        self.wait_counted().await?;
        self.wait_calm(Duration::from_secs(4)).await?;
        Ok(operator)
    }

    /// Waits until both pools show one idle runner and no other.
    pub async fn wait_counted(&self) -> Result<()> {
        for pool in ["small", "large"] {
            self.wait("pool", pool, "one idle runner counted", |pool| {
                pool["status"]["runners"]["idle"] == 1 && pool["status"]["runners"]["total"] == 1
            })
            .await?;
        }
        Ok(())
    }

    /// Waits until something that is counted has come to pass.
    pub async fn wait_for(&self, what: &str, came: impl Fn() -> bool) -> Result<()> {
        let limit = SOON * 3;
        poll_until(limit, what, async || {
            Ok(Seen::when(came(), |came| *came).map(|_| ()))
        })
        .await
    }

    /// The documents of a whole set: settings apart, everything that two pools need.
    pub fn manifests(&self) -> Vec<String> {
        documents::everything(&self.garm.github().url())
    }

    /// Waits until the whole set of [`Self::manifests`] is Ready.
    pub async fn wait_all_ready(&self) -> Result<()> {
        for (kind, name) in [
            ("githubendpoint", "ghes"),
            ("githubcredential", "pat"),
            ("repository", "tools"),
            ("pool", "small"),
            ("pool", "large"),
        ] {
            self.wait_ready(kind, name).await?;
        }
        Ok(())
    }

    /// Waits until `count` Runner objects show an idle runner; answers them.
    pub async fn wait_idle_runners(&self, count: usize) -> Result<Vec<Value>> {
        poll_until(
            Duration::from_secs(60),
            &format!("{count} idle runners"),
            async || {
                let runners = self.list("runners").await?;
                let idle = runners
                    .iter()
                    .filter(|r| r["status"]["status"] == "idle")
                    .count();
                Ok(if idle == count && runners.len() == count {
                    Seen::Yes(runners)
                } else {
                    Seen::NotYet(format!("{idle} idle of {}", runners.len()))
                })
            },
        )
        .await
    }

    /// Ends the test: the operator stops in good order and has leaked no secret.
    pub async fn finish(&self, mut operator: Operator) -> Result<()> {
        let status = operator.terminate(Duration::from_secs(15)).await?;
        if !status.success() {
            bail!("the operator ended with {status}:\n{}", operator.stderr());
        }
        let log = operator.stderr();
        for planted in [
            "ghp_planted-token",
            "planted-webhook-secret",
            self.garm.password(),
        ] {
            if log.contains(planted) {
                bail!("the log shows a secret");
            }
        }
        if log.contains("panicked") {
            bail!("something panicked:\n{log}");
        }
        self.logs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        Ok(())
    }
}

impl<'a> Deref for World<'a> {
    type Target = Place<'a>;

    fn deref(&self) -> &Self::Target {
        &self.place
    }
}

impl Drop for World<'_> {
    /// Shows what the operators of a failed test have logged: their files go with the ground.
    fn drop(&mut self) {
        let logs = self.logs.get_mut().unwrap_or_else(PoisonError::into_inner);
        for path in logs {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(LOG_LINES);
            eprintln!(
                "--- the operator in {} logged at last:\n{}",
                self.place.namespace,
                lines[last..].join("\n")
            );
        }
    }
}

/// Installs our CRDs on the control plane that tests share, once.
async fn install_crds(plane: &ControlPlane) -> Result<()> {
    static INSTALLED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    INSTALLED
        .get_or_try_init(async || plane.install_crds(crds::definitions(), None).await)
        .await?;
    Ok(())
}
