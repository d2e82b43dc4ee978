//! What the stores in the databases of servers have in common: the operations on the tables of leases, what each is
//! asked and how its answer is read. How an operation does its work is written in the dialect of each server.
//!
//! Durations and instants are whole microseconds, ticks milliseconds. An instant is the server's.
//!
//! | operation | asked | answers |
//! |---|---|---|
//! | acquire | [`Asked`] | [`Acquired`] |
//! | release | name, holder, for how long the name is kept, [`Said`] | whether it was the holder's |
//! | leave | name, holder | nothing |
//! | renew | names, holders and TTLs | [`renewal`] for each |
//! | revoke | name, holder or none, whether at once | [`Shown`], if there was anything |
//! | look | name or none | [`Shown`] for each name |
//! | reset | name | whether there was a mark |
//!
//! What an arbiter is asked beside these stands in [`arbiter`]; an acquire and a renewal are given an epoch then. Notes, whose
//! times are milliseconds, are in [`notes`].

mod acquired;
pub(super) mod advisory;
pub(super) mod arbiter;
mod asked;
pub(super) mod clock;
pub(super) mod inventory;
mod keys;
mod mode;
pub(super) mod notes;
pub(super) mod shedlock;
mod shown;
mod url;

use std::time::Duration;

pub(super) use self::acquired::Acquired;
pub(super) use self::asked::{Asked, Said};
pub(super) use self::keys::KeyScheme;
pub(super) use self::mode::{Mode, another_mode, check_scheme, mode_finding, of_another_mode};
pub(super) use self::shown::{Shown, Taken, by_name};
pub(super) use self::url::{Host, Url};
use crate::error::{Error, ErrorKind};
use crate::lease::Renewal;

/// More than any duration that makes sense, and small enough to be added to any instant.
const LONGEST: i64 = 100_000_000_000_000_000;

/// Whole microseconds; less than one is one.
pub(super) fn micros(span: Duration) -> i64 {
    let whole = i64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(LONGEST);
    whole.min(LONGEST)
}

/// What a number of microseconds is; nothing if it is negative.
pub(super) fn span(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The answer of a renewal, by its number; none if somebody was at the lease, and it has to be asked again.
pub(super) fn renewal(answer: i32) -> Option<Renewal> {
    match answer {
        0 => Some(Renewal::Gone),
        1 => Some(Renewal::Renewed),
        2 => Some(Renewal::Revoked),
        _ => None,
    }
}

/// The error of a server whose clock no token can be made from.
pub(super) fn wrong_clock(shown: &str) -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        format!(
            "the clock of {shown} was set back, or is before this program was built; fencing tokens start from it, so set it"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_never_cut_to_nothing() {
        assert_eq!(micros(Duration::ZERO), 0);
        assert_eq!(micros(Duration::from_nanos(1)), 1);
        assert_eq!(micros(Duration::from_secs(30)), 30_000_000);
        assert_eq!(micros(Duration::MAX), LONGEST);
        assert_eq!(span(-1), Duration::ZERO);
    }
}
