//! Every interval, age, limit and hold-back time of the operator, in one value.

use std::time::Duration;

/// The operator's times. Nothing else in the code holds one.
///
/// The defaults are what a production setup runs with. Tests on real servers scale them down: see [`Timings::scaled`].
#[derive(Clone, Debug, PartialEq)]
pub struct Timings {
    /// Between two full comparisons of everything with GARM, and of every object with the mirror (`operator.syncPeriod`).
    pub resync: Duration,
    /// Between two instance lists while the events socket is down (`operator.syncRunnersInterval`).
    pub runner_poll: Duration,
    /// Age from which an idle runner above the minimum is removed (`operator.minIdleRunnersAge`).
    pub min_idle_runners_age: Duration,

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
    /// Age from which a pool in GARM that bears the marker of no known object is removed.
    pub marker_orphan_age: Duration,
    /// How long a pool must have been disabled before it is deleted: a creation tick of GARM that was under way goes on for about
    /// 3 s. Not scaled: GARM's clock is not ours.
    pub pool_delete_settle: Duration,

    /// Deadline for a connection to GARM. Not scaled.
    pub garm_connect: Duration,
    /// Deadline for one call to GARM, which may itself wait 30 s for GitHub. Not scaled.
    pub garm_call: Duration,
    /// How long before its expiry a token is renewed.
    pub token_renew_before: Duration,
    /// First delay after a refused login; doubles with each refusal.
    pub login_backoff_base: Duration,
    /// Longest delay after refused logins. With the base it keeps a wrong password below 10 tries in 10 minutes.
    pub login_backoff_cap: Duration,
    /// First delay before a call is repeated that GARM answered with a 500 without details (its database was busy); doubles.
    pub busy_retry: Duration,
    /// First delay between two looks whether GARM is back; doubles.
    pub probe_min: Duration,
    /// Longest delay between two looks whether GARM is back.
    pub probe_max: Duration,
    /// Least time between two full instance lists: GARM 0.2 blocks all writers meanwhile.
    pub instance_list_gap: Duration,
    /// How long the mirror remembers that an entry was deleted, so that a late list or event does not bring it back.
    pub tombstone: Duration,
    /// Between two reads of an entity whose pool manager does not run, at first.
    pub manager_reread: Duration,
    /// How long an entity whose pool manager does not run is read at the first pace.
    pub manager_reread_first: Duration,
    /// Between two reads of an entity whose pool manager does not run, later.
    pub manager_reread_slow: Duration,

    /// Between two pings on the events socket.
    pub socket_ping: Duration,
    /// Silence after which the events socket counts as dead.
    pub socket_silence: Duration,
    /// First delay before the events socket is dialled again; doubles.
    pub socket_redial_min: Duration,
    /// Longest delay before the events socket is dialled again.
    pub socket_redial_max: Duration,

    /// Deadline for one call to the Kubernetes API. Not scaled.
    pub kube_call: Duration,
    /// How long calls in flight may go on after SIGTERM before they are dropped.
    pub shutdown_drop: Duration,
    /// How long the process may live after SIGTERM.
    pub shutdown_total: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            resync: s(5 * 60),
            runner_poll: s(5),
            min_idle_runners_age: s(2 * 60 * 60),
            backoff_base: s(1),
            backoff_cap: s(5 * 60),
            deletion_pace_min: s(5),
            deletion_pace_max: s(10),
            status_counts_interval: s(5),
            marker_orphan_age: s(5 * 60),
            pool_delete_settle: s(6),
            garm_connect: s(10),
            garm_call: s(60),
            token_renew_before: s(5 * 60),
            login_backoff_base: s(5),
            login_backoff_cap: s(2 * 60),
            busy_retry: Duration::from_millis(100),
            probe_min: s(2),
            probe_max: s(10),
            instance_list_gap: s(5),
            tombstone: s(60),
            manager_reread: s(5),
            manager_reread_first: s(60),
            manager_reread_slow: s(30),
            socket_ping: s(20),
            socket_silence: s(60),
            socket_redial_min: s(1),
            socket_redial_max: s(30),
            kube_call: s(30),
            shutdown_drop: s(2),
            shutdown_total: s(10),
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
        // Never zero where it was not: a pause of nothing is a busy loop.
        let f = |time: Duration| {
            let scaled =
                Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX);
            if time.is_zero() {
                time
            } else {
                scaled.max(Duration::from_millis(1))
            }
        };
        Self {
            resync: f(self.resync),
            runner_poll: f(self.runner_poll),
            min_idle_runners_age: f(self.min_idle_runners_age),
            backoff_base: f(self.backoff_base),
            backoff_cap: f(self.backoff_cap),
            deletion_pace_min: f(self.deletion_pace_min),
            deletion_pace_max: f(self.deletion_pace_max),
            status_counts_interval: f(self.status_counts_interval),
            marker_orphan_age: f(self.marker_orphan_age),
            pool_delete_settle: self.pool_delete_settle,
            garm_connect: self.garm_connect,
            garm_call: self.garm_call,
            token_renew_before: f(self.token_renew_before),
            login_backoff_base: f(self.login_backoff_base),
            login_backoff_cap: f(self.login_backoff_cap),
            busy_retry: f(self.busy_retry),
            probe_min: f(self.probe_min),
            probe_max: f(self.probe_max),
            instance_list_gap: f(self.instance_list_gap),
            tombstone: f(self.tombstone),
            manager_reread: f(self.manager_reread),
            manager_reread_first: f(self.manager_reread_first),
            manager_reread_slow: f(self.manager_reread_slow),
            socket_ping: f(self.socket_ping),
            socket_silence: f(self.socket_silence),
            socket_redial_min: f(self.socket_redial_min),
            socket_redial_max: f(self.socket_redial_max),
            kube_call: self.kube_call,
            shutdown_drop: f(self.shutdown_drop),
            shutdown_total: f(self.shutdown_total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_our_own_times_and_keeps_those_of_others() {
        let (full, tenth) = (Timings::default(), Timings::default().scaled(0.1));
        assert_eq!(tenth.resync, full.resync / 10);
        assert_eq!(tenth.garm_call, full.garm_call);
        assert_eq!(tenth.pool_delete_settle, full.pool_delete_settle);
    }

    #[test]
    fn never_scales_to_nothing_or_beyond_measure() {
        assert_eq!(
            Timings::default().scaled(1e-30).socket_ping,
            Duration::from_millis(1)
        );
        assert_eq!(Timings::default().scaled(1e300).socket_ping, Duration::MAX);
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Timings::default().scaled(factor), Timings::default());
        }
    }

    #[test]
    fn a_wrong_password_is_tried_at_most_ten_times_in_ten_minutes() {
        let timings = Timings::default();
        let (mut clock, mut delay, mut tries) = (Duration::ZERO, timings.login_backoff_base, 0);
        while clock <= Duration::from_secs(600) {
            tries += 1;
            clock += delay;
            delay = (delay * 2).min(timings.login_backoff_cap);
        }
        assert!(tries <= 10, "{tries}");
    }
}
