//! Growing pauses with jitter.

use std::time::Duration;

use rand::Rng;

/// A pause that doubles, from a first to a longest one.
pub(super) struct Pause {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    pub(super) fn new((first, longest): (Duration, Duration)) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// Begins with the first one again.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Gives the next one, shortened at random by up to a fifth so that many do not come at once.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::rng().random_range(0.8..1.0));
        self.next = (self.next * 2).min(self.longest);
        pause
    }

    /// Waits for the next one.
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_begins_again() {
        let second = Duration::from_secs(1);
        let mut pause = Pause::new((second, second * 3));
        for expected in [1, 2, 3, 3] {
            let expected = second * expected;
            let found = pause.next();
            assert!(
                found <= expected && found >= expected.mul_f64(0.8),
                "{found:?}"
            );
        }
        pause.reset();
        assert!(pause.next() <= second);
    }
}
