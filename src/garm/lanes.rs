//! How many calls GARM gets at once.
//!
//! SQLite has one writer, and GARM answers 500 when two meet; calls that wait on GitHub must not keep others waiting.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// What a call does to GARM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// It reads.
    Read,
    /// It writes to the database.
    Write,
    /// It writes, and waits on GitHub meanwhile.
    GitHub,
    /// It asks whether GARM lives, which calls that hang must not keep it from: the one call beyond the four.
    Probe,
}

/// Turnstiles: 4 calls at once, of which 2 wait on GitHub and 1 other writes.
#[derive(Debug)]
pub(super) struct Lanes {
    all: Semaphore,
    writes: Semaphore,
    github: Semaphore,
    write_turn: Duration,
}

impl Lanes {
    /// Opens them; a write keeps other writes back for `write_turn` at most.
    pub(super) fn new(write_turn: Duration) -> Self {
        Self {
            all: Semaphore::new(4),
            writes: Semaphore::new(1),
            github: Semaphore::new(2),
            write_turn,
        }
    }

    /// Runs a call when its turn comes.
    pub(super) async fn run<F: Future>(&self, lane: Lane, call: F) -> F::Output {
        let mut call = pin!(call);
        // The own lane comes first, so that who waits for it keeps nobody out of the shared one. A closed semaphore
        // would be the only error, and these are never closed.
        let turn = match lane {
            Lane::Probe => return call.await,
            Lane::Read => None,
            Lane::Write => self.writes.acquire().await.ok(),
            Lane::GitHub => self.github.acquire().await.ok(),
        };
        let _place = self.all.acquire().await.ok();
        if lane == Lane::Write {
            match timeout(self.write_turn, &mut call).await {
                Ok(output) => return output,
                // It hangs somewhere, so it holds no database lock: the others may go on.
                Err(_) => drop(turn),
            }
            return call.await;
        }
        call.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Runs ten calls of a lane and says how many were inside at once.
    async fn most_at_once(lane: Lane) -> usize {
        let lanes = Arc::new(Lanes::new(Duration::from_secs(10)));
        let inside = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let calls = (0..10).map(|_| {
            let (lanes, inside) = (Arc::clone(&lanes), Arc::clone(&inside));
            async move {
                let call = async {
                    let now = inside.0.fetch_add(1, Ordering::SeqCst) + 1;
                    inside.1.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    inside.0.fetch_sub(1, Ordering::SeqCst);
                };
                lanes.run(lane, call).await;
            }
        });
        futures::future::join_all(calls).await;
        inside.1.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn lets_four_read_two_wait_on_github_and_one_write() {
        assert_eq!(most_at_once(Lane::Read).await, 4);
        assert_eq!(most_at_once(Lane::GitHub).await, 2);
        assert_eq!(most_at_once(Lane::Write).await, 1);
    }

    #[tokio::test]
    async fn a_hanging_write_does_not_keep_others_back_for_ever() {
        let lanes = Lanes::new(Duration::from_millis(1));
        let hanging = lanes.run(Lane::Write, std::future::pending::<()>());
        let other = lanes.run(Lane::Write, async { 7 });
        tokio::select! {
            () = hanging => panic!("a pending call ended"),
            answer = other => assert_eq!(answer, 7),
        }
    }
}
