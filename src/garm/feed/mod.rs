//! Keeps the copy of GARM true: waits until GARM can be worked with, lists everything, listens to events, lists again
//! now and then, and reads what is in doubt.

mod frames;
mod gate;
mod lists;
mod pause;
mod reader;
mod socket;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::availability::Availability;
use super::error::Error;
use super::handle::Shared;
use super::observer::Loop;
use pause::Pause;

/// How many doubtful objects are read at once. Two, so that one that GARM never answers for does not hold up the rest.
const READERS: usize = 2;

/// Runs until it is dropped.
pub(super) async fn run(shared: &Arc<Shared>) {
    loop {
        gate::wait_until_open(shared).await;
        let mut came_up = shared.socket_came_up.subscribe();
        let mut tasks = JoinSet::new();
        tasks.spawn(socket::run(Arc::clone(shared)));
        match begin(shared, &mut came_up).await {
            Ok(()) => {
                shared.set_availability(Availability::Ready);
                tasks.spawn(lists::run(Arc::clone(shared), came_up));
                for _ in 0..READERS {
                    tasks.spawn(reader::run(Arc::clone(shared)));
                }
                let reason = gate::wait_until_closed(shared).await;
                shared.set_availability(reason);
            }
            Err(reason) => shared.set_availability(reason),
        }
        tasks.shutdown().await;
        if shared.socket_is_up.swap(false, Ordering::Relaxed) {
            shared.observer.socket(false);
        }
        shared.mirror_mut().restart(Instant::now());
    }
}

/// Lists everything for the first time, after the events socket is up, so that no change falls between. A socket that
/// does not come up is not waited for long: when it does, everything is listed again.
async fn begin(shared: &Shared, came_up: &mut watch::Receiver<u64>) -> Result<(), Availability> {
    let longest = shared.settings.timings.connect / 5;
    let _ = timeout(longest, came_up.changed()).await;
    let mut pause = Pause::new(shared.settings.timings.probe_backoff);
    for _ in 0..3 {
        shared.observer.turned(Loop::Lists);
        came_up.mark_unchanged();
        match lists::all(shared).await {
            Ok(()) => return Ok(()),
            // What is wrong with one list need not keep back the rest.
            Err(error) if !error.is_about_garm() => return Ok(()),
            Err(error @ (Error::Transport(_) | Error::Timeout)) => {
                tracing::debug!(%error, "listing GARM's objects failed");
                pause.wait().await;
            }
            Err(error) => return Err(gate::closed_by(&error)),
        }
    }
    Err(Availability::Unreachable {
        reason: "GARM answers, but breaks off its lists; see its log".to_owned(),
    })
}
