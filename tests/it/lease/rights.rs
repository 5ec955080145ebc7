//! What rights the Lease takes, and what happens without them.

use anyhow::{Result, ensure};
use garm_operator_ground::Ground;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::poll::{Seen, poll_until};
use garm_operator_ground::proxy::{Fault, Matcher, Recorded};
use garm_operator_ground::servers::GarmVersion;
use http::StatusCode;
use serde_json::json;

use super::Replica;
use crate::world::{SOON, World, condition, told};

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    suite.test("a_lease_that_may_not_be_used_is_told_once", forbidden);
    suite.test("rights_to_one_lease_by_name_are_enough", few_rights);
}

/// What the operator's own namespace has to grant.
const RIGHTS: &str = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader-election}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [b608d8b3.mercedes-benz.com], verbs: [get, update, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader-election}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader-election}
subjects: [{kind: ServiceAccount, name: operator}]
";

async fn forbidden(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    let kube = world.plane.proxy().await?;
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "leases.coordination.k8s.io is forbidden",
    });
    let refused = kube.rule(
        Matcher::any().path_contains("/leases"),
        Fault::Status {
            code: StatusCode::FORBIDDEN,
            body: refusal.to_string(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
        },
    );
    let replica = Replica::start_by(&world, kube).await?;
    poll_until(SOON, "four tries", async || {
        Ok(Seen::when(refused.hits(), |hits| *hits >= 4))
    })
    .await?;
    let log = replica.operator.stderr();
    ensure!(
        log.matches("the Lease may not be used; grant").count() == 1,
        "{log}"
    );
    ensure!(replica.deeds(0, 0).is_empty(), "it worked all the same");
    refused.remove();
    replica.wait_leads(true).await?;
    world.apply(&world.manifests()).await?;
    let pool = world.wait_ready("pool", "small").await?;
    ensure!(condition(&pool, "Ready")["status"] == "True", "{pool}");
    ensure!(
        replica
            .operator
            .stderr()
            .contains("the Lease can be used again"),
        "its return is not told"
    );
    world.finish(replica.operator).await
}

async fn few_rights(ground: &Ground) -> Result<()> {
    let world = World::new(ground, GarmVersion::V0_2_1).await?;
    world.kubectl(&["apply", "-f", "-"], RIGHTS).await?;
    let token = world.kubectl(&["create", "token", "operator"], "").await?;
    let mut replicas = Vec::new();
    for leads in [true, false] {
        let kube = world.plane.proxy_as(token.trim()).await?;
        let replica = Replica::start_by(&world, kube).await?;
        if leads {
            replica.wait_leads(true).await?;
        } else {
            replica.wait_log("another replica leads").await?;
            poll_until(SOON, "it watches the Lease", async || {
                let requests = replica.kube.requests();
                let watches = |one: &&Recorded| {
                    one.path.contains("/leases") && one.query.contains("watch=true")
                };
                let statuses: Vec<_> = requests
                    .iter()
                    .filter(watches)
                    .map(|one| one.status)
                    .collect();
                Ok(Seen::when(statuses, |all| all.contains(&Some(200))).map(drop))
            })
            .await?;
        }
        replicas.push(replica);
    }
    for replica in replicas {
        let mut refused = replica.kube.requests();
        refused.retain(|one| {
            let is_ours = one.path.contains("/leases") || one.path.contains("/events");
            is_ours && one.status == Some(403)
        });
        ensure!(refused.is_empty(), "{:?}", told(&refused));
        world.finish(replica.operator).await?;
    }
    Ok(())
}
