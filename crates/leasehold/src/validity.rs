//! The only place that turns a TTL into a deadline.
//!
//! A store ends a lease by *its* clock, one TTL after it executed the request. We may believe in the
//! lease for less than that, counted from before the request was **sent** (the store can't have executed
//! it earlier), on a clock that runs on while the machine is suspended. No wall clock takes part, so
//! nothing that sets one can make two holders.
//!
//! The same rule as openraft's leader lease and etcd's lessor: anchor at the send, leave a margin for
//! clocks that run at slightly different rates.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::unix::AsyncFd;

/// How much two clocks may differ in *rate*: one per cent, a hundred times what crystals do.
pub const DRIFT: f64 = 0.01;

/// Taken off every validity for granularity: stores count in milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

/// How long a lease of `ttl` may be believed in: `ttl · (1−ρ)/(1+ρ) − 2 ms`, ρ = [`DRIFT`].
///
/// ```
/// # use std::time::Duration;
/// let valid = leasehold::validity::of(Duration::from_secs(30));
/// assert!(valid > Duration::from_millis(29_400) && valid < Duration::from_millis(29_410));
/// ```
#[must_use]
pub fn of(ttl: Duration) -> Duration {
    ttl.mul_f64((1.0 - DRIFT) / (1.0 + DRIFT)).saturating_sub(ROUNDING)
}

/// How long to wait, by our clock, until `span` has passed by any other: `span · (1+ρ)/(1−ρ)`, ρ = [`DRIFT`].
#[must_use]
pub fn outlasting(span: Duration) -> Duration {
    span.mul_f64((1.0 + DRIFT) / (1.0 - DRIFT))
}

/// When a lease of `ttl` must no longer be believed in, if the request for it was sent at `sent`.
#[must_use]
pub fn until(sent: Moment, ttl: Duration) -> Moment {
    sent + of(ttl)
}

/// The latest moment, by our clock, at which a span that somebody else had left when they answered is over, if the answer
/// came at `received`.
#[must_use]
pub fn surely_over(received: Moment, span: Duration) -> Moment {
    received + outlasting(span) + ROUNDING
}

/// [`DRIFT`] in parts per million, as stores keep it.
#[must_use]
pub fn parts_per_million() -> u32 {
    (DRIFT * 1e6) as u32
}

/// A point on a monotonic clock that counts suspended time too. Comparable within one machine's boot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// Later than every other.
    pub const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds of the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds of the clock.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero if that lies later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Where moments come from: the seam at which tests move time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Moment;

    /// Resolves once `now() >= at`, also when the machine slept meanwhile. Polled on the keeper's runtime only.
    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()>;
}

/// The real clock: `CLOCK_BOOTTIME`, and a timer on it.
///
/// `std::time::Instant` and Tokio's timers stand still while a machine is suspended; a laptop that
/// wakes up after an hour would go on believing in its lease.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME)
            .expect("CLOCK_BOOTTIME exists since Linux 2.6.39");
        Moment(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if at == Moment::NEVER {
                return std::future::pending().await;
            }
            let timer = boot_timer(at).ok();
            // An interrupted wait is no reason to fire early: ask the clock.
            while BootClock.now() < at {
                match &timer {
                    Some(timer) => match timer.readable().await {
                        Ok(mut ready) => ready.clear_ready(),
                        Err(_) => nap(at).await,
                    },
                    None => nap(at).await,
                }
            }
        })
    }
}

/// A step on the way to `at` for when there is no timer to be had, in a process that has used up its descriptors:
/// Tokio's timers need none. Short, for they don't count suspended time.
async fn nap(at: Moment) {
    let left = at.since(BootClock.now());
    tokio::time::sleep(left.min(Duration::from_millis(100))).await;
}

/// A kernel timer that fires at `at` on the boot-time clock.
fn boot_timer(at: Moment) -> std::io::Result<AsyncFd<OwnedFd>> {
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
    let at = TimeSpec::from_duration(Duration::from_nanos(at.0.max(1)));
    timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
    #[expect(deprecated, reason = "sound for an OwnedFd; its successor is an unsafe function")]
    AsyncFd::new(OwnedFd::from(timer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_shorter_than_the_ttl_by_drift_on_both_clocks() {
        for ms in [1_000_u64, 2_000, 30_000, 3_600_000] {
            let ttl = Duration::from_millis(ms);
            // Our clock slow by ρ and the store's fast by ρ: real time of our validity ≤ real time of the TTL.
            let ours = of(ttl).as_secs_f64() / (1.0 - DRIFT);
            let stores = ttl.as_secs_f64() / (1.0 + DRIFT);
            assert!(ours < stores, "{ms} ms: {ours} < {stores}");
        }
        assert_eq!(of(Duration::from_millis(1)), Duration::ZERO);
    }

    #[tokio::test]
    async fn the_boot_timer_fires_at_its_moment_and_not_before() {
        let at = BootClock.now() + Duration::from_millis(30);
        BootClock.sleep_until(at).await;
        assert!(BootClock.now() >= at);
    }
}
