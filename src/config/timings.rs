//! Every interval, age, limit and hold-back time of the operator, in one value.

use std::time::Duration;

use crate::garm;

/// The operator's times. Nothing else in the code holds one.
///
/// The defaults are what a production setup runs with. Tests on real servers scale them down: see [`Timings::scaled`].
#[derive(Clone, Debug, PartialEq)]
pub struct Timings {
    /// Between two looks at an object that nothing wakes (`operator.syncPeriod`).
    pub resync: Duration,
    /// First delay after a failed pass over an object; doubles with each failure, with full jitter.
    pub backoff_base: Duration,
    /// Longest delay after failed passes.
    pub backoff_cap: Duration,
    /// Shortest pause between two looks at a deletion that waits for GARM.
    pub deletion_pace_min: Duration,
    /// Longest pause between two looks at a deletion that waits for GARM.
    pub deletion_pace_max: Duration,
    /// Least time between two writes of runner counts into the status of one Pool.
    pub status_counts_interval: Duration,
    /// After which a request to delete an instance that GARM still shows as running has come to nothing. Not scaled: GARM takes a moment.
    pub instance_delete_lost: Duration,
    /// Least time between two requests to delete the same instance.
    pub instance_delete_again: Duration,
    /// How long a pass waits for GARM's answer to the deletion of an instance; the request itself goes on. Not scaled: GitHub's clock is not
    /// ours.
    pub instance_delete_patience: Duration,
    /// Pause after three refusals of the same new pool: a wrong provider is no better a minute later.
    pub create_again: Duration,
    /// Age from which a pool in GARM that bears the marker of no known object is removed.
    pub marker_orphan_age: Duration,
    /// How long a pool must have been disabled before it is deleted: a creation tick of GARM that was under way goes on for about
    /// 3 s. Not scaled: GARM's clock is not ours.
    pub pool_delete_settle: Duration,
    /// Length of one watch request, in whole seconds and at least one. A connection that died silently is noticed after this and 5 s.
    pub watch: Duration,
    /// After how long without progress something counts as stuck, so that `/healthz` fails (`operator.stuckAfter`): more than two watch
    /// requests.
    pub stuck: Duration,
    /// Deadline for one call to the Kubernetes API. Not scaled.
    pub kube_call: Duration,
    /// How long a review waits for a watch that has not delivered its first list, or for its turn. Not scaled, like the next: the API server's
    /// patience is not ours.
    pub webhook_wait: Duration,
    /// How long the answer to a review may take: a little less than the API server waits, so that it gets one.
    pub webhook_answer: Duration,
    /// How long a conversion may take, below the 30 s that the API server waits: it may hold a whole list. Not scaled.
    pub webhook_conversion: Duration,
    /// How long calls in flight may go on after SIGTERM before they are dropped.
    pub shutdown_drop: Duration,
    /// The election (`operator.lease…`).
    pub lease: LeaseTimes,
    /// The connection to GARM.
    pub garm: garm::Timings,
    /// The webhook listener and its certificate.
    pub webhook: WebhookTimings,
}

/// Times of the election of a leader, by default those of client-go and so of the Go operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LeaseTimes {
    /// How long other replicas wait for a renewal of the Lease before they take it over.
    pub duration: Duration,
    /// How long the leader works without a successful renewal of the Lease; shorter than its duration.
    pub renew: Duration,
    /// Between two renewals of the Lease; at most half of `renew`.
    pub retry: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Times of the webhook listener and its certificate. But for the polls they are not scaled: clients have clocks of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WebhookTimings {
    /// Deadline for a TLS handshake.
    pub handshake: Duration,
    /// Longest silence of an HTTP/1.1 client between two requests, or before the end of a request's head. Longer than a Go client keeps an idle
    /// connection (90 s), so that we never close one it is writing into.
    pub idle: Duration,
    /// Pause between two pings on an HTTP/2 connection, and how long its answer may take.
    pub ping: Duration,
    /// Least age of a connection that is closed because of a new certificate. Never under a second: the API server would see calls fail on one
    /// it has just opened.
    pub connection_age_min: Duration,
    /// How long webhooks are served after SIGTERM, until every API server knows that we are going.
    pub serve_on: Duration,
    /// How long requests may take that are under way when the port closes.
    pub drain: Duration,
    /// Between two looks at certificate files.
    pub files_poll: Duration,
    /// Between two looks at the Secret with our CA.
    pub secret_poll: Duration,
}

impl Default for WebhookTimings {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            handshake: s(10),
            idle: s(95),
            ping: s(30),
            connection_age_min: s(2),
            serve_on: s(3),
            drain: s(5),
            files_poll: s(10),
            secret_poll: s(10),
        }
    }
}

impl Default for Timings {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            resync: s(5 * 60),
            backoff_base: s(1),
            backoff_cap: s(5 * 60),
            deletion_pace_min: s(5),
            deletion_pace_max: s(10),
            status_counts_interval: s(5),
            instance_delete_lost: s(10),
            instance_delete_again: s(60),
            instance_delete_patience: s(2),
            create_again: s(5 * 60),
            marker_orphan_age: s(5 * 60),
            pool_delete_settle: s(6),
            // With the reconnect, a change behind a dead connection is seen within 220 s.
            watch: s(180),
            stuck: s(8 * 60),
            kube_call: s(30),
            webhook_wait: s(2),
            webhook_answer: s(4),
            webhook_conversion: s(25),
            shutdown_drop: s(2),
            lease: LeaseTimes::default(),
            garm: garm::Timings::default(),
            webhook: WebhookTimings::default(),
        }
    }
}

impl Timings {
    /// Multiplies the times that are the operator's own choice. Those that follow from somebody else's clock stay; their
    /// documentation says so. A factor that is no positive number changes nothing.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        if !(factor.is_finite() && factor > 0.0) {
            return self;
        }
        let f = |time| scaled(time, factor);
        Self {
            resync: f(self.resync),
            backoff_base: f(self.backoff_base),
            backoff_cap: f(self.backoff_cap),
            deletion_pace_min: f(self.deletion_pace_min),
            deletion_pace_max: f(self.deletion_pace_max),
            status_counts_interval: f(self.status_counts_interval),
            instance_delete_lost: self.instance_delete_lost,
            instance_delete_again: f(self.instance_delete_again),
            instance_delete_patience: self.instance_delete_patience,
            create_again: f(self.create_again),
            marker_orphan_age: f(self.marker_orphan_age),
            pool_delete_settle: self.pool_delete_settle,
            watch: f(self.watch),
            stuck: f(self.stuck),
            kube_call: self.kube_call,
            webhook_wait: self.webhook_wait,
            webhook_answer: self.webhook_answer,
            webhook_conversion: self.webhook_conversion,
            shutdown_drop: self.shutdown_drop,
            lease: LeaseTimes {
                duration: f(self.lease.duration),
                renew: f(self.lease.renew),
                retry: f(self.lease.retry),
            },
            garm: scaled_garm(&self.garm, factor),
            webhook: WebhookTimings {
                files_poll: f(self.webhook.files_poll),
                secret_poll: f(self.webhook.secret_poll),
                ..self.webhook
            },
        }
    }
}

/// Scales the connection's times but for its deadlines: how long GARM takes to answer is not our choice.
fn scaled_garm(garm: &garm::Timings, factor: f64) -> garm::Timings {
    let f = |time| scaled(time, factor);
    let both = |(a, b)| (f(a), f(b));
    let garm::Timings {
        connect,
        call,
        write_turn,
        retry,
        login_backoff,
        sync_period,
        runners_interval,
        instance_list_gap,
        ping,
        silence,
        dial_backoff,
        probe_backoff,
        grace,
        urls_poll,
        tombstone,
        reread_delay,
        manager_watch,
    } = *garm;
    garm::Timings {
        connect,
        call,
        write_turn,
        retry: f(retry),
        login_backoff: both(login_backoff),
        sync_period: f(sync_period),
        runners_interval: f(runners_interval),
        instance_list_gap: f(instance_list_gap),
        ping: f(ping),
        silence: f(silence),
        dial_backoff: both(dial_backoff),
        probe_backoff: both(probe_backoff),
        grace: f(grace),
        urls_poll: f(urls_poll),
        tombstone,
        reread_delay,
        manager_watch: (f(manager_watch.0), f(manager_watch.1), f(manager_watch.2)),
    }
}

/// Never zero where it was not: a pause of nothing is a busy loop.
fn scaled(time: Duration, factor: f64) -> Duration {
    if time.is_zero() {
        return time;
    }
    let scaled = Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX);
    scaled.max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_our_own_times_and_keeps_those_of_others() {
        let (full, tenth) = (Timings::default(), Timings::default().scaled(0.1));
        assert_eq!(tenth.resync, full.resync / 10);
        assert_eq!(tenth.garm.ping, full.garm.ping / 10);
        assert_eq!(tenth.garm.call, full.garm.call);
        assert_eq!(tenth.pool_delete_settle, full.pool_delete_settle);
    }

    #[test]
    fn never_scales_to_nothing_or_beyond_measure() {
        assert_eq!(
            Timings::default().scaled(1e-30).garm.ping,
            Duration::from_millis(1)
        );
        assert_eq!(Timings::default().scaled(1e300).resync, Duration::MAX);
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Timings::default().scaled(factor), Timings::default());
        }
    }

    #[test]
    fn a_wrong_password_is_tried_at_most_ten_times_in_ten_minutes() {
        let (mut delay, cap) = Timings::default().garm.login_backoff;
        let (mut clock, mut tries) = (Duration::ZERO, 0);
        while clock <= Duration::from_secs(600) {
            tries += 1;
            clock += delay;
            delay = (delay * 2).min(cap);
        }
        assert!(tries <= 10, "{tries}");
    }
}
