//! A clock that tests can stop.

use futures_util::future::BoxFuture;
use leasehold::validity::{Clock, Moment};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// The time of one Tokio runtime: where that is paused, so is this, and sleeping moves it.
///
/// It may be read from any thread; a thread outside the runtime, like the keeper's, sees the runtime's time too.
/// But a paused runtime jumps to the next timer whenever it has nothing else to do, without waiting for what
/// other threads are about to do.
#[derive(Debug, Clone)]
pub struct PausedClock {
    runtime: Handle,
    start: Instant,
}

impl PausedClock {
    /// Starts the clock, an hour after its zero.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn start() -> Self {
        Self { runtime: Handle::current(), start: Instant::now() }
    }
}

/// So that moments before the start exist.
const START: Moment = Moment::from_nanos(3_600_000_000_000);

impl Clock for PausedClock {
    fn now(&self) -> Moment {
        let _context = self.runtime.enter();
        START + self.start.elapsed()
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        if at == Moment::NEVER {
            return Box::pin(std::future::pending());
        }
        let _context = self.runtime.enter();
        // Timers count in milliseconds; a sleep must not end before its moment.
        let at = self.start + at.since(START) + Duration::from_millis(1);
        Box::pin(tokio::time::sleep_until(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sleeping_moves_it() {
        let clock = PausedClock::start();
        let before = clock.now();
        clock.sleep_until(before + Duration::from_secs(600)).await;
        assert!(clock.now() >= before + Duration::from_secs(600));
        assert!(clock.now() < before + Duration::from_secs(601));
    }

    #[tokio::test(start_paused = true)]
    async fn another_thread_sees_the_same_time() {
        let clock = PausedClock::start();
        tokio::time::advance(Duration::from_secs(50)).await;
        let elsewhere = std::thread::spawn({
            let clock = clock.clone();
            move || clock.now()
        });
        assert_eq!(elsewhere.join().unwrap(), clock.now());
    }
}
