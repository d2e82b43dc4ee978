//! What a claim is answered, as columns.

use super::shown::{Shown, Taken};
use super::{span, wrong_clock};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim, FencingToken, Grant, disagreement};
use crate::tick::{NotDue, Tick};

/// The answer to a claim. What an outcome doesn't speak of is none.
#[derive(Debug, Default)]
pub(crate) struct Acquired {
    /// 1 granted, 2 held, 3 claimed before, 4 ahead of the clock, 5 behind it, 6 others have another number of permits,
    /// 7 the clock is wrong. Under a route also 8 another one, 9 the claimant has a lease of a later one, 10 no token is left.
    pub outcome: i32,
    /// Granted: the token.
    pub token: Option<i64>,
    /// Granted: how often the tick was claimed. Claimed before: 1 if it isn't finished.
    pub attempt: Option<i32>,
    /// Granted: a tick that was given up. Claimed before: the newest one. Ahead, behind: by how much.
    pub value: Option<i64>,
    /// Held: how many stand before the claimant.
    pub ahead: Option<i64>,
    /// Held: the claimant's place, if it queues.
    pub ticket: Option<i64>,
    /// How many may hold it, as its holders said.
    pub permits: Option<i64>,
    /// Held: its slots that are taken, and the first one.
    pub taken: Vec<Taken>,
}

impl Acquired {
    /// Reads it. `shown` is the store.
    pub fn attempt(self, claim: &Claim, shown: &str) -> Result<Attempt> {
        let value = self.value.unwrap_or(0);
        match self.outcome {
            1 => Ok(Attempt::Granted(Grant {
                attempt: u32::try_from(self.attempt.unwrap_or(0)).unwrap_or(0),
                gave_up: self.value.map(tick),
                ..Grant::of(FencingToken::new(self.token.unwrap_or(0).cast_unsigned()))
            })),
            2 => {
                let name = claim.name.as_str().to_owned();
                let waiting = self.ahead.unwrap_or(0);
                let held = Shown { name, waiting, permits: self.permits.unwrap_or(1), taken: self.taken };
                let ticket = self.ticket.map(i64::cast_unsigned);
                Ok(Attempt::Held(crate::lease::Holding { ticket, ..held.holding()? }))
            }
            outcome @ 3..=5 => Ok(Attempt::NotDue(not_due(outcome, value, self.attempt == Some(1)))),
            6 => Err(disagreement(claim, self.permits.and_then(|permits| u32::try_from(permits).ok()).unwrap_or(1))),
            7 => Err(wrong_clock(shown)),
            other => Err(unreadable(other, shown)),
        }
    }
}

/// Why a tick is not due: 3 claimed before, 4 ahead of the clock, 5 behind it.
pub(super) fn not_due(outcome: i32, value: i64, unfinished: bool) -> NotDue {
    match outcome {
        4 => NotDue::InFuture { ahead: span(value) },
        5 => NotDue::TooOld { behind: span(value) },
        _ => NotDue::Claimed { newest: tick(value), unfinished },
    }
}

pub(super) fn unreadable(outcome: i32, shown: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("a procedure of ours in {shown} answered {outcome}")).maybe_applied()
}

/// A tick as it was stored.
pub(super) fn tick(millis: i64) -> Tick {
    Tick::from_unix_millis(millis).unwrap_or(Tick::ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::HolderId;
    use crate::name::LockName;

    #[test]
    fn what_nobody_can_read_may_have_happened() {
        let claim = Claim::new(
            LockName::new("job").unwrap(),
            HolderId::fresh(),
            "me".into(),
            std::time::Duration::from_secs(1),
        );
        let error = Acquired { outcome: 99, ..Acquired::default() }.attempt(&claim, "here").unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Internal, crate::error::Applied::Maybe));
    }
}
