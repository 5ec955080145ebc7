//! The versions of our kinds on a real API server: nothing is lost between them, whoever writes.

mod apply;
mod cold;
pub mod endpoint;
mod objects;
mod round_trips;

use garm_operator_ground::harness::Suite;

pub use endpoint::converting;

/// Registers the tests of this module.
pub fn register(suite: &mut Suite) {
    round_trips::register(suite);
    apply::register(suite);
    cold::register(suite);
}
