//! From a lease to the instants of a job.

use std::time::Duration;

use leasehold::validity::Moment;

use super::page::Due;

/// What is kept back of a lease's validity for ending the job: nothing of it may be left when another gets the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    kill_after: Duration,
    killing_takes: Duration,
}

impl Reserve {
    /// For a lease of this TTL and a job that has `kill_after` to end.
    ///
    /// Killing takes time, too: 50 ms are enough for some hundred processes, 250 ms for two thousand.
    pub fn of(ttl: Duration, kill_after: Duration) -> Reserve {
        let killing_takes = (ttl / 20).clamp(Duration::from_millis(50), Duration::from_millis(250));
        Reserve { kill_after, killing_takes }
    }

    /// The instants for a lease that is valid so long.
    pub fn due(self, valid_until: Moment) -> Due {
        let kill_at = valid_until - self.killing_takes;
        Due { term_at: (kill_at - self.kill_after).as_nanos(), kill_at: kill_at.as_nanos() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_dead_before_the_validity_ends() {
        let ms = Duration::from_millis;
        for (ttl, reserve) in [(ms(1000), 50), (ms(2000), 100), (ms(60_000), 250)] {
            let due = Reserve::of(ttl, ms(300)).due(Moment::from_nanos(10_000_000_000));
            assert_eq!(due.kill_at, 10_000_000_000 - reserve * 1_000_000, "{ttl:?}");
            assert_eq!(due.term_at, due.kill_at - 300_000_000, "{ttl:?}");
        }
        let over = Reserve::of(ms(1000), ms(300)).due(Moment::from_nanos(1));
        assert_eq!(over, Due { term_at: 0, kill_at: 0 }, "a lease that has ended is over");
    }
}
