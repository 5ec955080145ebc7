//! Step 3: makes the calls.

use std::sync::Arc;

use crate::api::condition::reasons;
use crate::api::event;
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::domain::endpoint::BUILT_IN;
use crate::domain::pushed::Pushed;
use crate::garm;

use super::observe::Observed;
use super::plan::Step;

/// Makes one call and updates what is observed with its answer.
pub async fn execute(
    context: &Context,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    match step {
        Step::Create(desired) => match context.garm.create_endpoint(&desired.create()).await {
            Ok(made) => {
                observed.actual = Some(Arc::new(made));
                Ok(Effect::made(Pushed::default(), "endpoint was made in GARM"))
            }
            Err(garm::Error::Conflict { .. }) => {
                // Somebody made it meanwhile: the next round compares. Nothing was pushed.
                let found = context.garm.read_endpoint(&observed.name).await;
                observed.actual = Some(Arc::new(found.map_err(|error| Verdict::garm(&error))?));
                Ok(Effect::told(
                    event::INFO,
                    "an endpoint of this name exists in GARM and is taken over",
                ))
            }
            Err(error) => Err(Verdict::garm(&error)),
        },
        Step::Update(update) => match context.garm.update_endpoint(&observed.name, update).await {
            Ok(answer) => {
                observed.actual = Some(Arc::new(answer));
                Ok(Effect::pushed(
                    Pushed::default(),
                    event::UPDATING,
                    "endpoint was changed in GARM",
                ))
            }
            Err(error) => Err(refused(context, &observed.name, &error)),
        },
        Step::Delete => match context.garm.delete_endpoint(&observed.name).await {
            Ok(()) | Err(garm::Error::NotFound) => {
                observed.actual = None;
                Ok(Effect::default())
            }
            // v0.1.5 answers 500 for an endpoint in use.
            Err(garm::Error::BadRequest { details } | garm::Error::Server { details, .. }) => {
                Err(Verdict::Pace {
                    reason: reasons::WAITING_FOR_DEPENDANTS,
                    message: format!(
                        "GARM does not delete the endpoint yet, since something uses it: {details}"
                    ),
                    after: context.deletion_pace(),
                })
            }
            Err(error) => Err(Verdict::garm(&error)),
        },
    }
}

/// GARM 0.1 refuses to change the endpoint that it made itself, GARM 0.2 the URLs of one that has credentials.
fn refused(context: &Context, name: &str, error: &garm::Error) -> Verdict {
    if !matches!(error, garm::Error::BadRequest { .. }) {
        return Verdict::garm(error);
    }
    let credentials = context.garm.credentials();
    if credentials
        .iter()
        .any(|credential| credential.endpoint.eq_ignore_ascii_case(name))
    {
        return Verdict::Failed {
            reason: reasons::ENDPOINT_IN_USE,
            message: format!(
                "GARM refuses the change, most likely because credentials use the endpoint: {error}"
            ),
        };
    }
    if name.eq_ignore_ascii_case(BUILT_IN) {
        return Verdict::Failed {
            reason: reasons::GARM_API_ERROR,
            message: format!(
                "GARM refuses the change, most likely because this version does not let its built-in endpoint be changed; describe it as GARM has it: {error}"
            ),
        };
    }
    Verdict::garm(error)
}
