//! What the pieces of a pipeline hand to each other: verdicts, plans, effects.

use std::time::Duration;

use crate::api::condition::{Truth, reasons};
use crate::api::event;
use crate::domain::pushed::Pushed;
use crate::garm;

/// Longest pause that a rate limit asks for and gets.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How an object stands when a pass has done all it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as the spec says.
    Ready,
    /// Something that is watched has to come, change or go first. No event, no back-off: the watch ends the wait.
    Waiting {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What is awaited, by kind and name.
        message: String,
    },
    /// Something that cannot be watched is awaited at a fixed pace.
    Pace {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What is awaited.
        message: String,
        /// Until the next look.
        after: Duration,
    },
    /// The spec cannot work; only a change of it helps.
    Invalid {
        /// Which field and what to do.
        message: String,
    },
    /// What was read is older than what is stored: nothing is written, and the object is looked at again at once.
    Stale,
    /// GARM's database was locked: the pass looks again at once and goes on, and only if that fails as well it is a failure.
    Locked {
        /// What failed.
        message: String,
    },
    /// A call failed and is tried again with back-off.
    Failed {
        /// Reason of the `Ready` condition.
        reason: &'static str,
        /// What failed and what to do.
        message: String,
    },
}

impl Verdict {
    /// Judges a failed call to GARM. Where GARM as a whole is known to be away, its return wakes the object: that is a wait, not a failure.
    pub fn garm(error: &garm::Error) -> Self {
        let message = error.to_string();
        match error {
            error if error.is_locked() => Self::Locked { message },
            garm::Error::Unavailable(_) => Self::Waiting {
                reason: reasons::WAITING_FOR_GARM,
                message,
            },
            garm::Error::UrlsRequired => Self::Waiting {
                reason: reasons::WAITING_FOR_CONTROLLER_URLS,
                message,
            },
            garm::Error::RateLimited {
                retry_after: Some(after),
            } => Self::Pace {
                reason: reasons::GARM_API_ERROR,
                message,
                // Whatever stands before GARM says so, and may say anything.
                after: (*after).min(LONGEST_PAUSE),
            },
            _ => Self::Failed {
                reason: reasons::GARM_API_ERROR,
                message,
            },
        }
    }

    pub(super) fn condition(&self) -> (Truth, &'static str, &str) {
        match self {
            Self::Stale => (Truth::Unknown, reasons::UNKNOWN_REASON, ""),
            Self::Ready => (Truth::True, reasons::RECONCILE_SUCCESS, ""),
            Self::Waiting { reason, message }
            | Self::Pace {
                reason, message, ..
            }
            | Self::Failed { reason, message } => (Truth::False, reason, message),
            Self::Locked { message } => (Truth::False, reasons::GARM_API_ERROR, message),
            Self::Invalid { message } => (Truth::False, reasons::INVALID_SPEC, message),
        }
    }
}

/// What is to be done for an object, and how it stands once that is done.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Calls to make, in order. Empty when nothing is to be done.
    pub steps: Vec<S>,
    /// How the object stands after the steps.
    pub verdict: Verdict,
    /// Whether the finalizer goes (the object is terminating and nothing of it is left).
    pub release: bool,
    /// When to look again without being woken, if at all.
    pub wake: Option<Duration>,
}

impl<S> Plan<S> {
    /// A plan that only states how the object stands.
    pub fn idle(verdict: Verdict) -> Self {
        Self::with(Vec::new(), verdict)
    }

    /// A plan of steps.
    pub fn with(steps: Vec<S>, verdict: Verdict) -> Self {
        Self {
            steps,
            verdict,
            release: false,
            wake: None,
        }
    }

    /// A plan that lets a terminating object go.
    pub fn release() -> Self {
        Self {
            release: true,
            ..Self::idle(Verdict::Waiting {
                reason: reasons::DELETING,
                message: String::new(),
            })
        }
    }
}

/// What one step did, beyond changing what is observed.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that have nothing to do with each other"
)]
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// A POST or PUT was answered with success: what to remember of it.
    pub pushed: Option<Pushed>,
    /// A POST or PUT was answered with success that changes nothing of what is remembered.
    pub stamped: bool,
    /// Annotations to set, or to remove where there is no value.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The id in GARM changed and has to be stored before anything else is done.
    pub identity: bool,
    /// Something was made in GARM that nobody asks for if the object is gone by now.
    pub made: bool,
    /// The object itself is gone: nothing more is to be written.
    pub gone: bool,
    /// Normal event to publish: reason and note.
    pub event: Option<(&'static str, String)>,
}

impl Effect {
    /// An effect that only publishes an event.
    pub fn told(reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            event: Some((reason, note.into())),
            ..Self::default()
        }
    }

    /// An effect of a successful POST that made what the object stands for.
    pub fn made(memory: Pushed, note: impl Into<String>) -> Self {
        Self {
            made: true,
            ..Self::pushed(memory, event::INFO, note)
        }
    }

    /// An effect of a successful POST or PUT.
    pub fn pushed(memory: Pushed, reason: &'static str, note: impl Into<String>) -> Self {
        Self {
            pushed: Some(memory),
            ..Self::told(reason, note)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garm::Availability;

    #[test]
    fn a_garm_that_is_away_fails_no_object() {
        let away = garm::Error::Unavailable(Availability::NotInitialised);
        assert!(matches!(Verdict::garm(&away), Verdict::Waiting { .. }));
        assert!(matches!(
            Verdict::garm(&garm::Error::UrlsRequired),
            Verdict::Waiting { reason, .. } if reason == reasons::WAITING_FOR_CONTROLLER_URLS
        ));
        let after = Duration::from_secs(30);
        let limited = garm::Error::RateLimited {
            retry_after: Some(after),
        };
        assert!(
            matches!(Verdict::garm(&limited), Verdict::Pace { after: found, .. } if found == after)
        );
        let absurd = garm::Error::RateLimited {
            retry_after: Some(Duration::MAX),
        };
        assert!(
            matches!(Verdict::garm(&absurd), Verdict::Pace { after, .. } if after == LONGEST_PAUSE)
        );
        assert!(matches!(
            Verdict::garm(&garm::Error::Timeout),
            Verdict::Failed { .. }
        ));
        let refused = garm::Error::Server {
            status: 500,
            details: "no such pool".to_owned(),
        };
        assert!(matches!(Verdict::garm(&refused), Verdict::Failed { .. }));
    }
}
