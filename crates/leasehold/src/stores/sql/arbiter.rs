//! What an arbiter is asked and answers, as columns.
//!
//! | operation | asked | answers |
//! |---|---|---|
//! | acquire, renew | as without, and an epoch | [`attempt`], renewals |
//! | carry | name, holder, label, token, TTL, epoch | [`carried`] |
//! | route | nothing | [`Stored`], if there is one |
//! | found | epoch, incarnation, terms | nothing |
//! | switch | epoch, incarnation, dwell, patience | whether it did |
//! | arm | epoch, drain | nothing |
//! | complain | nothing | nothing |
//! | repair | epoch that was seen, terms | the epoch |
//! | tick | name, holder, epoch, tick, whether again | [`Ticked::claim`] |
//! | stands | name, tick, who is alive | [`Ticked::standing`] |

use super::acquired::{Acquired, not_due, tick, unreadable};
use super::{micros, span};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim};
use crate::store::{Epoch, Force, Incarnation, Reading, Refusal, Route, RouteTerms, Target, TickClaim};
use crate::tick::Standing;

/// An epoch, as it is stored. Far below the largest there are no tokens left.
pub(crate) fn number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.number()).unwrap_or(i64::MAX - 2)
}

/// The primary's data set to which a route leads; none if it leads to the arbiter.
pub(crate) fn incarnation(target: &Target) -> Option<String> {
    match target {
        Target::Primary(incarnation) => Some(incarnation.to_string()),
        Target::Arbiter => None,
    }
}

/// The epoch of a route that leads to the arbiter. Under another one nothing is done there.
pub(crate) fn epoch_here(route: &Route) -> Result<i64, Refusal> {
    match route.target {
        Target::Arbiter => Ok(number(route.epoch)),
        Target::Primary(_) => Err(Refusal::OtherRoute),
    }
}

/// What all clients must agree on.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub lease: i64,
    pub drift: i64,
    pub max_ttl: i64,
    pub identity: &'a str,
}

impl<'a> Terms<'a> {
    pub fn of(terms: &'a RouteTerms) -> Self {
        Self {
            lease: micros(terms.lease),
            drift: terms.drift.into(),
            max_ttl: micros(terms.max_ttl),
            identity: &terms.primary,
        }
    }
}

/// The route and what stands beside it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub epoch: i64,
    pub incarnation: Option<String>,
    /// In how long it comes into force; negative: for how long it has been; none: it is not armed.
    pub wait: Option<i64>,
    pub lease: i64,
    pub drift: i64,
    pub max_ttl: i64,
    pub identity: String,
    pub patience: i64,
    /// How long ago somebody last could not reach the primary.
    pub complained: Option<i64>,
}

impl Stored {
    pub fn reading(self) -> Reading {
        let target = self.incarnation.map_or(Target::Arbiter, |name| Target::Primary(Incarnation::new(name)));
        Reading {
            route: Route { epoch: epoch(self.epoch), target },
            force: match self.wait {
                None => Force::Unarmed,
                Some(wait) if wait > 0 => Force::In(span(wait)),
                Some(wait) => Force::Since(span(wait.saturating_neg())),
            },
            terms: RouteTerms {
                lease: span(self.lease),
                drift: u32::try_from(self.drift).unwrap_or(u32::MAX),
                max_ttl: span(self.max_ttl),
                primary: self.identity,
            },
            patience: span(self.patience),
            complained: self.complained.map(span),
        }
    }
}

/// An epoch, as it was stored.
pub(crate) fn epoch(number: i64) -> Epoch {
    Epoch::new(number.cast_unsigned())
}

/// What a claim under a route is answered. `shown` is the store.
pub(crate) fn attempt(
    acquired: Acquired,
    claim: &Claim,
    under: Epoch,
    shown: &str,
) -> Result<Result<Attempt, Refusal>> {
    match acquired.outcome {
        8 => Ok(Err(Refusal::OtherRoute)),
        9 => Ok(Err(Refusal::NewerTag)),
        10 => Err(Error::new(ErrorKind::Misconfigured, format!("there is no token left in epoch {under}"))),
        _ => acquired.attempt(claim, shown).map(Ok),
    }
}

/// What a carry is answered.
pub(crate) fn carried(outcome: i32, shown: &str) -> Result<Result<(), Refusal>> {
    match outcome {
        1 => Ok(Ok(())),
        8 => Ok(Err(Refusal::OtherRoute)),
        9 => Ok(Err(Refusal::NewerTag)),
        11 => Ok(Err(Refusal::HeldByAnother)),
        12 => Ok(Err(Refusal::Revoked)),
        other => Err(unreadable(other, shown)),
    }
}

/// What became of a claim of a tick, or how the tick stands.
#[derive(Debug)]
pub(crate) struct Ticked {
    /// 1 it is the claimant's, or may be claimed; 2 it is running; 3 to 5 as of a claim of a lease; 8 another route.
    pub outcome: i32,
    /// Claimed: how often. Claimed before: 1 if it isn't finished.
    pub attempt: Option<i32>,
    /// Claimed: the one that was given up. Else as of a claim of a lease.
    pub value: Option<i64>,
}

impl Ticked {
    pub fn claim(self, shown: &str) -> Result<Result<TickClaim, Refusal>> {
        match self.outcome {
            1 => Ok(Ok(TickClaim::Claimed {
                attempt: u32::try_from(self.attempt.unwrap_or(0)).unwrap_or(0),
                gave_up: self.value.map(tick),
            })),
            2 => {
                let message = format!("{shown}: a transaction that is open completes this tick");
                Err(Error::new(ErrorKind::Unavailable, message))
            }
            outcome @ 3..=5 => Ok(Ok(TickClaim::NotDue(self.not_due(outcome)))),
            8 => Ok(Err(Refusal::OtherRoute)),
            other => Err(unreadable(other, shown)),
        }
    }

    pub fn standing(self, shown: &str) -> Result<Standing> {
        match self.outcome {
            1 => Ok(Standing::ForClaim),
            2 => Ok(Standing::Running),
            outcome @ 3..=5 => Ok(Standing::Over(self.not_due(outcome))),
            other => Err(unreadable(other, shown)),
        }
    }

    fn not_due(&self, outcome: i32) -> crate::tick::NotDue {
        not_due(outcome, self.value.unwrap_or(0), self.attempt == Some(1))
    }
}
