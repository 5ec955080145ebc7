//! Behaviour on real servers: a real kube-apiserver and a real GARM, with fakes only for GitHub and the cloud provider.
//!
//! The binary brings the control plane up once, gives each test a namespace and a GARM of its own, and is itself the provider and the guard
//! that these servers need.

mod documents;
mod hooks;
mod place;
mod records;
mod world;

mod admission;
mod at_once;
mod certificates;
mod changes;
mod comparison;
mod conversion;
mod crash;
mod defaults;
mod deletion;
mod departed;
mod duplicates;
mod endpoints;
mod entities;
mod equal_pools;
mod everything;
mod faults;
mod fresh;
mod guide;
mod ids;
mod input;
mod install;
mod kinds;
mod lag;
mod leaks;
mod lease;
mod leftovers;
mod lists;
mod lives;
mod main_path;
mod making;
mod many;
mod memory;
mod metrics;
mod moving;
mod ownership;
mod planes;
mod process;
mod reach;
mod recovery;
mod refusals;
mod remains;
mod rest;
mod rights;
mod rows;
mod runner_rows;
mod runners;
mod scaling;
mod secrets;
mod sockets;
mod startup;
mod statuses;
mod undecodable;
mod vanished;
mod webhook;

use std::process::ExitCode;

use garm_operator_ground::harness::Suite;

fn main() -> ExitCode {
    garm_operator_ground::entry();
    let mut suite = Suite::new();
    // The longest first: the others run beside it.
    rest::register(&mut suite);
    guide::register(&mut suite);
    certificates::register(&mut suite);
    admission::register(&mut suite);
    at_once::register(&mut suite);
    changes::register(&mut suite);
    comparison::register(&mut suite);
    conversion::register(&mut suite);
    crash::register(&mut suite);
    defaults::register(&mut suite);
    deletion::register(&mut suite);
    duplicates::register(&mut suite);
    endpoints::register(&mut suite);
    entities::register(&mut suite);
    equal_pools::register(&mut suite);
    everything::register(&mut suite);
    faults::register(&mut suite);
    fresh::register(&mut suite);
    ids::register(&mut suite);
    input::register(&mut suite);
    install::register(&mut suite);
    kinds::register(&mut suite);
    lag::register(&mut suite);
    leaks::register(&mut suite);
    lease::register(&mut suite);
    leftovers::register(&mut suite);
    lists::register(&mut suite);
    lives::register(&mut suite);
    main_path::register(&mut suite);
    making::register(&mut suite);
    many::register(&mut suite);
    memory::register(&mut suite);
    metrics::register(&mut suite);
    moving::register(&mut suite);
    ownership::register(&mut suite);
    planes::register(&mut suite);
    process::register(&mut suite);
    reach::register(&mut suite);
    recovery::register(&mut suite);
    refusals::register(&mut suite);
    remains::register(&mut suite);
    rights::register(&mut suite);
    rows::register(&mut suite);
    runner_rows::register(&mut suite);
    runners::register(&mut suite);
    scaling::register(&mut suite);
    secrets::register(&mut suite);
    sockets::register(&mut suite);
    startup::register(&mut suite);
    statuses::register(&mut suite);
    undecodable::register(&mut suite);
    vanished::register(&mut suite);
    departed::register(&mut suite);
    webhook::register(&mut suite);
    suite.run()
}
