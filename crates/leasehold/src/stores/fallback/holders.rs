//! Who holds what under which route: what validity hangs on, kept by holder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::route::RouteLease;
use super::shared::SET_IT;
use super::stores::{Side, Stores};
use crate::bound::Bound;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Claim, FencingToken, HolderId, LeaseKey, Renewal};
use crate::rule::Rule;
use crate::store::{Carried, Route, Store, Target};
use crate::tick::NotDue;
use crate::validity::{self, Moment};

/// The route and all holders of this client, behind one lock: a bound is computed and moved together with what it
/// is computed from, so none is ever that of another epoch.
#[derive(Debug, Default)]
pub(super) struct Holders {
    route: Option<RouteLease>,
    by_id: BTreeMap<HolderId, Held>,
    /// For one broken rule only.
    shared: Option<Bound>,
}

/// What is known of one acquisition.
#[derive(Debug)]
struct Held {
    key: LeaseKey,
    label: Arc<str>,
    /// In which stores something of it may be.
    traces: Traces,
    lease: Option<Lease>,
    /// Over which handles its last claims went, to the primary and to the arbiter.
    claimed_over: [Option<Arc<dyn Store>>; 2],
    /// It was given back, and will not ask again.
    has_ended: bool,
    /// Its tick was not to be run.
    not_due: Option<NotDue>,
    times_asked: u32,
    /// Under which grant it last claimed a tick.
    claimed_tick: Option<FencingToken>,
    /// Whether it was ever answered that the tick is its own, and so may have begun it.
    may_have_begun: bool,
    /// Until when its lease is to last, whichever store answers: it was asked for a TTL before.
    wanted_until: Moment,
    /// When nothing of it can be left anywhere.
    forget_at: Moment,
}

/// Where something of a holder may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Traces {
    pub primary: bool,
    pub arbiter: bool,
    /// Where its lease is, or was last.
    pub at: Option<Side>,
    /// It may have claimed a tick.
    pub ticked: bool,
    /// For how long something of it may stay there.
    pub ttl: Duration,
    /// Its lease could be relied on until it was given back.
    pub was_valid: bool,
}

impl Traces {
    /// Of a holder that nobody here has heard of: it may be of another client.
    const UNKNOWN: Self =
        Self { primary: true, arbiter: true, at: None, ticked: true, ttl: Duration::ZERO, was_valid: false };

    pub fn are_on(&self, side: Side) -> bool {
        match side {
            Side::Primary => self.primary,
            Side::Arbiter => self.arbiter,
        }
    }

    /// All those where they are.
    pub fn sides(self) -> impl Iterator<Item = Side> {
        [Side::Primary, Side::Arbiter].into_iter().filter(move |side| self.are_on(*side))
    }

    fn add(&mut self, side: Side) {
        match side {
            Side::Primary => self.primary = true,
            Side::Arbiter => self.arbiter = true,
        }
    }
}

/// A lease that a holder believes in.
#[derive(Debug)]
struct Lease {
    /// Under which route it is held.
    route: Route,
    token: FencingToken,
    /// Until when, by our own sends to the store where it is now.
    until: Moment,
    /// It knows as well whether an operator has revoked it, in the store where it is or in that to which it was to go along.
    bound: Bound,
}

impl Lease {
    fn end(&self, route: &RouteLease) -> Moment {
        let remembers = Rule::GuardsRememberTheirEpoch.holds() || self.route.target != route.route.target;
        let by_route = if remembers { route.end_for(self.route.epoch) } else { route.until };
        self.until.min(by_route)
    }
}

/// What a carry begins with.
#[derive(Debug, Clone)]
pub(super) struct Move {
    pub lease: Carried,
    pub from: Route,
    pub to: Route,
    /// The lease that is left does not outlast the old route, and has to be renewed first.
    pub is_too_short: bool,
}

impl Holders {
    pub fn route(&self) -> Option<&RouteLease> {
        self.route.as_ref()
    }

    /// Takes a reading of the route over. Where the one before led, if it is another one.
    pub fn learn(&mut self, route: RouteLease, now: Moment) -> Result<Option<Target>> {
        let left = match &self.route {
            Some(known) if Rule::ARestoredArbiterSkipsAnEpoch.holds() => {
                is_newer(&known.route, &route.route)?.then(|| known.route.target.clone())
            }
            _ => None,
        };
        self.route = Some(route);
        let ids: Vec<_> = self.by_id.keys().copied().collect();
        for id in ids {
            self.rebind(id, now);
        }
        Ok(left)
    }

    /// A claim of this holder is about to be sent there; if it is for a tick, then after that to the arbiter.
    pub fn asks(&mut self, claim: &Claim, stores: &Stores, side: Side, now: Moment) {
        let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
        let held = self.by_id.entry(claim.holder).or_insert_with(|| Held {
            key,
            label: Arc::clone(&claim.label),
            traces: Traces::default(),
            claimed_over: [None, None],
            lease: None,
            has_ended: false,
            not_due: None,
            times_asked: 0,
            claimed_tick: None,
            may_have_begun: false,
            wanted_until: now,
            forget_at: now,
        });
        held.times_asked += 1;
        held.traces.add(side);
        held.traces.ticked |= claim.due.is_some();
        held.claimed_over[side as usize] = Some(stores.handle(side));
        if claim.due.is_some() {
            held.claimed_over[Side::Arbiter as usize] = Some(stores.handle(Side::Arbiter));
        }
        held.wants(claim.ttl, now);
    }

    /// A claim that doesn't wait was answered: somebody else has it. Nothing of it is in the store, unless an earlier one is
    /// still under way.
    pub fn asked_in_vain(&mut self, holder: HolderId) {
        let is_all = |held: &Held| held.lease.is_none() && held.times_asked == 1;
        if self.by_id.get(&holder).is_some_and(is_all) {
            self.by_id.remove(&holder);
        }
    }

    /// A claim that was sent under `under` was granted. The bound of the grant, if it may be believed in.
    pub fn granted(
        &mut self,
        holder: HolderId,
        under: &Route,
        token: FencingToken,
        until: Moment,
        now: Moment,
    ) -> Option<Bound> {
        let route = self.route.as_ref()?;
        let shared = self.shared.clone().filter(|_| !Rule::BoundsAreNotShared.holds());
        let held = self.by_id.get_mut(&holder)?;
        held.traces.at = Some(Side::of(&under.target));
        let known = held.lease.take().filter(|known| {
            let is_same = known.route == *under && known.token == token;
            if !is_same {
                known.bound.cut();
            }
            is_same
        });
        let (known_until, bound) = known.map_or((until, None), |known| (known.until, Some(known.bound)));
        let until = until.max(known_until);
        let bound = bound.or(shared).unwrap_or_else(|| Bound::new(Moment::NEVER));
        let lease = Lease { route: under.clone(), token, until, bound: bound.clone() };
        if now >= lease.end(route) || !bound.move_to(lease.end(route)) {
            bound.cut();
            return None;
        }
        held.lease = Some(lease);
        if !Rule::BoundsAreNotShared.holds() {
            self.shared = Some(bound.clone());
        }
        Some(bound)
    }

    /// It is about to claim its tick under this grant. Says whether what it has of it already is to be given to it: of the same
    /// grant, or if nothing that came before was.
    pub fn claims_tick(&mut self, holder: HolderId, token: FencingToken) -> bool {
        let Some(held) = self.by_id.get_mut(&holder) else { return false };
        let before = held.claimed_tick.replace(token);
        before.is_some_and(|before| before == token || !held.may_have_begun)
    }

    /// The tick is its own, and it is about to be told so. False if its lease is over.
    pub fn is_given_its_tick(&mut self, holder: HolderId, now: Moment) -> bool {
        self.rebind(holder, now);
        let held = self.by_id.get_mut(&holder).filter(|held| held.lease.is_some());
        held.map(|held| held.may_have_begun = true).is_some()
    }

    /// Its keeper is about to have it renewed for this long. Under which route; none if it has no lease any more.
    pub fn wants(&mut self, holder: HolderId, ttl: Duration, now: Moment) -> Option<Route> {
        let route = self.route_of(holder, now)?;
        self.by_id.get_mut(&holder)?.wants(ttl, now);
        Some(route)
    }

    /// Under which route a holder has its lease; none if it has none any more.
    pub fn route_of(&mut self, holder: HolderId, now: Moment) -> Option<Route> {
        self.rebind(holder, now);
        Some(self.by_id.get(&holder)?.lease.as_ref()?.route.clone())
    }

    /// A renewal under `under` was answered. What the holder is to be told.
    pub fn renewed(
        &mut self,
        holder: HolderId,
        under: &Route,
        until: Moment,
        answer: Renewal,
        now: Moment,
    ) -> Result<Renewal> {
        self.rebind(holder, now);
        let Some(held) = self.by_id.get_mut(&holder) else { return Ok(Renewal::Gone) };
        let Some(lease) = &mut held.lease else { return Ok(Renewal::Gone) };
        if lease.route != *under && Rule::LateAnswersOfTheSourceAreDropped.holds() {
            return Err(Error::new(ErrorKind::Unavailable, "it has been carried to the other store meanwhile"));
        }
        match answer {
            Renewal::Renewed => {
                lease.until = lease.until.max(until);
                self.rebind(holder, now);
            }
            Renewal::Gone => held.die(),
            Renewal::Revoked => lease.bound.revoke(),
        }
        Ok(answer)
    }

    /// Whether an operator is known to have revoked its lease.
    pub fn is_revoked(&self, holder: HolderId) -> bool {
        self.by_id.get(&holder).and_then(|held| held.lease.as_ref()).is_some_and(|lease| lease.bound.is_revoked())
    }

    /// Where it was to go along it was revoked: it ends where it is.
    pub fn revoked(&mut self, moved: &Move) {
        let held = self.by_id.get_mut(&moved.lease.key.holder);
        let lease = held.and_then(|held| held.lease.as_mut()).filter(|lease| lease.route == moved.from);
        if let Some(lease) = lease {
            lease.bound.revoke();
        }
    }

    /// Leases that are to go along with the route.
    pub fn to_carry(&self, now: Moment) -> Vec<Move> {
        self.by_id.values().filter_map(|held| self.move_of(held, now)).collect()
    }

    fn move_of(&self, held: &Held, now: Moment) -> Option<Move> {
        let (route, lease) = (self.route.as_ref()?, held.lease.as_ref()?);
        let coming = route.coming.filter(|coming| route.is_armed() && now < coming.early)?;
        let is_over = now >= lease.end(route).min(held.wanted_until);
        if lease.route.epoch.later(1) != route.route.epoch || is_over || lease.bound.is_revoked() {
            return None;
        }
        let judged_by = if Rule::CarryIsJudgedByLate.holds() { coming.late } else { coming.early };
        // Not for longer than it was asked for: whose keeper lets it run out is to lose it when it would have.
        let ttl = held.wanted_until.since(now);
        let carried = Carried { key: held.key.clone(), label: held.label.to_string(), token: lease.token, ttl };
        Some(Move {
            lease: carried,
            from: lease.route.clone(),
            to: route.route.clone(),
            is_too_short: lease.until < judged_by && Rule::CarryNeedsALeaseUntilLate.holds(),
        })
    }

    /// The move as it is to be sent now, if it still is; noted to have been sent.
    pub fn moves(&mut self, moved: &Move, now: Moment) -> Option<Move> {
        let holder = moved.lease.key.holder;
        let due = self.by_id.get(&holder).and_then(|held| self.move_of(held, now));
        let due = due.filter(|due| due.from == moved.from && due.to == moved.to && !due.is_too_short)?;
        let held = self.by_id.get_mut(&holder)?;
        held.traces.add(Side::of(&due.to.target));
        held.outlive(now);
        Some(due)
    }

    /// A carry took effect: in one step the holder is in the new store, and believes in what that has given it. False if
    /// the holder has ended meanwhile, and what was carried is nobody's. One that only believes in it no longer may have asked
    /// again, and have it by that: its own end clears both stores.
    pub fn moved(&mut self, moved: &Move, until: Moment, now: Moment) -> bool {
        let holder = moved.lease.key.holder;
        self.rebind(holder, now);
        let Some(held) = self.by_id.get_mut(&holder).filter(|held| !held.has_ended) else { return false };
        let Some(lease) = held.lease.as_mut().filter(|lease| lease.route == moved.from) else { return true };
        lease.route = moved.to.clone();
        lease.until = if Rule::ACarrySetsTheDeadline.holds() { until } else { until.max(lease.until) };
        held.traces.at = Some(Side::of(&moved.to.target));
        self.rebind(holder, now);
        true
    }

    /// Believes in it no longer, and says where it may be.
    pub fn ends(&mut self, holder: HolderId, now: Moment) -> Traces {
        let Some(held) = self.by_id.get_mut(&holder) else { return Traces::UNKNOWN };
        held.has_ended = true;
        // Its own guard has given it up: there is nobody to tell.
        let was_valid = held.lease.take().is_some_and(|lease| now < lease.bound.until());
        Traces { was_valid, ..held.traces }
    }

    /// The handle behind whose requests its end must be sent there; the first time only.
    pub fn claimed_over(&mut self, holder: HolderId, side: Side) -> Option<Arc<dyn Store>> {
        self.by_id.get_mut(&holder)?.claimed_over[side as usize].take()
    }

    /// Whether it is known here, and has not ended.
    pub fn is_somebodys(&self, holder: HolderId) -> bool {
        self.by_id.get(&holder).is_some_and(|held| !held.has_ended)
    }

    /// The same for one whose tick is not to be run. Until it is forgotten it is told so whenever it asks again: what is sent for
    /// its end may come late, and must not meet a later lease of it.
    pub fn ends_not_due(&mut self, holder: HolderId, why: NotDue, now: Moment) -> Traces {
        let traces = self.ends(holder, now);
        if let Some(held) = self.by_id.get_mut(&holder) {
            held.not_due = Some(why);
        }
        traces
    }

    /// Why its tick was not to be run, if it has ended by that.
    pub fn not_due(&self, holder: HolderId) -> Option<NotDue> {
        self.by_id.get(&holder)?.not_due
    }

    /// Nothing of it is left.
    pub fn forget(&mut self, holder: HolderId) {
        self.by_id.remove(&holder);
    }

    /// Forgets everybody of whom nothing can be left.
    pub fn forget_the_old(&mut self, now: Moment) {
        self.by_id.retain(|_, held| now < held.forget_at || held.lease.as_ref().is_some_and(|lease| now < lease.until));
    }

    /// Moves the bound of a lease to where it belongs, or ends it for good.
    fn rebind(&mut self, holder: HolderId, now: Moment) {
        let Some(held) = self.by_id.get_mut(&holder) else { return };
        let Some(lease) = &held.lease else { return };
        let end = self.route.as_ref().map_or(Moment::from_nanos(0), |route| lease.end(route));
        let may_revive = !Rule::GuardsRememberTheirEpoch.holds();
        let is_alive = now < end || may_revive;
        if !(is_alive && lease.bound.move_to(end)) {
            held.die();
        }
    }
}

impl Held {
    fn die(&mut self) {
        let lease = self.lease.take();
        if let Some(lease) = lease.filter(|_| Rule::BoundsAreNotShared.holds()) {
            lease.bound.cut();
        }
    }

    /// It is asked for, for this long from now on.
    fn wants(&mut self, ttl: Duration, now: Moment) {
        self.traces.ttl = ttl;
        self.wanted_until = now + ttl;
        self.outlive(now);
    }

    /// A request that is sent now may leave something for a TTL.
    fn outlive(&mut self, now: Moment) {
        self.forget_at = self.forget_at.max(now + validity::outlasting(self.traces.ttl) * 2);
    }
}

/// Whether `read` is a later route than `known`. One that is earlier, or another of the same epoch, was read from an
/// arbiter that has lost data.
fn is_newer(known: &Route, read: &Route) -> Result<bool> {
    if read.epoch < known.epoch || read.epoch == known.epoch && read != known {
        return Err(Error::new(
            ErrorKind::Misconfigured,
            format!(
                "the arbiter has gone back from route {} to {}: it was restored from a backup or a copy that lagged was \
                 promoted, and nothing can be granted until an operator has set a later route. {SET_IT}",
                known.epoch, read.epoch
            ),
        ));
    }
    Ok(read.epoch > known.epoch)
}
