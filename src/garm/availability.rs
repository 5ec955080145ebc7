//! Whether GARM can be worked with, and which versions can.

/// Oldest version that has all routes the operator calls.
const OLDEST: (u64, u64, u64) = (0, 1, 5);

/// Whether GARM can be worked with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Availability {
    /// Not known yet.
    #[default]
    Starting,
    /// It can.
    Ready,
    /// It does not answer, or something else answers in its place.
    Unreachable {
        /// What stands in the way.
        reason: String,
    },
    /// It refuses the operator's user or password.
    LoginRefused {
        /// What it said.
        reason: String,
    },
    /// It has no admin user, and the operator is told not to make one.
    NotInitialised,
    /// It has no controller URLs; everything but the controller waits.
    UrlsRequired,
    /// It is too old.
    Unsupported {
        /// The version found.
        found: String,
    },
}

impl Availability {
    /// Says whether GARM can be worked with.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready)
    }

    /// Says what to do about it.
    pub fn message(&self) -> String {
        match self {
            Self::Starting => "the connection to GARM is being set up".to_owned(),
            Self::Ready => "GARM is ready".to_owned(),
            // Reasons are whole sentences of an error.
            Self::Unreachable { reason } | Self::LoginRefused { reason } => reason.clone(),
            Self::NotInitialised => {
                "GARM is not initialised: make its admin user, or set garm.init to let the operator do it".to_owned()
            }
            Self::UrlsRequired => "GARM has no controller URLs yet: describe them in a GarmServerConfig".to_owned(),
            Self::Unsupported { found } => {
                let (major, minor, patch) = OLDEST;
                format!("GARM {found} is not supported: v{major}.{minor}.{patch} or newer is needed")
            }
        }
    }
}

/// What a version stamp means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    /// New enough.
    Supported,
    /// Not a release's stamp: works, with a warning.
    Unknown,
    /// Too old.
    TooOld,
}

/// Reads a version stamp: a release's, a git description, or none.
pub(super) fn support(version: &str) -> Support {
    match numbers(version) {
        // What an unstamped build reports.
        None | Some((0, 0, 0)) => Support::Unknown,
        Some(found) if found < OLDEST => Support::TooOld,
        Some(_) => Support::Supported,
    }
}

fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let core = version
        .trim()
        .trim_start_matches('v')
        .split(['-', '+'])
        .next()?;
    let mut parts = core.split('.').map(str::parse);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Some((major, minor, patch)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supports_releases_from_v0_1_5_on_and_their_descriptions() {
        for version in [
            "v0.1.5",
            "v0.1.5-3-gabc",
            "v0.2.1-35-g0123456",
            "v0.2.1-dirty",
            "1.0.0",
            "v0.10.0",
        ] {
            assert_eq!(support(version), Support::Supported, "{version}");
        }
    }

    #[test]
    fn refuses_older_releases() {
        for version in ["v0.1.4", "v0.1.4-9-gabc", "v0.0.9"] {
            assert_eq!(support(version), Support::TooOld, "{version}");
        }
    }

    #[test]
    fn accepts_untagged_builds_as_unknown() {
        for version in ["", "v0.0.0-unknown", "main", "g0123456", "v0.2"] {
            assert_eq!(support(version), Support::Unknown, "{version}");
        }
    }
}
