//! The store that says which store is used, and is used itself when the other can't be.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::tagged::{Epoch, Refusal, Route, Tagged, Target};
use crate::error::Result;
use crate::lease::{HolderId, LeaseKey};
use crate::name::LockName;
use crate::tick::{Due, NotDue, Standing, Tick};

/// A store that can be the arbiter of a fallback: it keeps one [`Route`] for each namespace, and the marks of ticks
/// wherever the leases are. All of it is read and written on the store that takes the writes, never on a copy, and is
/// durable before it is answered.
///
/// The route changes in two steps, for a store that reads its clock before others see what it has written would count
/// a route as in force while old ones are still being given out: [`switch`](Self::switch) writes the next route without a
/// time, and [`arm`](Self::arm) gives it one in a later step that has seen it.
pub trait Arbiter: Tagged {
    /// The route; none if there never was one.
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>>;

    /// Writes the first route, unarmed, unless there is one.
    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>>;

    /// Goes to the next route, if that of `from` is still the latest and has been in force for long enough. Says whether it did.
    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>>;

    /// Has the route of this epoch come into force after `drain`, if it has no time yet. Nobody may read the route between the
    /// look at the clock and the moment from which all see the time: whoever reads "unarmed" counts on one
    /// [route lease](RouteTerms::lease) from when it asked, and that would end after the route has come into force.
    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>>;

    /// Writes down that somebody can't reach the primary now.
    fn complain(&self) -> BoxFuture<'_, Result<()>>;

    /// Claims a tick for a holder that has the lease, wherever that is. Refused under another route than the latest or, while
    /// that is not in force, the one before.
    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>>;

    /// How a tick stands to a claim for it, if `alive` is who has the lease.
    fn standing<'a>(&'a self, name: &'a LockName, due: Due, alive: Option<HolderId>)
    -> BoxFuture<'a, Result<Standing>>;

    /// After data of this store was lost (a backup, a promoted copy): goes to an epoch that is two above both its own and
    /// `seen`, unarmed, so that nobody carries a lease along from what was lost; raises every mark to now and drops
    /// what stands open, so that no tick runs twice. Where there is no route at all, one to the arbiter itself is written, with these
    /// terms. Nobody may read the route meanwhile. Answers the new epoch.
    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>>;
}

/// What stands beside the route and all clients must agree on: whoever counts otherwise is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTerms {
    /// For how long a client may act on what it has read of the route.
    pub lease: Duration,
    /// How much clocks may differ in rate, in parts per million.
    pub drift: u32,
    /// The largest TTL.
    pub max_ttl: Duration,
    /// The primary's identity.
    pub primary: String,
}

/// The route as it stood when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The latest route.
    pub route: Route,
    /// Whether it is in force.
    pub force: Force,
    /// What clients must agree on.
    pub terms: RouteTerms,
    /// How long it has to have been in force before the next switch to a primary.
    pub patience: Duration,
    /// How long ago somebody last could not reach the primary.
    pub complained: Option<Duration>,
}

/// Whether a route is in force, by the arbiter's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// No time has been given to it: anybody who sees this [arms](Arbiter::arm) it.
    Unarmed,
    /// It will be.
    In(Duration),
    /// It is.
    Since(Duration),
}

/// The step from one route to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The latest route.
    pub from: Epoch,
    /// Where the next one leads.
    pub to: Target,
    /// How long the latest one must have been in force.
    pub dwell: Duration,
    /// The [patience](Reading::patience) of the next one.
    pub patience: Duration,
}

/// A new route, as a client tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// Where the one before led, as far as this client has known.
    pub from: Target,
    /// The route.
    pub route: Route,
    /// In how long it comes into force at the latest; none if it is in force, or nobody knows yet.
    pub within: Option<Duration>,
}

/// A claim of a tick by somebody who has the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickOf {
    /// Whose lease it is.
    pub lease: LeaseKey,
    /// The tick.
    pub due: Due,
    /// It has been claimed before by this same holder, and the answer may have been lost: the same is answered again. Under
    /// the same grant, or under a new one if nothing that came of that claim was ever answered.
    pub again: bool,
}

/// What became of a claim of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickClaim {
    /// It is the holder's.
    Claimed {
        /// As [`Grant::attempt`](crate::Grant::attempt).
        attempt: u32,
        /// As [`Grant::gave_up`](crate::Grant::gave_up).
        gave_up: Option<Tick>,
    },
    /// It is not to be run by this holder.
    NotDue(NotDue),
}
