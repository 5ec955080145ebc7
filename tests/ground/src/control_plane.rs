//! A Kubernetes control plane: etcd, API server and the controllers that collect garbage and empty namespaces.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{Api, Client, Config, api::PostParams};
use rcgen::KeyPair;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command, sync::Mutex};

use crate::{
    certificates::Certificates,
    guard::Guard,
    poll::Patience,
    ports::{ATTEMPTS, free_ports, taken},
    process::Process,
    proxy::{Dialect, Proxy, Upstream},
    random_word,
    servers::{Server, Servers},
};

/// A start takes 4 s on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(90);

/// Those of the controller manager's controllers that tests see.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller";

/// What service accounts ask for is written down; tests themselves are administrators.
const AUDIT: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
"#;

/// A running control plane; everything is done as a member of `system:masters` unless said otherwise.
///
/// The garbage collector looks for new kinds every 30 s only: so long may it take to act on a CRD that was just installed.
pub struct ControlPlane {
    directory: PathBuf,
    url: String,
    token: String,
    ca_pem: String,
    kubectl: PathBuf,
    client: Client,
    processes: Mutex<Vec<Process>>,
}

impl ControlPlane {
    /// Starts a control plane that keeps its files in a directory of its own in `directory`, and waits until it is ready.
    pub async fn start(servers: &Servers, guard: &Guard, directory: &Path) -> Result<Self> {
        let mut attempt = 1;
        loop {
            let directory = directory.join(format!("control-plane-{}", random_word()));
            match Self::try_start(servers, guard, &directory).await {
                Err(error) if attempt < ATTEMPTS && taken(&error) => attempt += 1,
                result => return result,
            }
        }
    }

    async fn try_start(servers: &Servers, guard: &Guard, directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        let [client_port, peer_port, secure_port] = free_ports()?;
        let token = uuid::Uuid::new_v4().to_string();
        let ca_pem = write_credentials(directory, &token)?;
        let url = format!("https://127.0.0.1:{secure_port}");
        let kubeconfig = directory.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &url, Some(&ca_pem), Some(&token), None)?;
        let client = client(&url, &ca_pem, &token)?;

        let log = |name: &str| directory.join(format!("{name}.log"));
        let etcd = etcd(
            servers.path(Server::Etcd)?,
            directory,
            client_port,
            peer_port,
        );
        let apiserver = apiserver(
            servers.path(Server::KubeApiserver)?,
            directory,
            client_port,
            secure_port,
        );
        let mut processes = vec![
            Process::start("etcd", etcd, &log("etcd"), guard)?,
            Process::start("kube-apiserver", apiserver, &log("kube-apiserver"), guard)?,
        ];
        wait_ready(&client, &mut processes).await?;
        let manager = controller_manager(servers.path(Server::KubeControllerManager)?, &kubeconfig);
        processes.push(Process::start(
            "kube-controller-manager",
            manager,
            &log("kube-controller-manager"),
            guard,
        )?);
        let kubectl = servers.path(Server::Kubectl)?.to_owned();
        Ok(Self {
            directory: directory.to_owned(),
            url,
            token,
            ca_pem,
            kubectl,
            client,
            processes: Mutex::new(processes),
        })
    }

    /// A kubeconfig of the administrator that goes straight to the API server.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// A client of the administrator that goes straight to the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Starts a counting proxy whose clients act as the administrator.
    pub async fn proxy(&self) -> Result<Proxy> {
        self.proxy_as(&self.token).await
    }

    /// Starts a counting proxy whose clients act as the holder of `token`.
    pub async fn proxy_as(&self, token: &str) -> Result<Proxy> {
        let upstream = Upstream {
            url: self.url.clone(),
            ca_pem: Some(self.ca_pem.clone()),
            bearer: Some(token.to_owned()),
        };
        Proxy::start(Dialect::Kubernetes, upstream).await
    }

    /// Runs kubectl and returns what it printed, whatever its exit status.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl_with_input(arguments, "").await
    }

    /// Runs kubectl with text on its standard input, as for `apply -f -`.
    pub async fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new(&self.kubectl)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig_path())
            // Its cache belongs to this control plane.
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start kubectl")?;
        let mut stdin = child.stdin.take().context("kubectl has no stdin")?;
        // It may end without reading all of it; its own words tell why.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await.context("run kubectl")
    }

    /// Runs kubectl with text on its standard input and returns what it printed; fails when kubectl does.
    pub async fn kubectl_ok(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.kubectl_with_input(arguments, input).await?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a namespace of its own for a test and returns its name, `prefix` and a random part.
    pub async fn create_namespace(&self, prefix: &str) -> Result<String> {
        let name = format!("{prefix}-{}", crate::random_word());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("create namespace {name}"))?;
        Ok(name)
    }

    /// Makes somebody else the leader of the operators in a namespace, for a day.
    pub async fn hold_lease(&self, namespace: &str) -> Result<()> {
        let now = k8s_openapi::jiff::Timestamp::now();
        let lease = serde_json::from_value(json!({
            "metadata": {"name": "b608d8b3.mercedes-benz.com"},
            "spec": {
                "holderIdentity": "another", "leaseDurationSeconds": 86_400,
                "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}"),
            },
        }))?;
        let leases: Api<Lease> = Api::namespaced(self.client(), namespace);
        let created = leases.create(&PostParams::default(), &lease).await;
        created.context("make a Lease").map(drop)
    }

    /// Everything that a service account has asked for, oldest first, as the API server's audit log tells it. A watch is told when it begins and when it ends.
    pub fn audited(&self, namespace: &str, account: &str) -> Result<Vec<Value>> {
        let path = self.directory.join("audit.log");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let user = format!("system:serviceaccount:{namespace}:{account}");
        // The last line may be half written.
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(events
            .filter(|event: &Value| event["user"]["username"] == *user)
            .collect())
    }

    /// Fails, with the end of its log, when one of the servers has ended.
    pub async fn check_running(&self) -> Result<()> {
        self.processes
            .lock()
            .await
            .iter_mut()
            .try_for_each(Process::check_running)
    }

    /// Ends all servers.
    pub async fn stop(&self) -> Result<()> {
        // Nothing of theirs is kept, so there is nothing to end politely for.
        for process in self.processes.lock().await.iter_mut().rev() {
            process.kill().await?;
        }
        Ok(())
    }
}

/// Writes a kubeconfig for one server; `namespace` is that of its context.
pub(crate) fn write_kubeconfig(
    path: &Path,
    url: &str,
    ca_pem: Option<&str>,
    token: Option<&str>,
    namespace: Option<&str>,
) -> Result<()> {
    let mut cluster = json!({ "server": url });
    if let Some(pem) = ca_pem {
        cluster["certificate-authority-data"] = BASE64.encode(pem).into();
    }
    let user = token.map_or_else(|| json!({}), |token| json!({ "token": token }));
    let mut context = json!({ "cluster": "ground", "user": "ground" });
    if let Some(namespace) = namespace {
        context["namespace"] = namespace.into();
    }
    // JSON is YAML.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "ground", "cluster": cluster }],
        "users": [{ "name": "ground", "user": user }],
        "contexts": [{ "name": "ground", "context": context }],
        "current-context": "ground",
    });
    fs::write(path, format!("{config:#}\n")).with_context(|| format!("write {}", path.display()))
}

fn client(url: &str, ca_pem: &str, token: &str) -> Result<Client> {
    let mut config = Config::new(url.parse().context("the API server's URL")?);
    let certificates = rustls::pki_types::pem::PemObject::pem_slice_iter(ca_pem.as_bytes());
    let certificates: Result<Vec<rustls::pki_types::CertificateDer<'_>>, _> =
        certificates.collect();
    config.root_cert = Some(
        certificates
            .context("read the CA")?
            .iter()
            .map(|der| der.to_vec())
            .collect(),
    );
    config.auth_info.token = Some(token.to_owned().into());
    Client::try_from(config).context("make a Kubernetes client")
}

async fn wait_ready(client: &Client, processes: &mut [Process]) -> Result<()> {
    let patience = Patience::new(START_LIMIT, "the API server is ready");
    loop {
        processes.iter_mut().try_for_each(Process::check_running)?;
        let request = http::Request::get("/readyz")
            .body(Vec::new())
            .context("ask for readiness")?;
        let seen = match client.request_text(request).await {
            Ok(answer) if answer == "ok" => return Ok(()),
            Ok(answer) => answer,
            Err(error) => error.to_string(),
        };
        let logs: Vec<_> = processes.iter().map(Process::tail).collect();
        patience
            .pause(format!(
                "{seen}; the logs end so:\n{}",
                logs.join("\n---\n")
            ))
            .await?;
    }
}

/// Writes the token file, the key for service-account tokens and the server's certificate; returns the CA that signed it.
fn write_credentials(directory: &Path, token: &str) -> Result<String> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    write(
        "tokens.csv",
        &format!("{token},admin,admin,\"system:masters\"\n"),
    )?;
    let accounts = KeyPair::generate().context("make the key for service accounts")?;
    write("accounts.key", &accounts.serialize_pem())?;
    write("accounts.pub", &accounts.public_key_pem())?;

    write("audit-policy.yaml", AUDIT)?;
    let server = Certificates::new()?;
    write("server.crt", &server.certificate_pem)?;
    write("server.key", &server.key_pem)?;
    Ok(server.ca_pem)
}

fn etcd(program: &Path, directory: &Path, client_port: u16, peer_port: u16) -> Command {
    let (client, peer) = (
        format!("http://127.0.0.1:{client_port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(directory.join("etcd"));
    command.args(["--unsafe-no-fsync", "--log-level=warn", "--name=ground"]);
    command.args([
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
    ]);
    command.args([
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
    ]);
    command.arg(format!("--initial-cluster=ground={peer}"));
    command
}

fn apiserver(program: &Path, directory: &Path, etcd_port: u16, port: u16) -> Command {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut command = Command::new(program);
    command.args([
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", file("certificates")),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        format!("--service-account-key-file={}", file("accounts.pub")),
        format!(
            "--service-account-signing-key-file={}",
            file("accounts.key")
        ),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ]);
    command
}

fn controller_manager(program: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args([
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]);
    command.arg(format!("--controllers={CONTROLLERS}"));
    command
}
