//! What holding the Lease means to the rest of the process.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The right to act. Clones are the same right.
///
/// It ends when it is not renewed in time, and stays ended: a later success makes another one. So nobody who was once refused is ever
/// allowed, and nobody waits in vain for work that goes on elsewhere in the process.
#[derive(Clone, Debug)]
pub struct Term(Arc<Mutex<End>>);

#[derive(Clone, Copy, Debug)]
enum End {
    /// There is no election.
    Never,
    At(Instant),
    Over,
}

impl Term {
    /// Makes the term of a process that leads without an election.
    pub fn unlimited() -> Self {
        Self(Arc::new(Mutex::new(End::Never)))
    }

    /// Begins a term that lasts until this moment.
    pub(super) fn until(end: Instant) -> Self {
        Self(Arc::new(Mutex::new(End::At(end))))
    }

    /// Says whether something may begin now. Asked before each request that only the leader may make; it is cheap.
    pub fn may_begin(&self) -> bool {
        self.is_on(&mut self.lock())
    }

    /// Moves the end; fails when it has come already.
    pub(super) fn extend(&self, end: Instant) -> bool {
        let mut current = self.lock();
        let is_on = self.is_on(&mut current);
        if is_on {
            *current = End::At(end);
        }
        is_on
    }

    /// Ends it now.
    pub(super) fn finish(&self) {
        *self.lock() = End::Over;
    }

    /// Says whether both are the same right.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[expect(clippy::unused_self, reason = "the guard is of this value")]
    fn is_on(&self, end: &mut MutexGuard<'_, End>) -> bool {
        match **end {
            End::Never => true,
            End::At(moment) if Instant::now() < moment => true,
            End::At(_) | End::Over => {
                **end = End::Over;
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, End> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this process leads.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// Another process leads, or none does.
    Standby,
    /// This one does, for this term.
    Leading(Term),
}

impl Leadership {
    fn term(&self) -> Option<&Term> {
        match self {
            Self::Standby => None,
            Self::Leading(term) => Some(term),
        }
    }
}

/// How long work may go on that was under way when its term ended.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// When the process stops.
    pub stop: Duration,
    /// When the Lease was lost: until another replica may act.
    pub loss: Duration,
}

/// Runs `work` in each term anew until `stop` is cancelled.
///
/// `work` gets its term and a token that is cancelled when the term ends; what is left of it after the grace is dropped, and only then is it
/// started again. Work that ends well by itself is done for its term.
///
/// # Errors
/// That of `work`, at once.
pub async fn each_term<F, E>(
    mut leadership: watch::Receiver<Leadership>,
    stop: &CancellationToken,
    grace: Grace,
    mut work: impl FnMut(Term, CancellationToken) -> F,
) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    while let Some(term) = next_term(&mut leadership, stop).await {
        let token = CancellationToken::new();
        let running = work(term.clone(), token.clone());
        let mut running = std::pin::pin!(running);
        let mut has_ended = false;
        loop {
            tokio::select! {
                ended = &mut running, if !has_ended => {
                    ended?;
                    has_ended = true;
                }
                () = end_of(&mut leadership, &term) => break,
                () = stop.cancelled() => break,
            }
        }
        token.cancel();
        let grace = if stop.is_cancelled() {
            grace.stop
        } else {
            grace.loss
        };
        if !has_ended {
            // In time or not, it is over.
            let _ = tokio::time::timeout(grace, running.as_mut()).await;
        }
    }
    Ok(())
}

/// Waits for a term; none comes after `stop`, or when nobody stands for election any more.
async fn next_term(
    leadership: &mut watch::Receiver<Leadership>,
    stop: &CancellationToken,
) -> Option<Term> {
    let led = leadership.wait_for(|now| now.term().is_some());
    let now = stop.run_until_cancelled(led).await?.ok()?;
    now.term().cloned()
}

/// Waits until a term is over. Without an elector, nobody would renew it.
async fn end_of(leadership: &mut watch::Receiver<Leadership>, term: &Term) {
    let is_over = |now: &Leadership| now.term().is_none_or(|now| !now.is(term));
    let _ = leadership.wait_for(is_over).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), future)
            .await
            .unwrap()
    }

    #[test]
    fn a_term_ends_by_the_clock_and_stays_ended() {
        let term = Term::until(Instant::now() + SHORT);
        assert!(term.may_begin());
        std::thread::sleep(SHORT * 2);
        assert!(!term.extend(Instant::now() + LONG), "it is too late");
        assert!(!term.may_begin());
        let term = Term::until(Instant::now() + LONG);
        assert!(term.extend(Instant::now() + LONG) && term.clone().may_begin());
        term.finish();
        assert!(!term.extend(Instant::now() + LONG) && !term.may_begin());
    }

    #[test]
    fn a_term_without_an_election_lasts() {
        assert!(Term::unlimited().may_begin());
    }

    #[tokio::test]
    async fn work_runs_once_a_term_and_is_dropped_after_the_grace() {
        let (leadership, terms) = watch::channel(Leadership::Standby);
        let stop = CancellationToken::new();
        let grace = Grace {
            stop: SHORT,
            loss: SHORT,
        };
        let begun = AtomicUsize::new(0);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let running = each_term(terms, &stop, grace, |_, token| {
            let begun = begun.fetch_add(1, Ordering::SeqCst) + 1;
            let tell = tell.clone();
            async move {
                tell.send((begun, "begins")).unwrap();
                token.cancelled().await;
                tell.send((begun, "ends")).unwrap();
                std::future::pending::<Result<(), ()>>().await
            }
        });
        let lead = async {
            for term in [1, 2] {
                leadership.send_replace(Leadership::Leading(Term::unlimited()));
                assert_eq!(soon(told.recv()).await, Some((term, "begins")));
                leadership.send_replace(Leadership::Standby);
                assert_eq!(soon(told.recv()).await, Some((term, "ends")));
            }
            // From one term into another without a moment between.
            leadership.send_replace(Leadership::Leading(Term::unlimited()));
            assert_eq!(soon(told.recv()).await, Some((3, "begins")));
            leadership.send_replace(Leadership::Leading(Term::unlimited()));
            assert_eq!(soon(told.recv()).await, Some((3, "ends")));
            assert_eq!(soon(told.recv()).await, Some((4, "begins")));
            stop.cancel();
        };
        let (ended, ()) = soon(async { tokio::join!(running, lead) }).await;
        assert_eq!(ended, Ok(()));
    }

    #[tokio::test]
    async fn failed_work_is_told_and_work_that_is_done_waits_for_the_next_term() {
        let (leadership, terms) = watch::channel(Leadership::Leading(Term::unlimited()));
        let stop = CancellationToken::new();
        let grace = Grace {
            stop: LONG,
            loss: LONG,
        };
        let mut terms_seen = 0;
        let running = each_term(terms, &stop, grace, |_, _| {
            terms_seen += 1;
            let result = if terms_seen == 1 {
                Ok(())
            } else {
                Err("broken")
            };
            if terms_seen == 1 {
                leadership.send_replace(Leadership::Leading(Term::unlimited()));
            }
            async move { result }
        });
        assert_eq!(soon(running).await, Err("broken"));
    }
}
