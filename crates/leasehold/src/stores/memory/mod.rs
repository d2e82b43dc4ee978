//! The reference store: the whole contract in its simplest form, in the memory of one process.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{
    Attempt, Claim, Ended, FencingToken, Grant, HandOver, Holder, HolderId, Holding, LeaseKey, Release, Renewal,
    Revoke, Waiter, disagreement,
};
use crate::marks::Marks;
use crate::member::Member;
use crate::name::LockName;
use crate::rule::Rule;
use crate::store::{
    Arbiter, Bell, Epoch, Incarnation, Listener, Notes, Primary, QUEUE_ENTRY, Store, Tables, Topic, Traits, USUAL_TTL,
    WakeUps,
};
use crate::tick::{Due, Standing, Tick, Verdict};
use crate::validity::{BootClock, Clock, Moment};

mod arbiter;
mod member;
mod notes;
mod primary;
mod saved;
mod tagged;

pub use saved::Saved;

use self::member::Life;

/// Locks inside one process: for tests, and for programs whose tasks exclude one another.
///
/// Clones are the same store; it is empty again when the last one is gone. Other stores are measured
/// against it: where they differ from what it does, one of the two is wrong.
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    contents: Arc<Mutex<Contents>>,
}

/// All that it knows.
#[derive(Debug, Clone, Default)]
struct Contents {
    names: BTreeMap<LockName, Entry>,
    notes: BTreeMap<Topic, notes::Page>,
    /// The time of day, since 1970, at which the clock showed nothing.
    clocks_zero: Duration,
    life: Life,
    /// How often it was [started](Memory::start_from).
    started: u64,
    /// The largest epoch that a claim or a carry came with.
    watermark: Epoch,
    /// How it has been reached as a primary that is not in use.
    reached: Option<Sighting>,
    /// The route of a fallback whose arbiter this is.
    route: Option<arbiter::Row>,
    /// Ticks up to here are over, whatever the marks say: the arbiter of a fallback has lost data.
    floor: Option<Tick>,
}

/// How clients have reached a primary that is not in use.
#[derive(Debug, Clone)]
struct Sighting {
    /// In which route and data set.
    route: (Epoch, Incarnation),
    span: Duration,
    last: Moment,
}

impl Contents {
    /// The time of day: it goes on as the clock does.
    fn utc(&self, now: Moment) -> Duration {
        self.clocks_zero + now.since(Moment::from_nanos(0))
    }
}

impl Memory {
    /// An empty store that judges expiry by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let clocks_zero = utc.saturating_sub(clock.now().since(Moment::from_nanos(0)));
        Self { clock, contents: Arc::new(Mutex::new(Contents { clocks_zero, ..Contents::default() })) }
    }

    /// Does `what` to everything at one instant of the clock.
    fn with_all<T>(&self, what: impl FnOnce(&mut Contents, Moment) -> T) -> T {
        let mut contents = self.contents.lock().expect("nothing panics while it is locked");
        let now = self.clock.now();
        what(&mut contents, now)
    }

    /// Does `what` to one name at one instant of the clock.
    fn with<T>(&self, name: &LockName, what: impl FnOnce(&mut Entry, Moment) -> T) -> T {
        self.with_all(|contents, now| what(contents.names.entry(name.clone()).or_default(), now))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Arc::new(BootClock))
    }
}

/// What is known of one name. It is never taken out: the counters must outlive the leases.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// The last token that was given out, without its epoch; none was if it is 0.
    token: u64,
    /// How many may hold it, as its last holder said.
    permits: u32,
    /// Leases that run, tombstones of minimum holds, and whose time is over until the next grant.
    leases: Vec<Lease>,
    marks: Marks,
    /// Whether it has all that the other members of a quorum remember, the store having been restarted.
    is_adopted: bool,
    /// Ticks with a time, up to here, count as claimed: those had been founded anew from whom it was adopted.
    floor: Option<Tick>,
    /// The last ticket that was given out.
    ticket: u64,
    /// Who waits, in order.
    queue: BTreeMap<(u64, HolderId), Queued>,
    bells: Vec<Weak<Bell>>,
}

#[derive(Debug, Clone)]
struct Queued {
    /// Since when it stands there.
    since: Moment,
    /// Until when it counts.
    until: Moment,
    /// Its last claim.
    claim: Claim,
}

#[derive(Debug, Clone)]
struct Lease {
    /// Nobody once it was released, also while a minimum hold runs out.
    holder: Option<HolderId>,
    label: String,
    token: FencingToken,
    /// Under which route it was granted, if under one.
    tag: Option<Epoch>,
    granted: Moment,
    /// Nobody else is granted this permit before.
    ends: Moment,
    revoked: bool,
}

impl Lease {
    fn is_over(&self, now: Moment) -> bool {
        self.ends <= now
    }

    fn is_of(&self, holder: HolderId, now: Moment) -> bool {
        self.holder == Some(holder) && !self.is_over(now)
    }

    fn free(&mut self, from: Moment) {
        self.holder = None;
        self.ends = from;
        self.revoked = false;
    }

    fn shown(&self, now: Moment) -> Holder {
        let is_over = self.is_over(now);
        Holder {
            holder: self.holder.filter(|_| !is_over),
            label: self.label.clone(),
            library: None,
            token: self.token,
            held_for: now.since(self.granted),
            remaining: self.ends.since(now),
            revoked: self.revoked && !is_over,
        }
    }
}

impl Entry {
    fn claim(&mut self, claim: &Claim, tag: Option<Epoch>, now: Moment, utc: Duration) -> Result<Attempt> {
        self.forget_dead_waiters(now);
        // Not if it was revoked: the claimant would count its validity from this claim, and only a moved
        // end could keep that promise, which is what the operator forbade.
        if let Some(lease) = self.lease_of(claim.holder, now).filter(|lease| !lease.revoked) {
            lease.ends = lease.ends.max(now + claim.ttl);
            let token = lease.token;
            return Ok(Attempt::Granted(grant(token, self.marks.attempts(claim.holder), None)));
        }
        self.agree_on_permits(claim, now)?;
        match claim.due.map(|due| self.standing(due, now, utc)) {
            None | Some(Standing::ForClaim) => {}
            Some(Standing::Running) => {
                self.forget_waiter(claim.holder);
                return Ok(Attempt::Held(self.holding(&claim.name, now)));
            }
            Some(Standing::Over(why)) => {
                self.forget_waiter(claim.holder);
                return Ok(Attempt::NotDue(why));
            }
        }
        let ticket = claim.queue.map(|place| self.ticket_of(claim.holder, place.ticket));
        let ahead = self.ahead_of(claim.holder, ticket);
        // One that was revoked has its permit still, and is to have no other.
        let is_revoked = self.lease_of(claim.holder, now).is_some();
        if !is_revoked && self.free_permits(claim.permits, now) > ahead {
            return self.grant_to(claim, tag, now).map(Attempt::Granted);
        }
        if let Some(ticket) = ticket {
            let place = (ticket, claim.holder);
            let since = self.queue.get(&place).map_or(now, |queued| queued.since);
            self.queue.insert(place, Queued { since, until: now + QUEUE_ENTRY, claim: claim.clone() });
        }
        Ok(Attempt::Held(Holding { waiting: ahead, ticket, ..self.holding(&claim.name, now) }))
    }

    /// All holders must mean the same: one who thinks that there are three permits and one who thinks that there are
    /// five would both be wrong.
    fn agree_on_permits(&self, claim: &Claim, now: Moment) -> Result<()> {
        let is_held = self.leases.iter().any(|lease| lease.holder.is_some() && !lease.is_over(now));
        if is_held && self.permits != claim.permits.get() {
            return Err(disagreement(claim, self.permits));
        }
        Ok(())
    }

    fn standing(&self, due: Due, now: Moment, utc: Duration) -> Standing {
        match due.tick.window(utc, due.keep) {
            Ok(()) => self.marks.standing(due, |holder| self.leases.iter().any(|lease| lease.is_of(holder, now))),
            Err(why) => Standing::Over(why),
        }
    }

    fn grant_to(&mut self, claim: &Claim, tag: Option<Epoch>, now: Moment) -> Result<Grant> {
        self.token += 1;
        let token = self.token_under(tag)?;
        self.forget_waiter(claim.holder);
        self.leases.retain(|lease| !lease.is_over(now));
        self.permits = claim.permits.get();
        self.leases.reserve_exact(1); // most names have one, and a growing list would make room for four
        self.leases.push(Lease {
            holder: Some(claim.holder),
            label: claim.label.to_string(),
            token,
            tag,
            granted: now,
            ends: now + claim.ttl,
            revoked: false,
        });
        let (attempt, gave_up) = claim.due.map_or((0, None), |due| self.marks.claim(claim.holder, due));
        Ok(grant(token, attempt, gave_up))
    }

    fn token_under(&self, tag: Option<Epoch>) -> Result<FencingToken> {
        let Some(tag) = tag.filter(|_| Rule::TokensHaveTheEpoch.holds()) else {
            return Ok(FencingToken::new(self.token));
        };
        let too_many = || Error::new(ErrorKind::Misconfigured, format!("there is no token left in epoch {tag}"));
        tag.token(self.token).ok_or_else(too_many)
    }

    fn renew(&mut self, holder: HolderId, ttl: Duration, now: Moment) -> Renewal {
        match self.lease_of(holder, now) {
            None => Renewal::Gone,
            Some(lease) if lease.revoked => Renewal::Revoked,
            Some(lease) => {
                // Never back: an overtaken renewal must not cut what a later one has promised.
                lease.ends = lease.ends.max(now + ttl);
                Renewal::Renewed
            }
        }
    }

    fn release(&mut self, holder: HolderId, how: Ended, now: Moment) -> Release {
        if let Some(verdict) = how.verdict {
            self.marks.judge(holder, verdict);
        }
        let Some(lease) = self.lease_of(holder, now) else { return Release::NotHeld };
        lease.free(now + how.keep_for);
        self.freed(now);
        Release::Released
    }

    fn leave(&mut self, holder: HolderId, now: Moment) {
        if self.forget_waiter(holder) {
            self.ring();
        }
        let how = Ended { verdict: Some(Verdict::NotStarted), ..Ended::default() };
        let _ = self.release(holder, how, now);
    }

    fn revoke(&mut self, name: &LockName, whose: Option<HolderId>, how: Revoke, now: Moment) -> Option<Holding> {
        let is_meant = |lease: &Lease| !lease.is_over(now) && whose.is_none_or(|holder| lease.holder == Some(holder));
        let meant: Vec<_> = self.leases.iter().filter(|lease| is_meant(lease)).map(|lease| lease.shown(now)).collect();
        if meant.is_empty() {
            return None;
        }
        let holding = Holding { waiting: self.queue.len() as u64, ..Holding::of(name.clone(), self.permits, meant) };
        for lease in self.leases.iter_mut().filter(|lease| is_meant(lease)) {
            match how {
                Revoke::Gently => lease.revoked = true,
                Revoke::Now => lease.free(now),
            }
        }
        if how == Revoke::Now {
            self.freed(now);
        }
        Some(holding)
    }

    /// Whether there was a mark.
    fn reset_marks(&mut self) -> bool {
        std::mem::take(&mut self.marks).newest.is_some()
    }

    /// Hands the lock over to the first who waits, if it is free and that one may be given it; else wakes.
    fn freed(&mut self, now: Moment) {
        self.forget_dead_waiters(now);
        let first = self.queue.first_key_value().filter(|_| self.permits == 1 && self.is_free(now));
        let Some((claim, sent)) =
            first.and_then(|(_, waiter)| Some((waiter.claim.clone(), waiter.claim.may_be_handed_over()?)))
        else {
            return self.ring();
        };
        let Ok(grant) = self.grant_to(&claim, None, now) else { return self.ring() };
        let to = HandOver { holder: claim.holder, sent, grant };
        for bell in self.bells.iter().filter_map(Weak::upgrade) {
            bell.hand_over(to.clone());
        }
    }

    fn subscribe(&mut self) -> WakeUps {
        let bell = Arc::default();
        self.bells.retain(|bell| bell.strong_count() > 0);
        self.bells.push(Arc::downgrade(&bell));
        WakeUps::new(bell, ())
    }

    /// Wakes every subscriber. A subscription doesn't say whose it is, so the first waiter can't be picked.
    fn ring(&self) {
        for bell in self.bells.iter().filter_map(Weak::upgrade) {
            bell.ring();
        }
    }

    fn is_free(&self, now: Moment) -> bool {
        self.leases.iter().all(|lease| lease.is_over(now))
    }

    fn free_permits(&self, permits: NonZeroU32, now: Moment) -> u64 {
        let taken = self.leases.iter().filter(|lease| !lease.is_over(now)).count() as u64;
        u64::from(permits.get()).saturating_sub(taken)
    }

    fn lease_of(&mut self, holder: HolderId, now: Moment) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.is_of(holder, now))
    }

    /// The place of a waiter: the one it has, the one it had, or a new one behind all others.
    fn ticket_of(&mut self, holder: HolderId, had: Option<u64>) -> u64 {
        let has = self.queue.keys().find(|(_, waiter)| *waiter == holder).map(|(ticket, _)| *ticket);
        let ticket = has.or(had).unwrap_or(self.ticket + 1);
        self.ticket = self.ticket.max(ticket);
        ticket
    }

    /// How many others wait before `holder`; all of them if it doesn't queue.
    fn ahead_of(&self, holder: HolderId, ticket: Option<u64>) -> u64 {
        let before = |place: (u64, HolderId)| ticket.is_none_or(|ticket| place < (ticket, holder));
        self.queue.keys().filter(|&&place| place.1 != holder && before(place)).count() as u64
    }

    fn forget_dead_waiters(&mut self, now: Moment) {
        self.queue.retain(|_, waiter| waiter.until > now);
    }

    /// Whether there was one.
    fn forget_waiter(&mut self, holder: HolderId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|(_, waiter), _| *waiter != holder);
        self.queue.len() < before
    }

    /// Who waits, in order.
    fn waiters(&mut self, now: Moment) -> Vec<Waiter> {
        self.forget_dead_waiters(now);
        let waiter = |queued: &Queued| Waiter {
            holder: Some(queued.claim.holder),
            label: queued.claim.label.to_string(),
            waited: Some(now.since(queued.since)),
        };
        self.queue.values().map(waiter).collect()
    }

    /// What an operator is shown; none if the name is free and nobody waits.
    fn shown(&mut self, name: &LockName, now: Moment) -> Option<Holding> {
        self.forget_dead_waiters(now);
        (!self.is_free(now) || !self.queue.is_empty()).then(|| self.holding(name, now))
    }

    /// How it stands. Once nobody holds it, who held it last.
    fn holding(&self, name: &LockName, now: Moment) -> Holding {
        let mut shown: Vec<_> = self.leases.iter().filter(|lease| !lease.is_over(now)).map(|l| l.shown(now)).collect();
        if shown.is_empty() {
            shown.extend(self.leases.last().map(|lease| lease.shown(now)));
        }
        Holding { waiting: self.queue.len() as u64, ..Holding::of(name.clone(), self.permits, shown) }
    }
}

fn grant(token: FencingToken, attempt: u32, gave_up: Option<Tick>) -> Grant {
    Grant { attempt, gave_up, ..Grant::of(token) }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Memory {
    fn traits(&self) -> Traits {
        Traits {
            kind: "memory",
            smallest_ttl: Duration::from_secs(1),
            wake_ups: true,
            hands_over: true,
            session_bound: false,
            usual_ttl: USUAL_TTL,
            longest_stop_grace: Duration::MAX,
        }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async {
            self.with_all(|contents, now| {
                contents.life.check_grants(now)?;
                let utc = contents.utc(now);
                let least = contents.life.least_token();
                let entry = contents.names.entry(claim.name.clone()).or_default();
                entry.token = entry.token.max(least);
                entry.claim(claim, None, now, utc)
            })
        })
    }

    fn leave<'a>(&'a self, waiter: &'a LeaseKey) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            self.with(&waiter.name, |entry, now| entry.leave(waiter.holder, now));
            Ok(())
        })
    }

    fn renew<'a>(&'a self, leases: &'a [(LeaseKey, Duration)]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        let renew = |(lease, ttl): &(LeaseKey, Duration)| {
            self.with(&lease.name, |entry, now| entry.renew(lease.holder, *ttl, now))
        };
        Box::pin(async move { leases.iter().map(renew).map(Ok).collect() })
    }

    fn release<'a>(&'a self, lease: &'a LeaseKey, how: Ended) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move { Ok(self.with(&lease.name, |entry, now| entry.release(lease.holder, how, now))) })
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(self.with(name, |entry, _| entry.subscribe())) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async { Ok(self.with(name, |entry, now| entry.shown(name, now))) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async {
            let shown = |contents: &mut Contents, now| {
                contents.names.iter_mut().filter_map(|(name, entry)| entry.shown(name, now)).collect()
            };
            Ok(self.with_all(shown))
        })
    }

    fn queue<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Vec<Waiter>>> {
        Box::pin(async { Ok(self.with(name, Entry::waiters)) })
    }

    fn revoke<'a>(
        &'a self,
        name: &'a LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move { Ok(self.with(name, |entry, now| entry.revoke(name, holder, how, now))) })
    }

    fn reset_marks<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(self.with(name, |entry, _| entry.reset_marks())) })
    }

    fn time(&self) -> BoxFuture<'_, Result<Duration>> {
        Box::pin(async { Ok(self.with_all(|contents, now| contents.utc(now))) })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async { Ok(vec![Finding::fine("memory", "locks live in this process and end with it")]) })
    }

    /// One store: nothing moves.
    fn listen(&self, _: Weak<Listener>) {}

    fn tables(&self) -> Option<Tables> {
        None
    }

    fn as_primary(&self) -> Option<&dyn Primary> {
        Some(self)
    }

    fn as_arbiter(&self) -> Option<&dyn Arbiter> {
        Some(self)
    }

    fn as_member(&self) -> Option<&dyn Member> {
        Some(self)
    }

    fn as_notes(&self) -> Option<&dyn Notes> {
        Some(self)
    }
}
