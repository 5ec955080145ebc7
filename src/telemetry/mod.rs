//! What the process tells about itself: logs and metrics.

pub mod level;
pub mod log;
pub mod metrics;
mod process;
pub mod reference;
pub mod state;
