//! One held lease: what its guard and the keeper share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::bound::Bound;
use crate::lease::{Ended, FencingToken, Grant, LeaseKey};
use crate::lock::Terms;
use crate::rule::Rule;
use crate::tick::{Tick, Verdict};
use crate::validity::Moment;

/// Why a holder has to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over before it could be renewed: this process or machine was stopped for too long.
    Expired,
    /// The store says that it is no longer ours: taken, cut by an operator, its row or file gone.
    Gone,
    /// An operator revoked it. It stays ours until we release it or its time is over.
    Revoked,
    /// The store could not be reached for so long that the lease is about to end; with the last error.
    Unreachable(String),
    /// It was held for longer than [`max_hold`](crate::Lock::max_hold).
    HeldTooLong,
    /// The job did not [`touch`](crate::Guard::touch) its guard for longer than it said it would.
    NoProgress,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("its time was over before it could be renewed"),
            Self::Gone => f.write_str("the store says that it is held no longer"),
            Self::Revoked => f.write_str("an operator revoked it"),
            Self::Unreachable(error) => write!(f, "it could not be renewed in time ({error})"),
            Self::HeldTooLong => f.write_str("it was held for longer than allowed"),
            Self::NoProgress => f.write_str("the job reported no progress for too long"),
        }
    }
}

/// How many holds there have been.
static HOLDS: AtomicU64 = AtomicU64::new(0);

/// A guard once dead is dead for good: no late answer may revive it.
const DEAD: u64 = 0;

/// The state of one held lease. Small: ten thousand of these are nothing.
pub(crate) struct Hold {
    pub key: LeaseKey,
    pub label: Arc<str>,
    /// Another one for each hold of this process, in order.
    pub number: u64,
    pub token: FencingToken,
    pub tick: Option<Tick>,
    pub attempt: u32,
    pub ttl: Duration,
    pub stop_grace: Duration,
    pub acquired: Moment,
    pub hold_until: Moment,
    at_least_for: Duration,
    progress_within: Option<Duration>,
    valid_until: AtomicU64,
    pub bound: Option<Bound>,
    touched: AtomicU64,
    /// Where the keeper's schedule has it; written under the schedule's lock only.
    pub due: AtomicU64,
    ended: AtomicBool,
    loss: OnceLock<LossReason>,
    bell: Notify,
    telling: Mutex<()>,
}

impl Hold {
    pub fn new(key: LeaseKey, grant: Grant, terms: &Terms, acquired: Moment, valid_until: Moment) -> Self {
        Self {
            key,
            label: Arc::clone(&terms.label),
            number: HOLDS.fetch_add(1, Ordering::Relaxed),
            token: grant.token,
            tick: terms.due.map(|due| due.tick),
            attempt: grant.attempt,
            ttl: terms.ttl,
            stop_grace: terms.stop_grace,
            acquired,
            hold_until: terms.max_hold.map_or(Moment::NEVER, |most| acquired + most),
            at_least_for: terms.at_least_for,
            progress_within: terms.progress_within,
            valid_until: AtomicU64::new(valid_until.as_nanos()),
            bound: grant.bound,
            touched: AtomicU64::new(acquired.as_nanos()),
            due: AtomicU64::new(DEAD),
            ended: AtomicBool::new(false),
            loss: OnceLock::new(),
            bell: Notify::new(),
            telling: Mutex::default(),
        }
    }

    /// Until when it may be believed in; a moment long past if it is dead.
    pub fn valid_until(&self) -> Moment {
        self.bounded(Moment::from_nanos(self.valid_until.load(Ordering::Acquire)))
    }

    fn bounded(&self, until: Moment) -> Moment {
        self.bound.as_ref().map_or(until, |bound| until.min(bound.until()))
    }

    /// Whether it may be believed in at `now`. Seen invalid once, it is dead.
    pub fn is_valid(&self, now: Moment) -> bool {
        let until = self.valid_until.load(Ordering::Acquire);
        if now < self.bounded(Moment::from_nanos(until)) {
            return true;
        }
        if !Rule::GuardsRememberTheirEpoch.holds() {
            return false;
        }
        // Only this value dies: a renewal that came in between has made it valid again, rightly.
        self.valid_until.compare_exchange(until, DEAD, Ordering::AcqRel, Ordering::Acquire).is_err()
            && self.is_valid(now)
    }

    /// Believe in it until `until`, unless it is dead by `now`. Says whether that took effect.
    pub fn extend(&self, until: Moment, now: Moment) -> bool {
        self.is_valid(now)
            && self
                .valid_until
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
                    (old != DEAD).then(|| old.max(until.as_nanos()))
                })
                .is_ok()
    }

    /// No longer to be believed in.
    pub fn die(&self) {
        self.valid_until.store(DEAD, Ordering::Release);
    }

    /// Why it is valid no longer, if nothing else is known.
    pub fn how_it_was_lost(&self) -> LossReason {
        if self.is_revoked() {
            LossReason::Revoked
        } else if self.is_cut() {
            LossReason::Gone
        } else {
            LossReason::Expired
        }
    }

    /// Whether the store has said that an operator has revoked it.
    pub fn is_revoked(&self) -> bool {
        self.bound.as_ref().is_some_and(Bound::is_revoked)
    }

    /// Whether the store has said that it is gone.
    pub fn is_cut(&self) -> bool {
        self.bound.as_ref().is_some_and(Bound::is_cut)
    }

    /// When the holder has to be told to stop, so that it is gone in time.
    pub fn tell_at(&self) -> Moment {
        self.valid_until() - self.stop_grace
    }

    pub fn touch(&self, now: Moment) {
        self.touched.store(now.as_nanos(), Ordering::Release);
    }

    /// Whether the job has reported progress as promised.
    pub fn progresses(&self, now: Moment) -> bool {
        self.progress_within
            .is_none_or(|within| now.since(Moment::from_nanos(self.touched.load(Ordering::Acquire))) <= within)
    }

    /// Tells the holder to stop. The first reason counts; says whether this was it.
    pub fn tell(&self, reason: LossReason) -> bool {
        let first = self.loss.set(reason).is_ok();
        self.bell.notify_waiters();
        first
    }

    pub fn loss(&self) -> Option<&LossReason> {
        self.loss.get()
    }

    pub async fn lost(&self) -> &LossReason {
        loop {
            let mut told = std::pin::pin!(self.bell.notified());
            told.as_mut().enable();
            if let Some(reason) = self.loss() {
                return reason;
            }
            told.await;
        }
    }

    /// While this is kept nobody else tells an observer of the end: so what is told last is what was so last, and never an end
    /// that has fallen since.
    pub fn telling(&self) -> MutexGuard<'_, ()> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks it as given back. Whether it was not before.
    pub fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How it ends if it is given back at `now`. A minimum hold is for work that was begun.
    pub fn how_it_ends(&self, now: Moment, verdict: Verdict) -> Ended {
        let keep_for = match verdict {
            Verdict::NotStarted => Duration::ZERO,
            Verdict::Done(_) | Verdict::Failed => self.at_least_for.saturating_sub(now.since(self.acquired)),
        };
        Ended { keep_for, verdict: self.tick.map(|_| verdict) }
    }
}
