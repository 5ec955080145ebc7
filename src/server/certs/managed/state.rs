//! What the Secret holds, and what is to be done about it. Everything here is pure.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

use super::authority::{Anchor, Ca};

const CURRENT_CERTIFICATE: &str = "current.crt";
const CURRENT_KEY: &str = "current.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";

/// All keys of the Secret that are ours.
const KEYS: [&str; 5] = [
    CURRENT_CERTIFICATE,
    CURRENT_KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    PREVIOUS_CERTIFICATE,
];

/// What a Secret holds, by key.
pub type Data = BTreeMap<String, ByteString>;

/// Our CAs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The one that signs.
    pub current: Option<Ca>,
    /// The one that signs next: it is made known first, so that nobody meets a certificate of a CA that is not trusted yet.
    pub next: Option<Ca>,
    /// The one that signed before: replicas that have not looked since still show certificates of it.
    pub previous: Option<Anchor>,
}

impl State {
    /// Reads a Secret. What is unusable counts as absent, and is told.
    pub fn read(data: &Data) -> (Self, Vec<String>) {
        let mut told = Vec::new();
        let text = |key: &str| data.get(key).map_or(&[][..], |bytes| &bytes.0);
        let mut ca = |name: &str, certificate: &str, key: &str| {
            if !data.contains_key(certificate) && !data.contains_key(key) {
                return None;
            }
            Ca::from_pem(text(certificate), text(key))
                .map_err(|error| told.push(format!("{name}: {error}")))
                .ok()
        };
        let current = ca("current", CURRENT_CERTIFICATE, CURRENT_KEY);
        let next = ca("next", NEXT_CERTIFICATE, NEXT_KEY);
        let mut previous = None;
        if data.contains_key(PREVIOUS_CERTIFICATE) {
            previous = Anchor::from_pem(text(PREVIOUS_CERTIFICATE))
                .map_err(|error| told.push(format!("previous: {error}")))
                .ok();
        }
        if current.is_none() {
            // A CA that has lost its key has certificates about.
            previous = Anchor::from_pem(text(CURRENT_CERTIFICATE))
                .ok()
                .or(previous);
        }
        let state = Self {
            current,
            next,
            previous,
        };
        (state, told)
    }

    /// Writes the keys of ours into what a Secret holds; other keys stay.
    pub fn write(&self, data: &Data) -> Data {
        let mut data = data.clone();
        data.retain(|key, _| !KEYS.contains(&key.as_str()));
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        for (ca, certificate, key) in [
            (&self.current, CURRENT_CERTIFICATE, CURRENT_KEY),
            (&self.next, NEXT_CERTIFICATE, NEXT_KEY),
        ] {
            if let Some(ca) = ca {
                put(certificate, &ca.anchor.to_pem());
                put(key, ca.key_pem());
            }
        }
        if let Some(previous) = &self.previous {
            put(PREVIOUS_CERTIFICATE, &previous.to_pem());
        }
        data
    }

    /// Fills in from what was last known where the Secret has lost the CA that signs.
    #[must_use]
    pub fn or_known(mut self, known: Option<&Self>, now: Timestamp) -> Self {
        let Some(known) = known else { return self };
        let lost = self.current.is_none();
        if let Some(current) = &known.current
            && lost
            && !current.anchor.is_expired(now)
        {
            self.current = Some(current.clone());
            self.next = self.next.or_else(|| known.next.clone());
            let previous = self.previous.filter(|anchor| *anchor != current.anchor);
            self.previous = previous.or_else(|| known.previous.clone());
        }
        self
    }

    /// Lists every CA whose certificates may be about, as PEM for `caBundle`. The order is such that promoting the next CA changes nothing: each
    /// change of a CRD ends the watches of everybody.
    pub fn bundle(&self) -> String {
        let (current, next) = (self.current.as_ref(), self.next.as_ref());
        let current = current.map(|ca| &ca.anchor);
        let next = next.map(|ca| &ca.anchor);
        let all = [self.previous.as_ref(), current, next];
        let mut all: Vec<&Anchor> = all.into_iter().flatten().collect();
        all.sort_by_key(|anchor| anchor.not_after);
        all.dedup();
        let mut bundle = String::new();
        for anchor in all {
            // Writing into a string does not fail.
            let _ = write!(bundle, "{}", anchor.to_pem());
        }
        bundle
    }

    /// Carries out a step; `fresh` is the new CA of [`Step::Begin`] and [`Step::Prepare`].
    #[must_use]
    pub fn after(mut self, step: Step, fresh: Option<Ca>, now: Timestamp) -> Self {
        if step != Step::Rest {
            // Not as soon as it ends: together with another change, that is one write of the bundle less.
            self.previous = self.previous.filter(|anchor| !anchor.is_expired(now));
        }
        match step {
            Step::Rest => {}
            Step::Begin => {
                let old = self.current.map(|ca| ca.anchor);
                self.previous = old
                    .filter(|anchor| !anchor.is_expired(now))
                    .or(self.previous);
                self.current = fresh;
            }
            Step::Prepare => self.next = fresh,
            Step::Promote => {
                self.previous = self.current.map(|ca| ca.anchor).or(self.previous);
                self.current = self.next.take();
            }
        }
        self
    }
}

/// How long CAs of ours live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// A CA.
    pub ca: Duration,
    /// A server certificate.
    pub leaf: Duration,
    /// How long a bundle with the next CA is stored before that one signs: longer than any replica or API server takes to see a change.
    pub step: Duration,
}

impl Lifetimes {
    /// How long before its end a CA is replaced: a third of its life, and never too late for a step that is held up.
    fn lead(&self) -> Duration {
        (self.ca / 3).max(self.step * 3)
    }
}

/// What happens to our CAs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// There is no CA that works: make one that signs at once.
    Begin,
    /// The current CA ends soon: make the next one, and make it known.
    Prepare,
    /// The next CA is known to everybody: let it sign.
    Promote,
}

/// Decides the next step. `stored_for` is how long the bundle of `state` has been stored everywhere without a break, as far as we see; `None` when it
/// is not.
pub fn decide(
    state: &State,
    stored_for: Option<Duration>,
    now: Timestamp,
    lifetimes: &Lifetimes,
) -> Step {
    let is_good = |ca: &&Ca| !ca.anchor.is_expired(now);
    let next = state.next.as_ref().filter(is_good);
    let Some(current) = state.current.as_ref().filter(is_good) else {
        // Nothing is lost by a CA that is not known yet where no other works.
        return if next.is_some() {
            Step::Promote
        } else {
            Step::Begin
        };
    };
    let left = now.duration_until(current.anchor.not_after);
    let lead = SignedDuration::try_from(lifetimes.lead()).unwrap_or(SignedDuration::MAX);
    let step = SignedDuration::try_from(lifetimes.step).unwrap_or(SignedDuration::MAX);
    // A step that began anew too often is cut short: others have to look before the current CA ends.
    let is_known = stored_for.is_some_and(|time| time >= lifetimes.step || left <= step);
    match next {
        None if left <= lead => Step::Prepare,
        Some(_) if is_known => Step::Promote,
        _ => Step::Rest,
    }
}

#[cfg(test)]
mod tests;
