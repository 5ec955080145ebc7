//! The ground's own tests, on the ground.

mod garm;
mod guard;
mod kubernetes;
mod operator;
mod proxy;

use std::process::ExitCode;

use garm_operator_ground::harness::Suite;

fn main() -> ExitCode {
    garm_operator_ground::entry();
    guard::play_role();
    operator::play_role();
    let mut suite = Suite::new();
    garm::add(&mut suite);
    guard::add(&mut suite);
    kubernetes::add(&mut suite);
    operator::add(&mut suite);
    proxy::add(&mut suite);
    suite.run()
}
