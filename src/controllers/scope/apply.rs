//! Step 3: makes the calls.

use std::sync::Arc;

use crate::api::condition::reasons;
use crate::api::{event, meta};
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::domain::entity::DesiredEntity;
use crate::domain::scope::EntityKey;
use crate::garm;
use crate::garm::wire::EntityKind;

use super::observe::Observed;
use super::plan::Step;
use super::webhook::{Tries, act};

/// Makes one call and updates what is observed with its answer.
pub async fn execute(
    context: &Context,
    tries: &Tries,
    kind: EntityKind,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    match step {
        Step::Create(desired) => create(context, kind, observed, desired).await,
        Step::Adopt => {
            observed.is_new_to_us = false;
            Ok(Effect::told(
                event::INFO,
                format!("the {} exists in GARM and is adopted", kind.word()),
            ))
        }
        Step::Update {
            id,
            update,
            desired,
        } => {
            let answer = context
                .garm
                .update_entity(kind, id, update)
                .await
                .map_err(|error| Verdict::garm(&error))?;
            observed.pushed = desired.memory(&observed.hasher, &observed.uid, id);
            observed.actual = Some(Arc::new(answer));
            Ok(Effect::pushed(
                observed.pushed.clone(),
                event::UPDATING,
                format!("{} was changed in GARM", kind.word()),
            ))
        }
        Step::Webhook { id, action } => {
            let webhook = observed.webhook.get_or_insert_default();
            Ok(act(context, tries, &observed.uid, (kind, id), webhook, *action).await)
        }
        Step::Delete { id } => delete(context, tries, kind, observed, id).await,
    }
}

/// Deletes the entity, which GARM does only without pools and with a manager that runs.
async fn delete(
    context: &Context,
    tries: &Tries,
    kind: EntityKind,
    observed: &mut Observed,
    id: &str,
) -> Result<Effect, Verdict> {
    match context.garm.delete_entity(kind, id).await {
        Ok(()) | Err(garm::Error::NotFound) => {
            observed.actual = None;
            tries.forget(&observed.uid);
            Ok(Effect::default())
        }
        Err(garm::Error::BadRequest { details }) => Err(Verdict::Pace {
            reason: reasons::WAITING_FOR_DEPENDANTS,
            message: format!("GARM does not delete the {} yet: {details}", kind.word()),
            after: context.deletion_pace(),
        }),
        Err(garm::Error::Conflict { .. } | garm::Error::Unauthorized { .. }) => {
            Err(Verdict::Pace {
                reason: reasons::POOL_MANAGER_NOT_RUNNING,
                message: "GARM's pool manager does not run; deletion goes on when it does"
                    .to_owned(),
                after: context.deletion_pace(),
            })
        }
        Err(error) => Err(Verdict::garm(&error)),
    }
}

/// Makes the entity. GARM refuses a second one of the same key, so that "exists" leads to the one that is ours.
async fn create(
    context: &Context,
    kind: EntityKind,
    observed: &mut Observed,
    desired: &DesiredEntity,
) -> Result<Effect, Verdict> {
    match context.garm.create_entity(kind, &desired.create()).await {
        Ok(made) => {
            observed.pushed = desired.memory(&observed.hasher, &observed.uid, &made.id);
            observed.actual = Some(Arc::new(made));
            // A webhook of before belongs to an entity that is gone.
            let stale = observed
                .webhook
                .as_mut()
                .and_then(|webhook| webhook.ours.take());
            Ok(Effect {
                annotations: stale
                    .map(|_| (meta::WEBHOOK_ID, None))
                    .into_iter()
                    .collect(),
                ..Effect::made(
                    observed.pushed.clone(),
                    format!("{} was made in GARM", kind.word()),
                )
            })
        }
        Err(garm::Error::Conflict { .. }) => {
            let all = context
                .garm
                .list_entities(kind)
                .await
                .map_err(|error| Verdict::garm(&error))?;
            let found = all
                .into_iter()
                .find(|entity| observed.key.as_ref() == Some(&EntityKey::of(kind, entity)));
            let Some(found) = found else {
                return Err(Verdict::Failed {
                    reason: reasons::GARM_API_ERROR,
                    message: format!(
                        "GARM says that the {} exists but does not list it",
                        kind.word()
                    ),
                });
            };
            observed.actual = Some(Arc::new(found));
            // The next round adopts it.
            observed.is_new_to_us = true;
            Ok(Effect::default())
        }
        Err(error) => Err(Verdict::garm(&error)),
    }
}
