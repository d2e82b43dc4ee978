//! `--once-per` and `--once-key`: what a run is the only one of.

use std::ffi::OsString;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use leasehold::{Lock, Locks, NotDue, Tick};
use leasehold_schedule::Schedule;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::output::{plain, tell};

/// What one run is the only one of, if of anything.
#[derive(Debug)]
pub enum Once {
    /// Of nothing: it may run as often as it comes.
    Not,
    /// Of a slot of a schedule.
    Slot {
        /// When the slot was due.
        tick: Tick,
        /// For how long others may come for it.
        remember: Duration,
    },
    /// Of a piece of work.
    Key {
        /// As it was given.
        key: String,
        /// For how long.
        remember: Duration,
    },
}

impl Once {
    /// Finds out, by the store's clock.
    ///
    /// # Errors
    /// The store can't say what time it is; or no slot of the schedule lies near that time.
    pub async fn of(args: &RunArgs, locks: &Locks) -> Result<Once, Failure> {
        if let Some(key) = &args.once_key {
            return Ok(Once::Key { key: key.clone(), remember: args.remember });
        }
        let Some(schedule) = args.schedule()? else { return Ok(Once::Not) };
        if args.verbose {
            schedule.lints().iter().for_each(|lint| tell(&format!("--once-per: {lint}")));
        }
        let since_1970 = SignedDuration::try_from(locks.time().await?).unwrap_or(SignedDuration::MAX);
        let slot = Timestamp::from_duration(since_1970).ok().and_then(|now| slot(&schedule, now));
        slot.ok_or_else(|| {
            let text = args.once_per.as_deref().unwrap_or_default();
            Failure::new(exit::CONFIG, format!("--once-per {}: no slot lies near the store's time of day", plain(text)))
        })
    }

    /// The lock on these terms.
    pub fn claim(&self, lock: Lock, retry_failed: bool) -> Lock {
        match self {
            Once::Not => lock,
            Once::Slot { tick, remember } => lock.tick(*tick).remember(*remember).retry_failed(retry_failed),
            Once::Key { remember, .. } => lock.tick(Tick::ONLY).remember(*remember).retry_failed(retry_failed),
        }
    }

    /// What the job is told of it.
    pub fn variables(&self, attempt: u32) -> Vec<(OsString, OsString)> {
        let what = match self {
            Once::Not => return Vec::new(),
            Once::Slot { tick, .. } => ("LEASEHOLD_TICK".into(), tick.to_string().into()),
            Once::Key { key, .. } => ("LEASEHOLD_KEY".into(), key.into()),
        };
        vec![what, ("LEASEHOLD_ATTEMPT".into(), attempt.to_string().into())]
    }

    /// What an outer `leasehold` may have said, which is not about this lock.
    pub fn foreign_variables() -> [OsString; 3] {
        ["LEASEHOLD_TICK", "LEASEHOLD_KEY", "LEASEHOLD_ATTEMPT"].map(OsString::from)
    }

    /// The slot, for the report.
    pub fn tick(&self) -> Option<String> {
        match self {
            Once::Slot { tick, .. } => Some(tick.to_string()),
            Once::Not | Once::Key { .. } => None,
        }
    }

    /// Why it is not run, for people.
    pub fn why_not(&self, why: NotDue, retry_failed: bool) -> String {
        let what = match self {
            Once::Slot { tick, .. } => format!("the run of {tick}"),
            Once::Not | Once::Key { .. } => "this key".to_owned(),
        };
        match (why, self) {
            (NotDue::Claimed { unfinished: true, .. }, _) => {
                let hint = if retry_failed {
                    "it was begun without --retry-failed, so once at most"
                } else {
                    "--retry-failed repeats what was begun with it"
                };
                format!("{what} was begun before and is not known to have succeeded; {hint}")
            }
            (NotDue::Claimed { newest, .. }, Once::Slot { tick, .. }) if newest > *tick => {
                format!(
                    "{what} is over: all up to {newest} count as run (a later one has, or the store was founded or repaired)"
                )
            }
            (NotDue::Claimed { .. }, _) => format!("{what} has had its run"),
            (NotDue::InFuture { .. } | NotDue::TooOld { .. }, _) => format!("{what} can't be run now: {why}"),
        }
    }
}

fn slot(schedule: &Schedule, now: Timestamp) -> Option<Once> {
    let slot = schedule.slot(now)?;
    let tick = Tick::from_unix_millis(slot.as_millisecond())?;
    // Whoever comes in the course of this slot means it; a day more for clocks and machines that lag.
    let next = schedule.next_after(slot).unwrap_or(slot);
    let length = Duration::try_from(next.duration_since(slot)).unwrap_or_default();
    Some(Once::Slot { tick, remember: length + LAG })
}

const LAG: Duration = Duration::from_secs(25 * 3600);
