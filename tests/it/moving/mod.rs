//! A fleet that runs already comes under the operator, and no runner notices.

mod adoption;
mod diff;
mod export;
mod fleet;
mod from_go;
mod tool;

use garm_operator_ground::harness::Suite;

/// Registers the tests of this folder.
pub fn register(suite: &mut Suite) {
    export::register(suite);
    adoption::register(suite);
    diff::register(suite);
    from_go::register(suite);
}
