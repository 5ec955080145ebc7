//! An overlay of the folder `manifests`, and what it gives the operator.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use garm_operator_ground::{ControlPlane, Ground, OperatorCommand, render};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

/// The namespace that overlays install into.
pub const NAMESPACE: &str = "garm-operator-system";
/// The account that the operator runs as, and the name of its Deployment.
pub const ACCOUNT: &str = "garm-operator-controller-manager";

/// What an overlay makes.
pub struct Overlay(pub Vec<Value>);

/// A rule that is bound to the operator's account: everywhere, or in one namespace.
pub struct Granted {
    pub namespace: Option<String>,
    pub role: String,
    pub rule: PolicyRule,
}

impl Overlay {
    /// Renders an overlay by its name.
    pub fn render(ground: &Ground, name: &str) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/overlays");
        let rendered = render::kustomize(ground.servers(), &folder.join(name))?;
        Ok(Self(render::objects(&rendered)?))
    }

    /// Applies everything, with webhooks at this port of the loopback, and waits until the API server serves our kinds.
    pub async fn install(&self, plane: &ControlPlane, port: u16) -> Result<()> {
        let url = format!("https://127.0.0.1:{port}");
        let objects: Vec<Value> = self
            .0
            .iter()
            .map(|one| pointed(one.clone(), &url))
            .collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let applied = plane
            .kubectl_with_input(&["apply", "--server-side", "-f", "-"], &list)
            .await?;
        let told = String::from_utf8_lossy(&applied.stderr);
        // Warnings as well: of the pod's security, and of fields that mean nothing.
        ensure!(applied.status.success() && told.is_empty(), "{told}");
        self.ensure_pod_fits(plane).await?;
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        plane.kubectl_ok(&established, "").await.map(drop)
    }

    /// Asks the API server, which enforces the namespace's level of pod security, for the Deployment's pod.
    async fn ensure_pod_fits(&self, plane: &ControlPlane) -> Result<()> {
        let template = &self.deployment()?["spec"]["template"];
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]});
        pod["metadata"] = json!({"name": "probe", "namespace": NAMESPACE});
        let dry = ["create", "--dry-run=server", "-f", "-"];
        plane.kubectl_ok(&dry, &pod.to_string()).await?;
        pod["spec"]["hostNetwork"] = true.into();
        let refused = plane.kubectl_with_input(&dry, &pod.to_string()).await?;
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(told.contains("restricted"), "nothing is enforced: {told}");
        Ok(())
    }

    fn deployment(&self) -> Result<&Value> {
        let mut all = self.0.iter();
        all.find(|one| one["kind"] == "Deployment")
            .context("no Deployment")
    }

    fn container(&self) -> Result<&Value> {
        Ok(&self.deployment()?["spec"]["template"]["spec"]["containers"][0])
    }

    /// The one namespace whose objects it works on.
    pub fn watched(&self) -> Option<&str> {
        let env = self.container().ok()?["env"].as_array()?;
        let setting = env
            .iter()
            .find(|one| one["name"] == "OPERATOR_WATCH_NAMESPACE")?;
        setting["value"].as_str()
    }

    /// Gives a command the settings of the Deployment's container; where GARM is, it knows already.
    pub fn command(&self, command: OperatorCommand, port: u16) -> OperatorCommand {
        let env = self.container().ok().and_then(|one| one["env"].as_array());
        let settings = env.into_iter().flatten().filter_map(|one| {
            let name = one["name"].as_str()?;
            name.starts_with("OPERATOR_")
                .then_some((name, one["value"].as_str()?))
        });
        settings
            .fold(command, |command, (name, value)| {
                command.variable(name, value)
            })
            .argument(format!("--operator-webhook-bind-address=127.0.0.1:{port}"))
            // It looks at its CA more often, and notices sooner that it leads no more.
            .argument("--timings-scale=0.4")
    }

    /// Everything that the operator's account is granted.
    pub fn granted(&self) -> Result<Vec<Granted>> {
        let mut all = Vec::new();
        let account = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
        for binding in &self.0 {
            let subjects = binding["subjects"].as_array();
            if !subjects.is_some_and(|subjects| subjects.contains(&account)) {
                continue;
            }
            let (kind, name) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
            let namespace = binding["metadata"]["namespace"].as_str();
            let role = self.0.iter().find(|one| {
                let home = &one["metadata"]["namespace"];
                let is_near = kind == "ClusterRole" || home.as_str() == namespace;
                one["kind"] == *kind && one["metadata"]["name"] == *name && is_near
            });
            let role = role.with_context(|| format!("{name} is bound and not there"))?;
            let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone())?;
            all.extend(rules.into_iter().map(|rule| Granted {
                namespace: namespace.map(str::to_owned),
                role: name.as_str().unwrap_or_default().to_owned(),
                rule,
            }));
        }
        ensure!(!all.is_empty(), "nothing is granted");
        Ok(all)
    }
}

/// A right that the operator does not have: it writes no Images.
pub fn one_more() -> Granted {
    Granted {
        namespace: None,
        role: "more".to_owned(),
        rule: PolicyRule {
            api_groups: Some(vec!["garm-operator.mercedes-benz.com".to_owned()]),
            resources: Some(vec!["images".to_owned()]),
            verbs: vec!["patch".to_owned()],
            ..PolicyRule::default()
        },
    }
}

/// An object whose webhooks are below this URL: the API server of the ground knows no Services.
fn pointed(mut object: Value, url: &str) -> Value {
    let point = |config: &mut Value| {
        let path = config["service"]["path"].as_str().unwrap_or_default();
        *config = json!({"url": format!("{url}{path}")});
    };
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        point(&mut webhook["clientConfig"]);
    }
    if let Some(config) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
        point(config);
    }
    object
}
