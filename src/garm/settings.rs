//! What the connection to one GARM needs to know.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;

use secrecy::SecretString;
use url::Url;

use super::error::{Error, Transport};

/// The connection to one GARM.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where GARM is; its path is kept and `/api/v1` appended.
    pub base_url: Url,
    /// The admin's name.
    pub username: String,
    /// The admin's password.
    pub password: PasswordSource,
    /// Whether to make the admin user of a fresh GARM.
    pub init: bool,
    /// The address of an admin user that is made.
    pub email: String,
    /// PEM certificates to trust instead of the system's; read again when the file changes.
    pub ca_file: Option<PathBuf>,
    /// Intervals, ages and limits.
    pub timings: Timings,
    /// Whether to list instances every [`Timings::runners_interval`] while the events socket is down.
    pub poll_instances: bool,
    /// Whether a request may begin.
    pub permit: Permit,
}

/// Says whether a request to GARM may begin; by default each one may. It is asked just before.
///
/// Once it answers no it must not answer yes again: a request that may not begin does not fail, which would be taken for news of GARM, but
/// waits until whoever made it is dropped.
#[derive(Clone)]
pub struct Permit(Arc<dyn Fn() -> bool + Send + Sync>);

impl Permit {
    /// Makes a permit that this function decides on; it has to be quick.
    pub fn new(may_begin: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(may_begin))
    }

    /// Goes on if a request may begin, and else never.
    pub(super) async fn wait(&self) {
        if !(self.0)() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Permit {
    fn default() -> Self {
        Self::new(|| true)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}

/// Where the password comes from.
#[derive(Debug, Clone)]
pub enum PasswordSource {
    /// Given.
    Value(SecretString),
    /// A file, read again at each login; a newline at its end is cut.
    File(PathBuf),
}

impl PasswordSource {
    /// Reads the password.
    pub(super) async fn read(&self) -> Result<SecretString, Error> {
        let path = match self {
            Self::Value(password) => return Ok(password.clone()),
            Self::File(path) => path,
        };
        let text = tokio::fs::read_to_string(path).await.map_err(|error| {
            let fault = format!("{} could not be read: {}", path.display(), error.kind());
            Error::Transport(Transport::PasswordFile(fault))
        })?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned().into())
    }
}

/// Intervals, ages and limits of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest wait for an answer, GARM's own wait for GitHub included.
    pub call: Duration,
    /// How long a write keeps others back at most; one that takes longer no longer holds GARM's database.
    pub write_turn: Duration,
    /// Longest pause before something is tried again that GARM's locked database failed.
    pub retry: Duration,
    /// Pauses between logins that GARM refuses, first and longest.
    pub login_backoff: (Duration, Duration),
    /// How often everything is listed.
    pub sync_period: Duration,
    /// How often instances are listed while the events socket is down.
    pub runners_interval: Duration,
    /// Shortest time between two lists of all instances: on v0.2.x such a list blocks GARM's writers.
    pub instance_list_gap: Duration,
    /// How often the events socket is pinged.
    pub ping: Duration,
    /// Silence after which the events socket counts as dead.
    pub silence: Duration,
    /// Pauses between dials of the events socket, first and longest.
    pub dial_backoff: (Duration, Duration),
    /// Pauses between probes of a GARM that does not answer, first and longest.
    pub probe_backoff: (Duration, Duration),
    /// How long GARM may not answer before that is said aloud: a restart takes a second.
    pub grace: Duration,
    /// How often the controller is read while GARM waits for its URLs.
    pub urls_poll: Duration,
    /// How long a deleted object's late payloads are mistrusted.
    pub tombstone: Duration,
    /// How long a doubtful object's read waits for the answer that may settle the doubt.
    pub reread_delay: Duration,
    /// How often an entity whose pool manager stands still is read: at first, for how long, and then.
    pub manager_watch: (Duration, Duration, Duration),
}

impl Timings {
    /// Draws the pause before something is tried again that GARM's locked database failed: not all at once once more.
    pub fn pause(&self) -> Duration {
        self.retry.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

impl Default for Timings {
    fn default() -> Self {
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        Self {
            connect: s(10),
            call: s(60),
            write_turn: s(10),
            retry: ms(100),
            login_backoff: (s(10), s(120)),
            sync_period: s(300),
            runners_interval: s(5),
            instance_list_gap: s(5),
            ping: s(20),
            silence: s(60),
            dial_backoff: (s(1), s(30)),
            probe_backoff: (ms(500), s(10)),
            grace: s(5),
            urls_poll: s(5),
            tombstone: s(60),
            reread_delay: ms(30),
            manager_watch: (s(5), s(60), s(30)),
        }
    }
}
