//! What the API server asks us while it serves others: reviews in, answers out, all from memory.

pub mod convert;
