//! Step 3: makes the call.

use std::sync::Arc;

use crate::api::event;
use crate::controllers::Context;
use crate::controllers::driver::{Effect, Verdict};
use crate::domain::pushed::Pushed;

use super::observe::Observed;
use super::plan::Step;

/// Makes one call and updates what is observed with its answer, which lacks the host name.
pub async fn execute(
    context: &Context,
    observed: &mut Observed,
    step: &Step,
) -> Result<Effect, Verdict> {
    let Step::Update(update) = step;
    let mut answer = context
        .garm
        .update_controller(update)
        .await
        .map_err(|error| Verdict::garm(&error))?;
    if answer.hostname.is_empty() {
        answer.hostname.clone_from(&observed.actual.hostname);
    }
    observed.actual = Arc::new(answer);
    Ok(Effect::pushed(
        Pushed::default(),
        event::UPDATING,
        "GARM's settings were changed",
    ))
}
