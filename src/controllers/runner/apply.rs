//! Step 3: makes the calls.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Preconditions};
use kube::{Resource, ResourceExt};

use crate::api::condition::reasons;
use crate::api::meta;
use crate::api::v1beta1::{Pool, Runner};
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::controllers::reaper::{Asked, Reaper};
use crate::garm;
use crate::runtime::ObjectKey;
use crate::runtime::client::explain;
use crate::runtime::meta::remove_finalizer;

use super::observe::Observed;
use super::plan::Step;

/// Renders the object of an instance, complete but for its status: a crash after the creation leaves nothing to add.
pub fn object(key: &ObjectKey, pool: &Pool) -> Runner {
    let uid = pool.uid().unwrap_or_default();
    let name = pool.name_any();
    let mut labels = BTreeMap::from([(meta::POOL_UID.to_owned(), uid.clone())]);
    if name.len() <= meta::LABEL_VALUE_MAX {
        labels.insert(meta::POOL_NAME.to_owned(), name.clone());
    }
    let owner = OwnerReference {
        api_version: meta::API_VERSION.to_owned(),
        kind: Pool::kind(&()).into_owned(),
        name,
        uid,
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    Runner {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            labels: Some(labels),
            finalizers: Some(vec![meta::FINALIZER_RUNNER.to_owned()]),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        ..Runner::default()
    }
}

/// Makes one call and updates what is observed with its answer.
pub async fn execute(
    context: &Context,
    reaper: &Reaper,
    object: &Runner,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    match step {
        Step::Remove { name, force } => {
            observed.asked = true;
            match reaper.remove(name, *force).await {
                Ok(Asked::Gone) => observed.instance = None,
                Ok(Asked::Sent | Asked::UnderWay | Asked::NotNow | Asked::Busy) => {}
                Err(garm::Error::Unauthorized { .. } | garm::Error::Conflict { .. }) => {
                    return Err(Verdict::Pace {
                        reason: reasons::POOL_MANAGER_NOT_RUNNING,
                        message: "GARM cannot remove the runner, since GitHub refuses its credentials or the pool manager does not run".to_owned(),
                        after: context.deletion_pace(),
                    });
                }
                Err(error) => return Err(Verdict::garm(&error)),
            }
            Ok(Effect::default())
        }
        Step::Drop => drop_object(context, object).await,
    }
}

/// Removes the object without touching the instance: finalizer first, so that no terminating pass follows.
async fn drop_object(context: &Context, object: &Runner) -> Result<Effect, Verdict> {
    let api = context.api::<Runner>(&object.metadata);
    let failed = |error: kube::Error| match error {
        kube::Error::Api(status) if status.code == 409 => Verdict::Stale,
        error => Verdict::Failed {
            reason: reasons::RECONCILE_ERROR,
            message: format!("removing the Runner object failed: {}", explain(&error)),
        },
    };
    remove_finalizer(&api, &object.metadata, meta::FINALIZER_RUNNER)
        .await
        .map_err(failed)?;
    let only_this = DeleteParams {
        preconditions: Some(Preconditions {
            uid: object.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(&object.name_any(), &only_this).await {
        Ok(_) => Ok(Effect {
            gone: true,
            ..Effect::default()
        }),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Effect {
            gone: true,
            ..Effect::default()
        }),
        Err(error) => Err(failed(error)),
    }
}
