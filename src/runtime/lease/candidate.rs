//! The decisions of one candidate: pure, with the time as a parameter.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::ObjectMeta;

use super::Times;

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the Lease.
    Read,
    /// Write it, to get it or to keep it.
    Write,
    /// Nothing before this moment, unless the Lease changes.
    Wait(Instant),
    /// Stop leading.
    Lost,
}

/// One candidate and what it knows.
#[derive(Debug)]
pub(super) struct Candidate {
    name: String,
    identity: String,
    times: Times,
    known: Known,
    /// The last record that differed from the one before, and when it was first seen. Outlives doubt and deletion.
    seen: Option<(LeaseSpec, Instant)>,
    /// Until when it leads without another renewal.
    held_until: Option<Instant>,
    /// Before then it asks for nothing.
    due: Option<Instant>,
    /// Whether it has written to the Lease and seen nobody else's record since.
    may_hold: bool,
    /// The uid of the Lease as last seen, to tell events about.
    uid: Option<String>,
}

/// The Lease as stored, as far as it is known.
#[derive(Debug)]
enum Known {
    Unread,
    Absent,
    Present(Box<Lease>),
}

impl Candidate {
    /// Makes a candidate for the Lease of this name that knows nothing yet.
    pub fn new(name: &str, identity: String, times: Times) -> Self {
        Self {
            name: name.to_owned(),
            identity,
            times,
            known: Known::Unread,
            seen: None,
            held_until: None,
            due: None,
            may_hold: false,
            uid: None,
        }
    }

    /// Who it is.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Until when it leads, if it does.
    pub fn held_until(&self) -> Option<Instant> {
        self.held_until
    }

    /// The version from which on changes of the Lease are of interest: those that somebody else may make.
    pub fn version(&self) -> Option<&str> {
        match &self.known {
            Known::Present(lease) if self.held_until.is_none() => {
                lease.metadata.resource_version.as_deref()
            }
            _ => None,
        }
    }

    /// Who holds the Lease as far as is known; empty when nobody does.
    pub fn holder(&self) -> Option<&str> {
        match &self.known {
            Known::Present(lease) => Some(holder(lease.spec.as_ref())),
            Known::Unread | Known::Absent => None,
        }
    }

    /// Whether the Lease may be its own, be it that it leads or that a write was not answered.
    pub fn may_hold(&self) -> bool {
        self.may_hold
    }

    /// The uid of the Lease, if one was seen.
    pub fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    /// Decides what to do now.
    pub fn decide(&self, now: Instant) -> Step {
        if let Some(until) = self.held_until {
            let is_taken = self
                .holder()
                .is_some_and(|holder| !holder.is_empty() && holder != self.identity);
            if now >= until || is_taken {
                return Step::Lost;
            }
        }
        if let Some(due) = self.due
            && now < due
        {
            return Step::Wait(self.held_until.map_or(due, |until| until.min(due)));
        }
        match &self.known {
            Known::Unread => Step::Read,
            // Deleted by hand, it is no less held: its holder makes it anew, and until it should have, nobody else does.
            Known::Absent | Known::Present(_) => match self.others_expiry() {
                Some(expiry) if now < expiry => Step::Wait(expiry),
                _ => Step::Write,
            },
        }
    }

    /// Until when the Lease is somebody else's.
    fn others_expiry(&self) -> Option<Instant> {
        let (spec, since) = self.seen.as_ref()?;
        let holder = holder(Some(spec));
        if self.held_until.is_some() || holder.is_empty() || holder == self.identity {
            return None;
        }
        let seconds = spec.lease_duration_seconds.and_then(|n| n.try_into().ok());
        Some(*since + seconds.map_or(self.times.duration, Duration::from_secs))
    }

    /// Takes over what the API server shows; `None` when there is no Lease.
    pub fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        self.due = None;
        let Some(lease) = lease else {
            self.known = Known::Absent;
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        self.may_hold &= holder(Some(&spec)) == self.identity;
        self.uid.clone_from(&lease.metadata.uid);
        if self.seen.as_ref().is_none_or(|(before, _)| *before != spec) {
            self.seen = Some((spec, now));
        }
        self.known = Known::Present(Box::new(lease));
    }

    /// Makes the Lease to write. What it was made from counts as unknown until [`Self::wrote`]: the outcome of a write that is not answered is.
    pub fn propose(&mut self, time: Timestamp) -> Lease {
        let mut lease = match std::mem::replace(&mut self.known, Known::Unread) {
            Known::Present(lease) => *lease,
            Known::Unread | Known::Absent => Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: None,
            },
        };
        let is_new = lease.spec.is_none();
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            let before = spec.lease_transitions.unwrap_or_default();
            spec.lease_transitions = Some(if is_new { 0 } else { before.saturating_add(1) });
            spec.acquire_time = Some(MicroTime(time));
            spec.holder_identity = Some(self.identity.clone());
        }
        spec.renew_time = Some(MicroTime(time));
        spec.lease_duration_seconds = Some(whole_seconds(self.times.duration));
        self.may_hold = true;
        lease
    }

    /// Takes over a successful write: as stored, when it was sent, and after which pause the next one is due.
    pub fn wrote(&mut self, lease: Lease, sent: Instant, now: Instant, pause: Duration) {
        self.saw(Some(lease), now);
        self.due = Some(sent + pause);
        // An answer that comes when the time is up does not turn it back.
        if self.held_until.is_none_or(|until| now < until) {
            self.held_until = Some(sent + self.times.renew);
        }
    }

    /// Takes over that a request failed, or that what is known may be old: it is read again, not before this moment.
    pub fn doubt(&mut self, again: Instant) {
        self.known = Known::Unread;
        self.due = Some(again);
    }

    /// Takes over that it leads no more.
    pub fn lost(&mut self) {
        self.held_until = None;
        self.known = Known::Unread;
        self.due = None;
    }

    /// Makes the Lease that gives it back; none when it is somebody else's or not known.
    pub fn release(&mut self, time: Timestamp) -> Option<Lease> {
        if self.holder() != Some(self.identity.as_str()) {
            return None;
        }
        let Known::Present(mut lease) = std::mem::replace(&mut self.known, Known::Unread) else {
            return None;
        };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        // The shortest that the API server accepts.
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(time));
        spec.acquire_time = Some(MicroTime(time));
        Some(*lease)
    }
}

fn holder(spec: Option<&LeaseSpec>) -> &str {
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// Rounds up, so that nobody waits less than the holder counts on.
fn whole_seconds(time: Duration) -> i32 {
    let rounded = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i32::try_from(rounded.max(1)).unwrap_or(i32::MAX)
}
