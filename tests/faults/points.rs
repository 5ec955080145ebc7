//! When the operator is killed, and what came of it.

use std::{
    collections::BTreeMap,
    fmt,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use clap::ValueEnum;

use crate::cycle::Done;

/// Whom a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Target {
    /// GARM.
    Garm,
    /// The Kubernetes API server.
    Kubernetes,
}

/// On which side of a request the operator is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The server has not seen it.
    Before,
    /// The server has carried it out, the operator has not heard of it.
    After,
}

/// One point to be killed at: before or after the n-th request to a server, counted from 0.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub target: Target,
    pub moment: Moment,
    pub number: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            moment,
            number,
        } = self;
        write!(formatter, "{moment:?} request {number} to {target:?}")
    }
}

/// The points of a run, handed out to several lanes, and the results.
#[derive(Debug)]
pub struct Points {
    to: Option<usize>,
    step: NonZeroUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The next number of each series; a series ends at the first number that no life reaches.
    next: BTreeMap<(Target, Moment), usize>,
    kills: BTreeMap<(Target, Moment), usize>,
    operations: usize,
    checks: usize,
    violations: Vec<String>,
}

impl Points {
    pub fn new(only: Option<Target>, from: usize, to: Option<usize>, step: NonZeroUsize) -> Self {
        let targets = [Target::Garm, Target::Kubernetes];
        let wanted = targets
            .into_iter()
            .filter(|target| only.is_none_or(|only| only == *target));
        let next = wanted
            .flat_map(|target| {
                [Moment::Before, Moment::After].map(|moment| ((target, moment), from))
            })
            .collect();
        Self {
            to,
            step,
            state: Mutex::new(State {
                next,
                ..State::default()
            }),
        }
    }

    /// The next point, if there is one.
    pub fn next(&self) -> Option<Point> {
        let mut state = self.state();
        let (&(target, moment), next) = state
            .next
            .iter_mut()
            .find(|(_, next)| self.to.is_none_or(|to| **next < to))?;
        let number = *next;
        *next += self.step.get();
        Some(Point {
            target,
            moment,
            number,
        })
    }

    /// Notes what came of a point.
    pub fn done(&self, point: Point, result: Result<Done>) {
        let series = (point.target, point.moment);
        let mut state = self.state();
        match result {
            Ok(done) => {
                eprintln!(
                    "{point}: {}",
                    done.killed_at.as_deref().unwrap_or("no such request")
                );
                state.operations += done.operations;
                state.checks += done.checks;
                if done.killed_at.is_some() {
                    *state.kills.entry(series).or_default() += 1;
                } else {
                    state.next.remove(&series);
                }
            }
            Err(error) => {
                eprintln!("{point}: VIOLATION: {error:#}");
                state.violations.push(format!("{point}: {error:#}"));
            }
        }
    }

    pub fn violations(&self) -> usize {
        self.state().violations.len()
    }

    /// The counts, as lines.
    pub fn report(&self) -> String {
        let state = self.state();
        let mut lines: Vec<String> = state
            .kills
            .iter()
            .map(|((target, moment), count)| {
                format!("killed {moment:?} a request to {target:?}: {count}")
            })
            .collect();
        lines.push(format!("operations done: {}", state.operations));
        lines.push(format!("invariants checked: {}", state.checks));
        lines.push(format!("violations: {}", state.violations.len()));
        lines.extend(state.violations.iter().cloned());
        lines.join("\n")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
