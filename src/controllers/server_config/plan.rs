//! Step 2: decides. Pure.

use crate::api::condition::reasons;
use crate::controllers::driver::{Change, Plan, Verdict, change};
use crate::domain::server_config::diff;
use crate::garm::wire::UpdateController;

use super::observe::Observed;

/// One call to GARM.
#[derive(Clone, Debug)]
pub enum Step {
    /// PUT the settings that differ.
    Update(UpdateController),
}

impl Step {
    /// Says what it would change in GARM.
    pub fn changes(&self, observed: &Observed) -> Vec<Change> {
        let Self::Update(update) = self;
        change::update(&UpdateController::of(&observed.actual), update)
    }
}

/// Decides what brings GARM to what the object wants. Settings that the object leaves out are not managed.
pub fn plan(observed: &Observed) -> Plan<Step> {
    if let Some(owner) = observed.claim.other() {
        return Plan::idle(Verdict::Waiting {
            reason: reasons::SUPERSEDED,
            message: format!(
                "GARM has one set of settings, and the older GarmServerConfig {owner} gives them; delete one of the two"
            ),
        });
    }
    match diff(&observed.spec, &observed.actual) {
        Err(message) => Plan::idle(Verdict::Invalid { message }),
        Ok(update) if update.is_empty() => Plan::idle(Verdict::Ready),
        Ok(update) => Plan::with(vec![Step::Update(update)], Verdict::Ready),
    }
}

#[cfg(test)]
mod tests;
