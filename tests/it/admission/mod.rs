//! What the API server lets in while it asks the operator.

mod away;
mod folders;
mod reach;
mod refusals;
mod warnings;

use std::process::Output;

use anyhow::{Result, ensure};
use garm_operator_ground::harness::Suite;

use crate::documents::join;
use crate::place::Place;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    refusals::register(suite);
    warnings::register(suite);
    away::register(suite);
    folders::register(suite);
    reach::register(suite);
}

/// Runs kubectl in the namespace of a test, whatever comes of it.
async fn kubectl(place: &Place<'_>, arguments: &[&str], input: &str) -> Result<Output> {
    let mut all = vec!["-n", place.namespace.as_str()];
    all.extend(arguments);
    place.plane.kubectl_with_input(&all, input).await
}

/// What kubectl writes to standard error.
fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned()
}

/// Runs kubectl and demands that it fails with exactly this text; `{namespace}` stands for the test's.
async fn ensure_refused(
    place: &Place<'_>,
    arguments: &[&str],
    documents: &[String],
    expected: &str,
) -> Result<()> {
    let output = kubectl(place, arguments, &join(documents)).await?;
    let (told, expected) = (
        told(&output),
        expected.replace("{namespace}", &place.namespace),
    );
    ensure!(!output.status.success(), "accepted, instead of: {expected}");
    ensure!(
        told == expected,
        "kubectl {arguments:?} says\n{told}\n--- and not\n{expected}"
    );
    Ok(())
}
