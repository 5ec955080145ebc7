//! What the process tells of itself: metrics, probes, diagnosis.

mod debug;
mod garm;
mod names;
mod queries;
pub mod scrape;
mod state;
mod vital;

use anyhow::Result;
use garm_operator_ground::harness::Suite;
use garm_operator_ground::{Operator, proxy::Recorded};

/// Registers the tests of this folder.
pub fn register(suite: &mut Suite) {
    names::register(suite);
    garm::register(suite);
    state::register(suite);
    vital::register(suite);
    debug::register(suite);
}

/// What the probe port answers to a GET.
pub async fn probe(operator: &Operator, path: &str) -> Result<(u16, String)> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let answer = http.get(operator.health_url(path)).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// Whether a request to GARM asks for an answer; the events socket stays open instead.
fn is_call(request: &Recorded) -> bool {
    request.route != "GET /ws/events"
}
