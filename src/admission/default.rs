//! Fills in what the manifest of a Pool leaves out.

use serde_json::json;

use super::outcome::{Outcome, Stop};
use super::review::Request;
use crate::domain::defaults::PoolDefaults;

/// Answers with a patch of the fields that are absent; what is there stays as it was written, also where it makes no sense.
pub fn fill_in(defaults: &PoolDefaults, request: &Request<'_>) -> Result<Outcome, Stop> {
    let Some(spec) = request.spec()? else {
        return Ok(Outcome::allowed());
    };
    let patch = defaults.patch(&json!({"spec": spec}));
    Ok(if patch.is_empty() {
        Outcome::allowed()
    } else {
        Outcome::patched(&patch.into())
    })
}
