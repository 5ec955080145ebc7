//! Leader election over a Lease, as client-go does it: of several replicas one works, and another takes over when it goes.
//!
//! [`candidate`] decides and is pure; [`elector`] asks the API server, publishes the outcome as [`Leadership`], and gives the Lease back at the
//! end. Who leads holds a [`Term`], which ends by itself with the clock: a process that was frozen past its Lease begins nothing more, even
//! before it has heard that another one leads.
//!
//! At most one replica acts at a time, since all replacing of the Lease is by its resource version: who takes it over has seen it unchanged for
//! its whole duration, and whoever held it counts from the *sending* of its last successful renewal and stops earlier, after the renew deadline.
//! Only the rates of clocks matter, never what they show. Two things stand outside of that: calls that were under way when a term ended, and a
//! Lease that somebody deletes by hand just as a new replica starts.

mod candidate;
mod elector;
mod term;
mod view;

#[cfg(test)]
mod candidate_test;

use std::time::Duration;

pub use elector::Elector;
pub use term::{Grace, Leadership, Term, each_term};
pub use view::{Standing, View};

/// The times of an election. `renew` has to be shorter than `duration`: the difference is what calls under way get when a term ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long others wait for a renewal before they take the Lease over. Stored in whole seconds, rounded up.
    pub duration: Duration,
    /// How long a leader works without a successful renewal.
    pub renew: Duration,
    /// Between two renewals, and longest pause before a failed request is made again.
    pub retry: Duration,
    /// How long the end of the process waits for the Lease to be given back.
    pub release: Duration,
}

/// Makes the name of this candidate: the host's, which is the pod's, and a random part, so that a restarted pod is another candidate.
pub fn identity() -> String {
    // Without such a file the random part alone tells candidates apart.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "garm-operator",
        host => host,
    };
    format!("{host}_{:032x}", rand::random::<u128>())
}
