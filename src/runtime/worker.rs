//! Workers of one controller: take an object from its queue, reconcile it, decide when it comes back.

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    ObjectKey,
    queue::{Job, Queue, Verdict},
};
use crate::telemetry::metrics::{ControllerMetrics, Metrics, QueueMetrics};

/// What a reconcile asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing; earlier failures are forgotten. A resync is the caller's [`Queue::add_after`].
    Done,
    /// Another pass after this fixed delay; earlier failures are forgotten. Any event about the object comes first.
    After(Duration),
    /// Another pass soon, as what was known is older than what there is; later each time while nothing is heard of the object.
    Stale,
    /// Another pass after a growing delay, which only a changed spec cuts short.
    Retry {
        /// Why, as a sentence for the log. It names no secret.
        error: String,
    },
}

/// Works off `queue` with at most `concurrency` objects at once until `token` is cancelled.
///
/// `name` is the lower-case kind, the label of the metrics. A panic in `reconcile` ends that pass alone: it is
/// counted and retried. After the cancellation nothing new is begun, and the future ends when the running passes
/// have ended; dropping it earlier drops them and gives their objects back to the queue.
pub async fn run<F, R>(
    queue: Arc<Queue>,
    concurrency: usize,
    name: &'static str,
    metrics: Arc<Metrics>,
    token: CancellationToken,
    reconcile: F,
) where
    F: Fn(ObjectKey) -> R + Send + Sync + 'static,
    R: Future<Output = Next> + Send + 'static,
{
    let controller = metrics.controller(name, concurrency);
    let meters = metrics.queue(name);
    // The hook ends with this run: another one, after the lease was lost and won, brings its own.
    let running = Arc::new(());
    metrics.before_scrape({
        let (running, queue, meters) =
            (Arc::downgrade(&running), Arc::clone(&queue), meters.clone());
        move || {
            queue.report(&meters);
            let is_running = running.strong_count() > 0;
            if !is_running {
                // What is left in the queue waits for nobody.
                meters.report(0, 0, 0, Duration::ZERO, Duration::ZERO);
            }
            is_running
        }
    });
    let reconcile = Arc::new(reconcile);
    let mut passes = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = token.cancelled() => break,
            Some(_) = passes.join_next(), if !passes.is_empty() => {}
            job = queue.next(), if passes.len() < concurrency.max(1) => {
                let pass = Pass {
                    name,
                    work: Taken { queue: Arc::clone(&queue), key: job.key.clone(), finished: false },
                    controller: controller.clone(),
                    queue: meters.clone(),
                };
                let span = tracing::info_span!(
                    "reconcile",
                    controller = name,
                    object.namespace = job.key.namespace,
                    object.name = job.key.name,
                );
                passes.spawn(pass.run(job, Arc::clone(&reconcile)).instrument(span));
            }
        }
    }
    while passes.join_next().await.is_some() {}
    drop(running);
}

/// One object taken from the queue; gives it back when dropped before its end.
struct Taken {
    queue: Arc<Queue>,
    key: ObjectKey,
    finished: bool,
}

impl Taken {
    fn finish(mut self, verdict: Verdict) -> Option<Duration> {
        self.finished = true;
        self.queue.finish(&self.key, verdict)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.finished {
            self.queue.release(&self.key);
        }
    }
}

/// One pass over one object.
struct Pass {
    name: &'static str,
    work: Taken,
    controller: ControllerMetrics,
    queue: QueueMetrics,
}

impl Pass {
    async fn run<F, R>(self, job: Job, reconcile: Arc<F>)
    where
        F: Fn(ObjectKey) -> R,
        R: Future<Output = Next>,
    {
        let Self {
            name,
            work,
            controller,
            queue,
        } = self;
        queue.queue_time.observe(job.waited.as_secs_f64());
        let active = Active::begin(&controller);
        let begun = Instant::now();
        // The closure runs inside the future, so that a panic before its first await is caught too.
        let outcome = AssertUnwindSafe(async { reconcile(job.key.clone()).await })
            .catch_unwind()
            .await;
        let spent = begun.elapsed().as_secs_f64();
        controller.time.observe(spent);
        queue.work_time.observe(spent);
        drop(active);

        let (verdict, error) = match outcome {
            Ok(Next::Done) => (Verdict::Done, None),
            Ok(Next::After(delay)) => (Verdict::After(delay), None),
            Ok(Next::Stale) => (Verdict::Stale, None),
            Ok(Next::Retry { error }) => (Verdict::Retry, Some(error)),
            Err(payload) => {
                controller.panics.inc();
                (
                    Verdict::Retry,
                    Some(format!(
                        "the reconcile panicked: {}",
                        panic_text(payload.as_ref())
                    )),
                )
            }
        };
        match verdict {
            Verdict::Done => controller.success.inc(),
            Verdict::After(_) | Verdict::Stale => controller.requeue_after.inc(),
            Verdict::Retry => {
                controller.errors.inc();
                controller.error.inc()
            }
        };
        let delay = work.finish(verdict);
        if let Some(error) = error {
            let retry_after_ms = delay.map_or(0, |delay| {
                u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
            });
            let attempt = u64::from(job.attempts) + 1;
            tracing::warn!(controller = name, object = %job.key, attempt, retry_after_ms, error, "reconcile failed");
        }
    }
}

/// Counts a running pass for as long as it lives.
struct Active<'a>(&'a ControllerMetrics);

impl<'a> Active<'a> {
    fn begin(controller: &'a ControllerMetrics) -> Self {
        controller.active.inc();
        Self(controller)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.dec();
    }
}

/// Reads the message of a panic, which is text for every ordinary `panic!`.
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::{Semaphore, mpsc};

    use super::*;
    use crate::{runtime::queue::BackOff, telemetry::metrics::Format};

    const QUICK: BackOff = BackOff {
        base: Duration::from_millis(1),
        cap: Duration::from_millis(5),
    };

    fn key(n: usize) -> ObjectKey {
        ObjectKey::new("ns", n.to_string())
    }

    async fn soon<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), future)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn retries_failures_and_panics_and_goes_on_with_the_others() {
        let queue = Queue::new(QUICK);
        let metrics = Arc::new(Metrics::new());
        let token = CancellationToken::new();
        let tries = Arc::new(AtomicUsize::new(0));
        let (done, mut finished) = mpsc::unbounded_channel();
        let worker = tokio::spawn(run(
            Arc::clone(&queue),
            2,
            "pool",
            Arc::clone(&metrics),
            token.clone(),
            {
                let tries = Arc::clone(&tries);
                move |key: ObjectKey| {
                    let try_ = if key.name == "0" {
                        tries.fetch_add(1, Ordering::SeqCst)
                    } else {
                        9
                    };
                    let done = done.clone();
                    async move {
                        assert!(try_ != 0, "on purpose");
                        if try_ == 1 {
                            return Next::Retry {
                                error: "on purpose".into(),
                            };
                        }
                        done.send(key.name).unwrap();
                        Next::Done
                    }
                }
            },
        ));
        for n in 0..5 {
            queue.add(key(n));
        }
        let mut names = Vec::new();
        while names.len() < 5 {
            names.push(soon(finished.recv()).await.unwrap());
        }
        token.cancel();
        soon(worker).await.unwrap();
        names.sort();
        assert_eq!(names, ["0", "1", "2", "3", "4"]);
        let text = metrics.encode(Format::Text).unwrap();
        for line in [
            "controller_runtime_reconcile_panics_total{controller=\"pool\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"pool\"} 2",
            "controller_runtime_reconcile_total{controller=\"pool\",result=\"success\"} 5",
            "controller_runtime_active_workers{controller=\"pool\"} 0",
            "workqueue_retries_total{name=\"pool\",controller=\"pool\"} 2",
            "workqueue_adds_total{name=\"pool\",controller=\"pool\"} 7",
            "workqueue_depth{name=\"pool\",controller=\"pool\"} 0",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }

    #[tokio::test]
    async fn keeps_to_its_concurrency_and_never_doubles_an_object() {
        let queue = Queue::new(QUICK);
        let token = CancellationToken::new();
        let busy: Arc<Mutex<Vec<ObjectKey>>> = Arc::default();
        let most = Arc::new(AtomicUsize::new(0));
        let passes = Arc::new(Semaphore::new(0));
        let worker = tokio::spawn(run(
            Arc::clone(&queue),
            3,
            "pool",
            Arc::new(Metrics::new()),
            token.clone(),
            {
                let (busy, most, passes) =
                    (Arc::clone(&busy), Arc::clone(&most), Arc::clone(&passes));
                move |key: ObjectKey| {
                    let (busy, most, passes) =
                        (Arc::clone(&busy), Arc::clone(&most), Arc::clone(&passes));
                    async move {
                        {
                            let mut busy = busy.lock().unwrap();
                            assert!(!busy.contains(&key));
                            busy.push(key.clone());
                            most.fetch_max(busy.len(), Ordering::SeqCst);
                        }
                        for _ in 0..5 {
                            tokio::task::yield_now().await;
                        }
                        busy.lock().unwrap().retain(|other| *other != key);
                        passes.add_permits(1);
                        Next::Done
                    }
                }
            },
        ));
        for round in 0..20 {
            for n in 0..10 {
                queue.add(key(n));
            }
            if round % 5 == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(soon(passes.acquire_many(10)).await.unwrap());
        token.cancel();
        soon(worker).await.unwrap();
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn begins_nothing_after_the_cancellation_and_gives_dropped_work_back() {
        let queue = Queue::new(QUICK);
        let token = CancellationToken::new();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let worker = tokio::spawn(run(
            Arc::clone(&queue),
            1,
            "pool",
            Arc::new(Metrics::new()),
            token.clone(),
            {
                move |key: ObjectKey| {
                    begun.send(key).unwrap();
                    std::future::pending::<Next>()
                }
            },
        ));
        queue.add(key(1));
        assert_eq!(soon(begins.recv()).await, Some(key(1)));
        token.cancel();
        queue.add(key(2));
        worker.abort();
        assert!(soon(worker).await.unwrap_err().is_cancelled());
        assert_eq!(soon(begins.recv()).await, None);
        let mut left = [soon(queue.next()).await.key, soon(queue.next()).await.key];
        left.sort();
        assert_eq!(left, [key(1), key(2)]);
    }
}
