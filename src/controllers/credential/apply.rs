//! Step 3: makes the calls.

use std::sync::Arc;

use crate::api::condition::reasons;
use crate::api::event;
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::garm;
use crate::garm::wire::Credential;

use super::observe::Observed;
use super::plan::Step;

/// Makes one call and updates what is observed with its answer.
pub async fn execute(
    context: &Context,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    match step {
        Step::Create(desired) => match context.garm.create_credential(&desired.create()).await {
            Ok(made) => {
                observed.pushed = desired.memory(&observed.hasher, &observed.uid, &made);
                observed.actual = Some(Arc::new(made));
                Ok(Effect::made(
                    observed.pushed.clone(),
                    "credentials were made in GARM",
                ))
            }
            Err(garm::Error::Conflict { .. }) => {
                // Somebody made them meanwhile: the next round compares, and sends the secret, of which nothing is known.
                observed.actual = Some(find(context, &observed.name).await?);
                Ok(Effect::told(
                    event::INFO,
                    "credentials of this name exist in GARM and are taken over",
                ))
            }
            Err(error) => Err(Verdict::garm(&error)),
        },
        Step::Update {
            id,
            update,
            desired,
        } => {
            let answer = context
                .garm
                .update_credential(*id, update)
                .await
                .map_err(|error| Verdict::garm(&error))?;
            observed.pushed = desired.memory(&observed.hasher, &observed.uid, &answer);
            observed.actual = Some(Arc::new(answer));
            Ok(Effect::pushed(
                observed.pushed.clone(),
                event::UPDATING,
                "credentials were changed in GARM",
            ))
        }
        Step::Delete { id } => match context.garm.delete_credential(*id).await {
            Ok(()) | Err(garm::Error::NotFound) => {
                observed.actual = None;
                Ok(Effect::default())
            }
            Err(garm::Error::BadRequest { details }) => Err(Verdict::Pace {
                reason: reasons::WAITING_FOR_DEPENDANTS,
                message: format!(
                    "GARM does not delete the credentials yet, since something uses them: {details}"
                ),
                after: context.deletion_pace(),
            }),
            Err(error) => Err(Verdict::garm(&error)),
        },
    }
}

async fn find(context: &Context, name: &str) -> Result<Arc<Credential>, Verdict> {
    let all = context
        .garm
        .list_credentials()
        .await
        .map_err(|error| Verdict::garm(&error))?;
    all.into_iter()
        .find(|credential| credential.name.eq_ignore_ascii_case(name))
        .map(Arc::new)
        .ok_or_else(|| Verdict::Failed {
            reason: reasons::GARM_API_ERROR,
            message: format!("GARM says that credentials {name:?} exist but does not list them"),
        })
}
