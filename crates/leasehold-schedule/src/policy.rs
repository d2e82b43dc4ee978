//! What becomes of ticks that can't be run when they are due.

use std::time::Duration;

/// What becomes of ticks that nobody ran when they were due: no node was up, or none could reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// The latest one is run, late; the others are recorded as missed.
    #[default]
    Latest,
    /// None is run: all are recorded as missed. A tick is missed a minute after it was due.
    Skip,
    /// The latest so many are run, one after the other, the oldest first.
    All {
        /// How many at most.
        most: u32,
    },
}

/// What becomes of a tick that is due while the job still runs for an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// It isn't run, and recorded as skipped.
    #[default]
    Skip,
    /// It waits until the other has ended, or a later one is due: then that one waits in its place.
    Queue,
    /// It runs beside the other, up to so many at a time.
    Allow(u32),
}

/// How often a run that fails is tried again: by the same node, under the same lock, for the same tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// How often, after the first time.
    pub most: u32,
    /// How long to wait before the first retry. Twice as long before each further one.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Retries {
    /// None: what has failed has failed.
    pub const NONE: Self = Self { most: 0, first: Duration::ZERO, longest: Duration::ZERO };

    /// How long to wait before this attempt, the first being 1.
    pub(crate) fn pause_before(self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(2).min(31);
        if attempt < 2 { Duration::ZERO } else { self.first.saturating_mul(1 << doublings).min(self.longest) }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_twice_the_last_up_to_the_longest() {
        let second = Duration::from_secs(1);
        let retries = Retries { most: 4, first: second, longest: second * 5 };
        let pauses: Vec<_> = (0..7).map(|attempt| retries.pause_before(attempt).as_secs()).collect();
        assert_eq!(pauses, [0, 0, 1, 2, 4, 5, 5]);
        assert_eq!(Retries { longest: Duration::MAX, ..retries }.pause_before(u32::MAX), second * (1 << 31));
    }
}
