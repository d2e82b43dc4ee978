//! A machine: a clock that is a little off, and a process that may be stopped.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::validity::{Clock, Moment};
use tokio::time::{Instant, sleep, sleep_until};

/// A machine with a clock of its own, which is the process's that runs there: a client's or a store's. Clones are the
/// same. Only in a paused runtime.
#[derive(Debug, Clone)]
pub struct Machine(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// An instant at which the clock's rate was set, and what it showed.
    set: Instant,
    shown: Moment,
    /// How many of its seconds one second has.
    rate: f64,
    stopped_until: Instant,
}

/// So that moments before the start exist.
const START: Moment = Moment::from_nanos(3_600_000_000_000);

impl Machine {
    /// One whose clock is right and has shown an hour.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::now();
        Self(Arc::new(Mutex::new(State { set: now, shown: START, rate: 1.0, stopped_until: now })))
    }

    /// From now on its clock runs fast or slow: by so many of its seconds more in one second.
    pub fn drift(&self, by: f64) {
        let mut state = self.state();
        let now = Instant::now();
        (state.shown, state.set, state.rate) = (state.shows(now), now, 1.0 + by);
    }

    /// Stops the process: it neither sends nor takes what arrives, and none of its timers fire. Its clock goes on.
    pub fn stop_for(&self, span: Duration) {
        let mut state = self.state();
        state.stopped_until = state.stopped_until.max(Instant::now() + span);
    }

    /// Resolves once the process runs.
    pub async fn runs(&self) {
        loop {
            let until = self.state().stopped_until;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Does nothing for a span of its time, and longer if it is stopped.
    pub async fn idles(&self, span: Duration) {
        self.sleep_until(self.now() + span).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is locked")
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn shows(&self, now: Instant) -> Moment {
        self.shown + now.duration_since(self.set).mul_f64(self.rate)
    }
}

impl Clock for Machine {
    fn now(&self) -> Moment {
        self.state().shows(Instant::now())
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        let machine = self.clone();
        Box::pin(async move {
            if at == Moment::NEVER {
                return std::future::pending().await;
            }
            // Its rate may change on the way.
            loop {
                let left = at.since(machine.now());
                if left.is_zero() {
                    break;
                }
                let rate = machine.state().rate;
                sleep(left.div_f64(rate) + Duration::from_millis(1)).await; // Timers count in milliseconds.
            }
            machine.runs().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn its_clock_drifts_and_never_jumps() {
        let machine = Machine::new();
        let began = machine.now();
        machine.drift(0.01);
        sleep(HOUR).await;
        assert_eq!(machine.now().since(began), HOUR + HOUR / 100);
        machine.drift(-0.01);
        assert_eq!(machine.now().since(began), HOUR + HOUR / 100);
        sleep(HOUR).await;
        assert_eq!(machine.now().since(began), 2 * HOUR);
    }

    #[tokio::test(start_paused = true)]
    async fn while_it_is_stopped_its_timers_do_not_fire_and_its_clock_goes_on() {
        let (machine, began) = (Machine::new(), Instant::now());
        machine.stop_for(HOUR);
        machine.idles(HOUR / 4).await;
        assert!(began.elapsed() >= HOUR);
        assert!(machine.now().since(START) >= HOUR);
    }
}
