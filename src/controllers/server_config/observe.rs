//! Step 1: reads the store and the mirror.

use std::sync::Arc;

use crate::api::condition::reasons;
use crate::api::v1beta1::{GarmServerConfig, GarmServerConfigSpec};
use crate::controllers::Context;
use crate::controllers::driver::Verdict;
use crate::domain::ownership::{Claim, claim};
use crate::garm::wire;

/// What a pass knows.
pub struct Observed {
    /// Whether this object is the one that counts.
    pub claim: Claim,
    /// What the object wants.
    pub spec: GarmServerConfigSpec,
    /// GARM's settings.
    pub actual: Arc<wire::Controller>,
}

/// Reads what a plan needs.
pub fn observe(context: &Context, object: &GarmServerConfig) -> Result<Observed, Verdict> {
    let Some(actual) = context.garm.controller() else {
        return Err(Verdict::Waiting {
            reason: reasons::WAITING_FOR_GARM,
            message: "GARM's settings have not been read yet".to_owned(),
        });
    };
    let all = context.hubs.server_configs.all();
    Ok(Observed {
        claim: claim(&object.metadata, all.iter().map(|other| &other.metadata)),
        spec: object.spec.clone(),
        actual,
    })
}
