//! Two equal Pools in one breath, while the operator's watches lag: with one replica, and with two behind one address.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher};
use garm_operator_ground::servers::GarmVersion;
use garm_operator_ground::{Certificates, Ground};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::equal_pools::{DUPLICATE, tried, twin};
use crate::hooks;
use crate::world::{SOON, World};

/// How often each pair is tried.
const ROUNDS: usize = 20;

/// By how much the watches lag.
const LAG: Duration = Duration::from_secs(2);

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test(
        "of_two_equal_pools_in_one_apply_the_second_is_refused_twenty_times_of_twenty",
        one_replica,
    );
    suite.test(
        "two_equal_pools_that_two_replicas_let_pass_show_it_twenty_times_of_twenty",
        two_replicas,
    );
    suite.test(
        "a_pool_that_somebody_else_refused_can_be_tried_again_at_once",
        refused_by_another,
    );
}

/// Two Pools that equal each other and no Pool of another round.
fn pair(round: usize) -> [String; 2] {
    ["first", "second"].map(|name| {
        twin(&format!("{name}-{round}")).replace("flavor: tiny", &format!("flavor: f{round}"))
    })
}

fn lag(world: &World<'_>) {
    world
        .kube
        .rule(Matcher::any().query_contains("watch=true"), Fault::Lag(LAG));
}

async fn one_replica(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    lag(&world);
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    for round in 0..ROUNDS {
        let (first, second) = (format!("first-{round}"), format!("second-{round}"));
        let (is_fine, said) = tried(&world, &["apply", "-f", "-"], &pair(round)).await?;
        ensure!(said.contains(&format!("/{first} created")), "{said}");
        let refusal = format!("Pool \"{first}\" has the same");
        ensure!(!is_fine && said.contains(&refusal), "{said}");
        ensure!(world.get("pool", &second).await?.is_none(), "{second}");
    }
    world.finish(operator).await
}

async fn two_replicas(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    lag(&world);
    let certificates = Certificates::new()?;
    let elected = world
        .command()
        .own_namespace(&world.namespace)
        .argument("--operator-leader-election=true");
    let (mut ports, mut operators) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let port = hooks::free_port()?;
        let command = hooks::serving(ground, &elected, port, &certificates)?;
        operators.push(world.start(&command).await?);
        ports.push(port);
    }
    let switch = Switch::start(ports[0]).await?;
    let url = format!("https://{}", switch.address);
    hooks::ask(&world, &url, &certificates, &[]).await?;
    let mut let_pass = Vec::new();
    for round in 0..ROUNDS {
        for (document, port) in pair(round).into_iter().zip(&ports) {
            switch.turn(*port);
            if apply_by_new_connections(&world, &document).await? {
                continue;
            }
            ensure!(document.contains("name: second"), "{document}");
        }
        if world
            .get("pool", &format!("second-{round}"))
            .await?
            .is_some()
        {
            let_pass.push(round);
        }
    }
    ensure!(
        !let_pass.is_empty(),
        "the replicas know of each other in no time"
    );
    for round in let_pass {
        let (first, second) = (format!("first-{round}"), format!("second-{round}"));
        world
            .wait_condition("pool", &second, DUPLICATE, "True", "")
            .await?;
        let first = world.object("pool", &first).await?;
        ensure!(
            crate::world::condition(&first, DUPLICATE).is_null(),
            "{first}"
        );
    }
    let last = operators.pop().context("two operators")?;
    for mut operator in operators {
        operator.kill().await?;
    }
    world.finish(last).await
}

/// Whether a document is accepted. The API server may find out only now that its connection to the webhook has ended.
async fn apply_by_new_connections(world: &World<'_>, document: &str) -> Result<bool> {
    for _ in 0..5 {
        let (is_fine, said) = tried(world, &["apply", "-f", "-"], &[document.to_owned()]).await?;
        if is_fine || said.contains("has the same") {
            return Ok(is_fine);
        }
        ensure!(said.contains("failed calling webhook"), "{said}");
    }
    bail!("the API server does not reach the webhook")
}

async fn refused_by_another(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let operator = hooks::start(ground, &world, &world.command(), &[]).await?;
    let name = format!("{}-dead", world.namespace);
    let dead = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "dead.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{
                "apiGroups": ["garm-operator.mercedes-benz.com"], "apiVersions": ["v1beta1"],
                "operations": ["CREATE"], "resources": ["pools"],
            }],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    });
    world
        .kubectl(&["create", "-f", "-"], &dead.to_string())
        .await?;
    let says = async |pool: &str, arguments: &[&str], words: &str| {
        poll_until(SOON, &format!("{pool}: {words}"), async || {
            let (_, said) = tried(&world, arguments, &[twin(pool)]).await?;
            Ok(Seen::when(said, |said| said.contains(words)).map(drop))
        })
        .await
    };
    let (create, dry) = (
        ["create", "-f", "-"],
        ["create", "--dry-run=server", "-f", "-"],
    );
    says("a", &dry, "dead.example.com").await?;
    // Ours lets it pass, the dead one does not.
    says("a", &create, "dead.example.com").await?;
    world
        .kubectl(&["delete", "validatingwebhookconfiguration", &name], "")
        .await?;
    // For a while it counts as if it were on its way; but it may always be tried again itself.
    says("b", &dry, "Pool \"a\" has the same").await?;
    world
        .kubectl(&create, &crate::world::join(&[twin("a")]))
        .await?;
    world.finish(operator).await
}

/// Passes connections on to one of several ports of this machine.
struct Switch {
    address: SocketAddr,
    to: Arc<Mutex<(u16, CancellationToken)>>,
}

impl Switch {
    async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let to = Arc::new(Mutex::new((port, CancellationToken::new())));
        let shared = Arc::clone(&to);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (port, end) = shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                tokio::spawn(end.run_until_cancelled_owned(async move {
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                }));
            }
        });
        Ok(Self { address, to })
    }

    /// Ends all connections; the next ones go to this port.
    fn turn(&self, port: u16) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, before) = std::mem::replace(&mut *to, (port, CancellationToken::new()));
        before.cancel();
    }
}
