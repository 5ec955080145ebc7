//! What the process tells about itself: logs and metrics.

pub mod log;
pub mod metrics;
mod process;
