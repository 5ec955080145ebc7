//! One life of an object of each kind, during which the operator is killed once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use garm_operator_ground::{
    Operator,
    poll::Patience,
    proxy::{Fault, Matcher, Proxy, Release, Rule},
};
use serde_json::{Value, json};

use crate::{
    BOUND,
    checks::Checks,
    documents::{objects, secrets},
    points::{Moment, Point, Target},
    stage::Stage,
};

/// What came of a life in which nothing was violated.
#[derive(Debug)]
pub struct Done {
    /// The request at which the operator was killed; nothing when there were fewer.
    pub killed_at: Option<String>,
    /// How many objects the user created, changed or deleted.
    pub operations: usize,
    /// How many invariants were looked at.
    pub checks: usize,
}

/// Creates, changes and deletes an object of each kind while the operator is killed at the point and started again.
pub async fn run(stage: &Stage<'_>, point: Point) -> Result<Done> {
    let namespace = stage.plane.create_namespace("faults").await?;
    let checks = Checks::default();
    let (proxy, release) = (proxy_of(stage, point), Release::new());
    let mark = proxy.mark();
    let fault = match point.moment {
        Moment::Before => Fault::Blackhole,
        Moment::After => Fault::HoldAnswer(release.clone()),
    };
    let rule = proxy.rule(Matcher::any().skip(point.number).times(1), fault);
    let mut operators = vec![stage.command(&namespace).start()?];

    let over = AtomicBool::new(false);
    let user = async {
        let result = live(stage, &namespace, &checks).await;
        over.store(true, Ordering::SeqCst);
        result
    };
    let crash = async {
        if reached(point, &rule, &release, &over).await? {
            if let Some(first) = operators.first_mut() {
                first.kill().await?;
            }
            operators.push(stage.command(&namespace).start()?);
        }
        anyhow::Ok(())
    };
    let (lived, crashed) = tokio::join!(user, crash);
    rule.remove();
    release.release();
    let killed_at = match rule.hits() {
        0 => None,
        _ => proxy.look(mark, |requests| {
            Some(requests.get(point.number)?.route.clone())
        }),
    };
    let operations = lived.and_then(|operations| crashed.map(|()| operations));
    let operations = operations.with_context(|| {
        let logs: Vec<String> = operators.iter().map(last_lines).collect();
        format!(
            "killed at {killed_at:?}; the logs end so:\n{}",
            logs.join("\n---\n")
        )
    })?;

    for operator in &operators {
        let log = operator.stderr();
        checks.that(!log.contains("panicked"), || format!("a panic:\n{log}"))?;
        checks.no_secret(stage, "the log", &log)?;
    }
    for mut operator in operators {
        operator.terminate(Duration::from_secs(15)).await?;
    }
    stage
        .kubectl(&namespace, &["delete", "secret", "--all"], "")
        .await?;
    Ok(Done {
        killed_at,
        operations,
        checks: checks.count(),
    })
}

/// Waits for the point, and answers whether it came before the life was over.
async fn reached(point: Point, rule: &Rule, release: &Release, over: &AtomicBool) -> Result<bool> {
    let patience = Patience::new(BOUND * 4, "the life to end");
    while rule.hits() == 0 {
        if over.load(Ordering::SeqCst) {
            return Ok(false);
        }
        patience.pause("it goes on").await?;
    }
    if point.moment == Moment::After {
        tokio::time::timeout(BOUND, release.holding())
            .await
            .context("the server did not answer the request to be killed at")?;
    }
    Ok(true)
}

fn proxy_of<'a>(stage: &'a Stage<'_>, point: Point) -> &'a Proxy {
    match point.target {
        Target::Garm => stage.garm.proxy(),
        Target::Kubernetes => &stage.kube,
    }
}

fn last_lines(operator: &Operator) -> String {
    let log = operator.stderr();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// What the user does and sees; answers how many objects were created, changed or deleted.
async fn live(stage: &Stage<'_>, namespace: &str, checks: &Checks) -> Result<usize> {
    let (secrets, made, changed) = (secrets(), objects(stage, 0), objects(stage, 1));
    apply(stage, namespace, &[secrets.as_slice(), &made].concat()).await?;
    checks.alive(stage, namespace, 0).await.context("created")?;

    apply(stage, namespace, &changed).await?;
    checks.alive(stage, namespace, 1).await.context("changed")?;

    let all = ["delete", "garm", "--all", "--wait=false"];
    let said = stage.kubectl(namespace, &all, "").await?;
    let deleted = said.lines().count();
    ensure!(deleted == changed.len(), "kubectl deleted: {said}");
    checks.gone(stage, namespace).await.context("deleted")?;
    Ok(secrets.len() + made.len() + changed.len() + deleted)
}

async fn apply(stage: &Stage<'_>, namespace: &str, documents: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    stage
        .kubectl(namespace, &["apply", "-f", "-"], &list.to_string())
        .await
        .map(drop)
}
