//! How long to pause before asking again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double up to five seconds, and are cut at random: many who lost a store at once must not come back to it
/// at once.
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The next pause: between a half and the whole of what it could be.
    pub fn pause(&mut self) -> Duration {
        let most = self.next;
        self.next = (most * 2).min(LONGEST);
        most.mul_f64(rand::random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_seconds_and_differ() {
        let pauses = || {
            let mut backoff = Backoff::default();
            (0..20).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        let (one, other) = (pauses(), pauses());
        assert!((FIRST / 2..=FIRST).contains(&one[0]), "{one:?}");
        assert!(one[10..].iter().all(|pause| (LONGEST / 2..=LONGEST).contains(pause)), "{one:?}");
        assert_ne!(one, other);
    }
}
