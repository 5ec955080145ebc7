//! In which format a scrape is answered.

use prometheus_client::encoding::prometheus_text;

/// Content type of the OpenMetrics text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Content type of the older Prometheus text format.
const TEXT: &str = prometheus_text::CONTENT_TYPE;

/// Text format of a scrape's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
}

impl Format {
    /// Chooses the format from a request's `Accept` header: OpenMetrics where it is named, else the older text.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let wanted = accept.unwrap_or_default().split(',').any(|part| {
            let mut words = part.split(';').map(str::trim);
            words.next() == Some("application/openmetrics-text")
                // A quality of zero means "not this one".
                && !words.any(|word| matches!(word, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        });
        if wanted {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// Names the content type of this format.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => OPENMETRICS,
            Self::Text => TEXT,
        }
    }
}
