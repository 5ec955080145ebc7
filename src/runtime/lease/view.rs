//! What the election looks like from here, for diagnosis.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The election as last told. Clones are the same.
#[derive(Clone, Debug)]
pub struct View(Arc<Mutex<Standing>>);

/// What a candidate knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The name of this candidate.
    pub identity: String,
    /// Who leads; empty while nobody is known to.
    pub holder: String,
    /// What keeps this candidate from the Lease.
    pub trouble: Option<&'static str>,
}

impl View {
    /// Makes the view of a candidate that knows nothing yet.
    pub(super) fn new(identity: &str) -> Self {
        Self(Arc::new(Mutex::new(Standing {
            identity: identity.to_owned(),
            ..Standing::default()
        })))
    }

    /// Gives what is known now.
    pub fn get(&self) -> Standing {
        self.lock().clone()
    }

    /// Takes over who leads; says whether that is news.
    pub(super) fn holder(&self, holder: &str) -> bool {
        let mut standing = self.lock();
        let is_news = standing.holder != holder;
        if is_news {
            holder.clone_into(&mut standing.holder);
        }
        is_news
    }

    /// Takes over what is wrong; says whether that is news.
    pub(super) fn trouble(&self, trouble: Option<&'static str>) -> bool {
        std::mem::replace(&mut self.lock().trouble, trouble) != trouble
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_news() {
        let view = View::new("a");
        assert!(view.holder("b") && !view.clone().holder("b"));
        assert!(!view.trouble(None) && view.trouble(Some("no right")));
        let standing = Standing {
            identity: "a".to_owned(),
            holder: "b".to_owned(),
            trouble: Some("no right"),
        };
        assert_eq!(view.get(), standing);
    }
}
