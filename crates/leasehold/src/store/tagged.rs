//! Leases that say under which route they were granted: what both stores of a fallback keep.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Store;
use crate::error::Result;
use crate::lease::{Attempt, Claim, FencingToken, LeaseKey, Renewal};

/// The number of a route. It grows by one with each switch, and every lease and request carries that to which it
/// belongs: its *tag*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(u64);

/// How many bits of a token are the store's counter; the epoch stands above them. Together they have 63.
const COUNTER_BITS: u32 = 46;

impl Epoch {
    /// The first.
    pub const FIRST: Self = Self(1);

    /// The largest that a token has room for.
    pub const LAST: Self = Self((1 << (63 - COUNTER_BITS)) - 1);

    /// The epoch of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The one that is `by` later.
    #[must_use]
    pub const fn later(self, by: u64) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// That under which a token was given out; the [default](Epoch::default) if under none.
    #[must_use]
    pub const fn of(token: FencingToken) -> Self {
        Self(token.number() >> COUNTER_BITS)
    }

    /// The token of a grant that is the store's `counter`-th and was asked for in this epoch; none if either is too large.
    #[must_use]
    pub fn token(self, counter: u64) -> Option<FencingToken> {
        let fits = self <= Self::LAST && counter >> COUNTER_BITS == 0;
        fits.then(|| FencingToken::new(self.0 << COUNTER_BITS | counter))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which data set a primary serves: another one after each restart and each promotion, whatever its address is. A
/// marker among the data will not do, for it may be copied while the newest leases are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Incarnation(Box<str>);

impl Incarnation {
    /// The one that the store calls so.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which store has the leases.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The primary, as long as it serves this data set.
    Primary(Incarnation),
    /// The arbiter itself.
    Arbiter,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Which of its data sets is for programs to compare.
            Self::Primary(_) => f.write_str("the primary"),
            Self::Arbiter => f.write_str("the arbiter"),
        }
    }
}

/// Which store has the leases, and since how many switches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Route {
    /// Its number.
    pub epoch: Epoch,
    /// Where it leads.
    pub target: Target,
}

/// Why a store that keeps the route with each lease has refused a request. Nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The primary serves another data set: it was restarted or replaced.
    OtherIncarnation,
    /// The route is over, or not yet in force, or no longer not yet.
    OtherRoute,
    /// The holder has a lease of a later route here. A tag is never lowered.
    NewerTag,
    /// Somebody else has a lease of this route here.
    HeldByAnother,
    /// The holder's lease was revoked here.
    Revoked,
}

/// A lease that goes along to another store.
#[derive(Debug, Clone)]
pub struct Carried {
    /// Whose it is.
    pub key: LeaseKey,
    /// The holder's label, for people.
    pub label: String,
    /// Its token, which it keeps.
    pub token: FencingToken,
    /// For how long, from when the store does it.
    pub ttl: Duration,
}

/// A store that keeps the route with each lease. Beside the contract of [`Store`]:
///
/// - *The route comes first*: a request under another route than that which holds here does nothing. A primary compares
///   the incarnation, and refuses epochs below the largest that it has seen; an arbiter compares its own route.
/// - *A lease of an earlier route is dead*: a claim and a carry overwrite it. Those without a tag are not ours and live.
/// - *A tag is never lowered*, a lease never cut: what arrives late changes nothing.
/// - *Revoked is revoked*: a carry of a lease that was revoked here, and lives still, is refused.
/// - *Tokens* have the [epoch](Epoch::token) of the claim above the counter, and are kept by a carry.
///
/// `release` and `leave` of the store itself end a lease whatever its tag is: the holder is dead for ever.
pub trait Tagged: Store {
    /// [`Store::try_acquire`] under a route that is in force. The claim has no tick.
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>>;

    /// [`Store::renew`] of leases whose tag is that of `under`. An answer for each, in order.
    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>>;

    /// Takes a lease over from where the route led before. `to` is not in force yet.
    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_epoch_makes_larger_tokens_whatever_the_counters_were() {
        let counter = (1 << COUNTER_BITS) - 1;
        let (earlier, later) = (Epoch::new(3), Epoch::new(4));
        assert!(earlier.token(counter).unwrap() < later.token(0).unwrap());
        assert_eq!(Epoch::LAST.token(counter).unwrap().number(), i64::MAX as u64);
        assert_eq!(Epoch::LAST.later(1).token(1), None);
        assert_eq!(earlier.token(counter + 1), None);
    }
}
