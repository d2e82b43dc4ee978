//! Which run of a schedule, or which piece of work, a claim is for; and how it went.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::lease::HolderId;
use crate::span::Span;

/// One instant at which a schedule is due. Its nominal time in UTC is its identity: nodes whose clocks differ mean
/// the same run by the same tick, however late they come.
///
/// ```
/// use leasehold::Tick;
///
/// let tick = Tick::from_unix_millis(1_796_004_000_000).unwrap();
/// assert_eq!(tick.to_string(), "2026-11-30T02:00:00Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(i64);

impl Tick {
    /// The only tick of an idempotency key: it has no time.
    pub const ONLY: Self = Self(0);

    /// The tick at so many milliseconds after the beginning of 1970 in UTC; none before that or after the year 9999.
    #[must_use]
    pub fn from_unix_millis(millis: i64) -> Option<Self> {
        (millis > 0 && Timestamp::from_millisecond(millis).is_ok()).then_some(Self(millis))
    }

    /// Milliseconds since the beginning of 1970 in UTC; 0 for [`ONLY`](Self::ONLY).
    #[must_use]
    pub const fn as_unix_millis(self) -> i64 {
        self.0
    }

    /// How it stands to the store's clock, which shows `now` since 1970; marks are kept for `keep`.
    ///
    /// # Errors
    /// Why it is not to be claimed now, whatever its mark says.
    pub fn window(self, now: Duration, keep: Duration) -> Result<(), NotDue> {
        if self == Self::ONLY {
            return Ok(());
        }
        let at = Duration::from_millis(self.0.unsigned_abs());
        let ahead = at.saturating_sub(now);
        if ahead > TICK_SLACK {
            return Err(NotDue::InFuture { ahead });
        }
        let behind = now.saturating_sub(at);
        if behind > keep.saturating_sub(TICK_SLACK) {
            return Err(NotDue::TooOld { behind });
        }
        Ok(())
    }
}

/// How far ahead of the store's clock a tick may be, and how long before its mark may be forgotten it is too old: what
/// the clocks of nodes may differ by.
pub const TICK_SLACK: Duration = Duration::from_secs(5 * 60);

/// `2026-11-30T02:00:00Z`.
impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ONLY {
            return f.write_str("its only run");
        }
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::MAX).fmt(f)
    }
}

/// The part of a claim that says for which tick it is.
///
/// A claim with a tick is granted only if that tick is newer than the name's *mark*, the newest tick that was ever
/// claimed, or stands open beside it: claimed, and not finished. The mark only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The tick.
    pub tick: Tick,
    /// Whether it may be claimed again when whoever claimed it has failed or died (at least once); else whoever starts
    /// it first is the only one (at most once).
    pub retry_failed: bool,
    /// For how long the mark has to be remembered. A tick that is older than that less [`TICK_SLACK`] is refused.
    pub keep: Duration,
}

/// How a tick stands to a claim for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It may be claimed.
    ForClaim,
    /// It is being run by somebody whose lease is alive.
    Running,
    /// It is not to be run.
    Over(NotDue),
}

impl Due {
    /// How this tick stands, beside a mark that is at `newest`, with what is `open` of it, if `is_alive` says who
    /// still has a lease. The rule that every store has to follow, in one place for those that can call it.
    pub fn standing(
        self,
        newest: Option<Tick>,
        open: Option<&OpenTick>,
        is_alive: impl Fn(HolderId) -> bool,
    ) -> Standing {
        let Some(newest) = newest.filter(|newest| self.tick <= *newest) else { return Standing::ForClaim };
        match open {
            Some(open) if open.holder.is_some_and(is_alive) => Standing::Running,
            Some(open) if open.is_for(self) => Standing::ForClaim,
            open => Standing::Over(NotDue::Claimed { newest, unfinished: open.is_some() }),
        }
    }
}

/// A tick that was claimed and is not known to be done, as stores remember it beside the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTick {
    /// Who claimed it last; none if that one has said that it never began.
    pub holder: Option<HolderId>,
    /// How many have begun it, or may have.
    pub attempts: u32,
    /// Whether it was claimed by somebody who wanted it to run once at most.
    pub once: bool,
}

impl OpenTick {
    /// A tick that `holder` claims for the first time.
    #[must_use]
    pub fn new(holder: HolderId, due: Due) -> Self {
        Self { holder: Some(holder), attempts: 1, once: !due.retry_failed }
    }

    /// Whether a claim may have it, its holder's lease being over: anybody's if nobody has begun it; else only if both
    /// that one and this one want it to be tried again. What a claim asks for today can't undo what one was promised.
    #[must_use]
    pub fn is_for(&self, due: Due) -> bool {
        self.attempts == 0 || (!self.once && due.retry_failed)
    }

    /// The same, claimed by `holder`. It counts even if that is who had it: the first answer may have begun it.
    #[must_use]
    pub fn again(&self, holder: HolderId, due: Due) -> Self {
        Self { attempts: self.attempts.saturating_add(1), ..Self::new(holder, due) }
    }

    /// The same, its holder never having begun.
    #[must_use]
    pub fn taken_back(&self) -> Self {
        Self { holder: None, attempts: self.attempts.saturating_sub(1), ..*self }
    }
}

/// How the work of a tick went; goes with the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is done. Counts whoever holds the lock by now: what is done is done.
    Done(Tick),
    /// It was begun, and is not known to be done.
    Failed,
    /// It never was begun, and never will be by this holder: the next node may. Must be true.
    NotStarted,
}

/// Why a tick is not granted, whoever holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDue {
    /// It has been claimed before, or a newer one has.
    Claimed {
        /// The newest tick that was claimed.
        newest: Tick,
        /// It is this one that was claimed, and nobody has said how it ended: the holder died, or its lease ended first.
        unfinished: bool,
    },
    /// It is too far ahead of the store's clock: the clock of whoever asks is fast.
    InFuture {
        /// How far.
        ahead: Duration,
    },
    /// It is so old that it may have been claimed and forgotten.
    TooOld {
        /// How far behind the store's clock.
        behind: Duration,
    },
}

impl fmt::Display for NotDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed { newest: Tick::ONLY, unfinished: false } => f.write_str("it has had its run"),
            Self::Claimed { unfinished: true, .. } => {
                f.write_str("it was begun before, and whoever began it has not said how it ended")
            }
            Self::Claimed { newest, unfinished: false } => {
                write!(f, "it is over: all up to {newest} count as claimed")
            }
            Self::InFuture { ahead } => {
                write!(f, "it is {} ahead of the store's clock: set this machine's clock", Span(*ahead))
            }
            Self::TooOld { behind } => {
                write!(
                    f,
                    "it is {} behind the store's clock, and such old ones are not remembered any more",
                    Span(*behind)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_tick_has_a_window_of_time() {
        let tick = Tick(HOUR.as_millis() as i64 * 1000);
        let at = HOUR * 1000;
        assert_eq!(tick.window(at, HOUR), Ok(()));
        assert_eq!(tick.window(at - TICK_SLACK, HOUR), Ok(()));
        let ahead = TICK_SLACK + MILLI;
        assert_eq!(tick.window(at - ahead, HOUR), Err(NotDue::InFuture { ahead }));
        assert_eq!(tick.window(at + HOUR - TICK_SLACK, HOUR), Ok(()));
        let behind = HOUR - TICK_SLACK + MILLI;
        assert_eq!(tick.window(at + behind, HOUR), Err(NotDue::TooOld { behind }));
    }

    #[test]
    fn the_only_tick_has_no_time() {
        assert_eq!(Tick::ONLY.window(Duration::MAX, HOUR), Ok(()));
        assert_eq!(Tick::from_unix_millis(0), None);
    }

    #[test]
    fn times_that_no_calendar_has_are_no_ticks() {
        assert_eq!(Tick::from_unix_millis(-1), None);
        assert_eq!(Tick::from_unix_millis(i64::MAX), None);
        assert_eq!(Tick::from_unix_millis(1_796_004_000_500).unwrap().to_string(), "2026-11-30T02:00:00.5Z");
    }
}
