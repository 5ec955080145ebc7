//! Waiting for something to become true.

use std::{
    fmt::Debug,
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

/// Looks every 50 ms until `look` answers [`Seen::Yes`]; an error counts as "not yet".
///
/// The error after `limit` names `what` was awaited and what was seen last.
pub async fn poll_until<T>(
    limit: Duration,
    what: &str,
    look: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    poll_every(PAUSE, limit, what, look).await
}

/// Like [`poll_until`] with another pause between two looks.
pub async fn poll_every<T>(
    pause: Duration,
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Seen<T>>,
) -> Result<T> {
    let deadline = Instant::now() + limit;
    let mut last = "nothing yet".to_owned();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("{what}: not within {limit:?}; last seen: {last}");
        }
        // A look that hangs must not outlast the deadline.
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(Seen::Yes(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(seen))) => last = seen,
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => last = format!("{last} (and the last look did not return)"),
        }
        tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
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
