//! Seeded mutators of what comes from outside: whatever the bytes, nothing panics and every answer is one.
//!
//! Each runs for `MUTATOR_SECONDS` (1 by default), from `MUTATOR_SEED` on. Every input has a seed of its own, which a failure names, so
//! that `MUTATOR_SEED=<that> MUTATOR_SECONDS=0` makes the same input again, and no other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod admission;
mod conversion;
mod mutate;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// Runs inputs through a check until the time is over; at least one.
fn run(input: impl Fn(&mut StdRng) -> Vec<u8>, check: impl Fn(&[u8])) {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let end = Instant::now() + Duration::from_secs(number("MUTATOR_SECONDS", 1));
    let first = number("MUTATOR_SEED", 0);
    let mut seed = first;
    loop {
        let bytes = input(&mut StdRng::seed_from_u64(seed));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&bytes))) {
            eprintln!("seed {seed}: {}", bytes.escape_ascii());
            resume_unwind(panic);
        }
        seed = seed.wrapping_add(1);
        if Instant::now() >= end {
            break;
        }
    }
    println!("{} inputs", seed.wrapping_sub(first));
}
