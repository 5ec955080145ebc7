//! Waiting for something to become true.

use std::{
    fmt::{Debug, Display},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

const PAUSE: Duration = Duration::from_millis(50);

/// What a look at the world saw: the awaited thing, or what was there instead.
#[derive(Debug)]
pub enum Seen<T> {
    /// It is as awaited.
    Yes(T),
    /// Not yet; the text is shown when time runs out.
    NotYet(String),
}

impl<T> Seen<T> {
    /// [`Seen::Yes`] when `value` satisfies `wanted`, else [`Seen::NotYet`] with the value.
    pub fn when(value: T, wanted: impl FnOnce(&T) -> bool) -> Self
    where
        T: Debug,
    {
        if wanted(&value) {
            Self::Yes(value)
        } else {
            Self::NotYet(format!("{value:?}"))
        }
    }

    /// Changes the awaited value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Yes(value) => Seen::Yes(change(value)),
            Self::NotYet(seen) => Seen::NotYet(seen),
        }
    }
}

/// A wait with an end, for loops of one's own: after each look that was in vain, [`Patience::pause`].
#[derive(Debug)]
pub struct Patience {
    what: String,
    limit: Duration,
    deadline: Instant,
    pause: Duration,
}

impl Patience {
    /// Waits at most `limit` for `what`.
    pub fn new(limit: Duration, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            limit,
            deadline: Instant::now() + limit,
            pause: PAUSE,
        }
    }

    /// Pauses this long between two looks.
    #[must_use]
    pub fn every(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Pauses after a look in vain; fails when the time is over, with what the look saw.
    pub async fn pause(&self, seen: impl Display) -> Result<()> {
        let left = self.left();
        if left.is_zero() {
            bail!(
                "{}: not within {:?}; last seen: {seen}",
                self.what,
                self.limit
            );
        }
        tokio::time::sleep(self.pause.min(left)).await;
        Ok(())
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Looks every 50 ms until `look` answers [`Seen::Yes`]; an error counts as "not yet".
///
/// The error after `limit` names `what` was awaited and what was seen last. (The future cannot be spawned on another thread, as
/// async closures go today; [`Patience`] can.)
pub async fn poll_until<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let patience = Patience::new(limit, what);
    let mut last = "nothing yet".to_owned();
    loop {
        // A look that hangs must not outlast the deadline.
        match tokio::time::timeout(patience.left(), look()).await {
            Ok(Ok(Seen::Yes(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(seen))) => last = seen,
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => last = format!("{last} (and the last look did not return)"),
        }
        patience.pause(&last).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn says_what_was_seen_last() {
        let mut count = 0;
        let error = poll_until(Duration::from_millis(120), "ten", async || {
            count += 1;
            Ok(Seen::when(count.min(2), |count| *count == 10))
        })
        .await
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("ten") && error.contains("last seen: 2"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_error_is_only_not_yet() {
        let mut first = true;
        let seen = poll_until(Duration::from_secs(5), "it", async || {
            anyhow::ensure!(!std::mem::take(&mut first), "not there");
            Ok(Seen::Yes(7))
        });
        assert_eq!(seen.await.unwrap(), 7);
    }
}
