//! One test's world: a namespace, a GARM, counting proxies before both servers, and the operator as a process.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::Proxy;
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{ControlPlane, Garm, GarmOptions, Ground, Operator, OperatorCommand};
use serde_json::Value;

/// Within which a change has to arrive that nothing stands in the way of. Generous: the machine may be busy.
pub const SOON: Duration = Duration::from_secs(30);

/// Everything one test works with.
pub struct World<'a> {
    /// The servers that tests share.
    pub plane: &'a ControlPlane,
    /// This test's GARM, its fake GitHub and its fake provider.
    pub garm: Garm,
    /// What stands between the operator and the API server.
    pub kube: Proxy,
    /// This test's namespace.
    pub namespace: String,
    command: OperatorCommand,
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
        let namespace = plane.create_namespace("test").await?;
        let command = ground
            .operator(env!("CARGO_BIN_EXE_garm-operator"))
            .kubernetes(&kube)
            .garm(&garm)
            .namespace(&namespace)
            .argument("--operator-runner-reconciliation=true")
            .argument("--operator-log-verbosity-level=1");
        Ok(Self {
            plane,
            garm,
            kube,
            namespace,
            command,
        })
    }

    /// The command that runs the operator, to add to.
    pub fn command(&self) -> OperatorCommand {
        self.command.clone()
    }

    /// Starts the operator and waits until it serves.
    pub async fn operator(&self) -> Result<Operator> {
        self.start(&self.command).await
    }

    /// Starts a command made by [`Self::command`] and waits until it serves.
    pub async fn start(&self, command: &OperatorCommand) -> Result<Operator> {
        let mut operator = command.start()?;
        operator.wait_ready(SOON).await?;
        Ok(operator)
    }

    /// The documents of a whole set: settings apart, everything that two pools need.
    pub fn manifests(&self) -> Vec<String> {
        let github = self.garm.github().url();
        vec![
            secret("github-token", "token", "ghp_planted-token"),
            secret("webhook-secret", "secret", "planted-webhook-secret"),
            format!(
                "kind: GitHubEndpoint\nmetadata: {{name: ghes}}\nspec:\n  description: fake\n  apiBaseUrl: {github}\n  uploadBaseUrl: {github}\n  baseUrl: {github}\n"
            ),
            "kind: GitHubCredential\nmetadata: {name: pat}\nspec:\n  description: token of the tests\n  authType: pat\n  endpointRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubEndpoint, name: ghes}\n  secretRef: {name: github-token, key: token}\n".to_owned(),
            "kind: Repository\nmetadata: {name: tools}\nspec:\n  owner: acme\n  credentialsRef: {apiGroup: garm-operator.mercedes-benz.com, kind: GitHubCredential, name: pat}\n  webhookSecretRef: {name: webhook-secret, key: secret}\n".to_owned(),
            image("runner", "runner:1"),
            pool("small", "flavor: small\n  minIdleRunners: 1\n  maxRunners: 3"),
            pool("large", "flavor: large\n  minIdleRunners: 1\n  maxRunners: 2"),
        ]
    }

    /// Applies documents with real kubectl, in this order.
    pub async fn apply(&self, documents: &[String]) -> Result<String> {
        self.kubectl(&["apply", "-f", "-"], &join(documents)).await
    }

    /// Runs kubectl in this namespace, with an input, and fails when it does.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut all = vec!["-n", self.namespace.as_str()];
        all.extend(arguments);
        self.plane.kubectl_ok(&all, input).await
    }

    /// Reads an object; `None` when it does not exist.
    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let text = self
            .kubectl(&["get", kind, name, "--ignore-not-found", "-o", "json"], "")
            .await?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Reads an object that exists.
    pub async fn object(&self, kind: &str, name: &str) -> Result<Value> {
        self.get(kind, name)
            .await?
            .ok_or_else(|| anyhow!("{kind} {name} does not exist"))
    }

    /// Lists the objects of some kinds.
    pub async fn list(&self, kinds: &str) -> Result<Vec<Value>> {
        let text = self.kubectl(&["get", kinds, "-o", "json"], "").await?;
        let list: Value = serde_json::from_str(&text)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until a condition of an object is as wanted; answers the object.
    pub async fn wait_condition(
        &self,
        kind: &str,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> Result<Value> {
        let what = format!("{kind} {name}: {type_}={status} {reason}");
        poll_until(SOON, &what, async || {
            let Some(object) = self.get(kind, name).await? else {
                return Ok(Seen::NotYet("no object".to_owned()));
            };
            let condition = condition(&object, type_);
            let matches = condition["status"] == status
                && (reason.is_empty() || condition["reason"] == reason);
            Ok(if matches {
                Seen::Yes(object)
            } else {
                Seen::NotYet(condition.to_string())
            })
        })
        .await
    }

    /// Waits until an object is Ready; answers it.
    pub async fn wait_ready(&self, kind: &str, name: &str) -> Result<Value> {
        self.wait_condition(kind, name, "Ready", "True", "").await
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

    /// Waits until an object is gone.
    pub async fn wait_gone(&self, kind: &str, name: &str) -> Result<()> {
        poll_until(SOON, &format!("{kind} {name} to go"), async || {
            Ok(match self.get(kind, name).await? {
                None => Seen::Yes(()),
                Some(object) => Seen::NotYet(condition(&object, "Ready").to_string()),
            })
        })
        .await
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
        Ok(())
    }
}

/// Installs the CRDs of the repository, once per control plane: a second apply changes nothing.
async fn install_crds(plane: &ControlPlane) -> Result<()> {
    static INSTALLED: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    INSTALLED
        .get_or_try_init(async || {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
            plane
                .kubectl_ok(&["apply", "-f", folder], "")
                .await
                .context("install the CRDs")?;
            plane
                .kubectl_ok(
                    &[
                        "wait",
                        "--for=condition=Established",
                        "crd",
                        "--all",
                        "--timeout=60s",
                    ],
                    "",
                )
                .await
                .context("wait for the CRDs")?;
            Ok(())
        })
        .await
        .map(|()| ())
}

/// A condition of an object, or null.
pub fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions
        .into_iter()
        .find(|c| c["type"] == type_)
        .unwrap_or_default()
}

/// Joins documents, giving each its API version where it has none.
pub fn join(documents: &[String]) -> String {
    documents.iter().fold(String::new(), |mut all, document| {
        let version = if document.contains("apiVersion:") {
            ""
        } else {
            "apiVersion: garm-operator.mercedes-benz.com/v1beta1\n"
        };
        let _ = write!(all, "---\n{version}{document}\n");
        all
    })
}

/// A Secret with one key.
pub fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{{key}: {value}}}\n"
    )
}

/// An Image.
pub fn image(name: &str, tag: &str) -> String {
    format!("kind: Image\nmetadata: {{name: {name}}}\nspec: {{tag: \"{tag}\"}}\n")
}

/// A Pool of the repository `tools` with some fields of its own.
pub fn pool(name: &str, fields: &str) -> String {
    format!(
        "kind: Pool\nmetadata: {{name: {name}}}\nspec:\n  githubScopeRef: {{apiGroup: garm-operator.mercedes-benz.com, kind: Repository, name: tools}}\n  providerName: fake\n  imageName: runner\n  osType: linux\n  osArch: amd64\n  tags: [{name}, linux]\n  enabled: true\n  runnerBootstrapTimeout: 20\n  {fields}\n"
    )
}
