//! The reference store: the whole contract in its simplest form, in the memory of one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::error::Result;
use crate::finding::Finding;
use crate::lease::{Attempt, Claim, Ended, FencingToken, Grant, HolderId, Holding, LeaseKey, Release, Renewal, Revoke};
use crate::name::LockName;
use crate::store::{QUEUE_ENTRY, Store, Traits, WakeUps};
use crate::validity::{BootClock, Clock, Moment};

/// Locks inside one process: for tests, and for programs whose tasks exclude one another.
///
/// Clones are the same store; it is empty again when the last one is gone. Other stores are measured
/// against it: where they differ from what it does, one of the two is wrong.
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    names: Arc<Mutex<BTreeMap<LockName, Entry>>>,
}

/// What is known of one name. It is never taken out: the counters must outlive the leases.
#[derive(Debug)]
struct Entry {
    /// The last token that was given out; none was if it is 0.
    token: u64,
    /// Whose lease it is; nobody's once it was released, also while a minimum hold runs out.
    holder: Option<HolderId>,
    label: String,
    granted: Moment,
    /// Nobody else is granted the name before this.
    ends: Moment,
    revoked: bool,
    /// The last ticket that was given out.
    ticket: u64,
    /// Who waits, in order, and until when each counts.
    queue: BTreeMap<(u64, HolderId), Moment>,
    bells: Vec<Weak<Notify>>,
}

impl Memory {
    /// An empty store that judges expiry by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, names: Arc::default() }
    }

    /// Does `what` to everything at one instant of the clock.
    fn with_all<T>(&self, what: impl FnOnce(&mut BTreeMap<LockName, Entry>, Moment) -> T) -> T {
        let mut names = self.names.lock().expect("nothing panics while it is locked");
        let now = self.clock.now();
        what(&mut names, now)
    }

    /// Does `what` to one name at one instant of the clock.
    fn with<T>(&self, name: &LockName, what: impl FnOnce(&mut Entry, Moment) -> T) -> T {
        self.with_all(|names, now| what(names.entry(name.clone()).or_insert_with(Entry::new), now))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Arc::new(BootClock))
    }
}

impl Entry {
    /// A name that nobody has ever asked for.
    fn new() -> Self {
        let long_ago = Moment::from_nanos(0);
        Self {
            token: 0,
            holder: None,
            label: String::new(),
            granted: long_ago,
            ends: long_ago,
            revoked: false,
            ticket: 0,
            queue: BTreeMap::new(),
            bells: Vec::new(),
        }
    }

    fn claim(&mut self, claim: &Claim, now: Moment) -> Attempt {
        self.forget_dead_waiters(now);
        // Not if it was revoked: the claimant would count its validity from this claim, and only a moved
        // end could keep that promise, which is what the operator forbade.
        if self.is_held_by(claim.holder, now) && !self.revoked {
            self.ends = self.ends.max(now + claim.ttl);
            return Attempt::Granted(self.grant());
        }
        let ticket = claim.queue.map(|place| self.ticket_of(claim.holder, place.ticket));
        let ahead = self.ahead_of(claim.holder, ticket);
        if ahead == 0 && self.is_free(now) {
            return Attempt::Granted(self.grant_to(claim, now));
        }
        if let Some(ticket) = ticket {
            self.queue.insert((ticket, claim.holder), now + QUEUE_ENTRY);
        }
        Attempt::Held(Holding { waiting: ahead, ticket, ..self.holding(&claim.name, now) })
    }

    fn grant_to(&mut self, claim: &Claim, now: Moment) -> Grant {
        self.forget_waiter(claim.holder);
        self.token += 1;
        self.holder = Some(claim.holder);
        self.label = claim.label.to_string();
        self.granted = now;
        self.ends = now + claim.ttl;
        self.revoked = false;
        self.grant()
    }

    fn grant(&self) -> Grant {
        Grant { token: FencingToken::new(self.token) }
    }

    fn renew(&mut self, holder: HolderId, ttl: Duration, now: Moment) -> Renewal {
        if !self.is_held_by(holder, now) {
            return Renewal::Gone;
        }
        if self.revoked {
            return Renewal::Revoked;
        }
        // Never back: an overtaken renewal must not cut what a later one has promised.
        self.ends = self.ends.max(now + ttl);
        Renewal::Renewed
    }

    fn release(&mut self, holder: HolderId, keep_for: Duration, now: Moment) -> Release {
        if !self.is_held_by(holder, now) {
            return Release::NotHeld;
        }
        self.free(now + keep_for);
        Release::Released
    }

    fn leave(&mut self, holder: HolderId, now: Moment) {
        if self.is_held_by(holder, now) {
            self.free(now);
        } else if self.forget_waiter(holder) {
            self.ring();
        }
    }

    fn revoke(&mut self, name: &LockName, how: Revoke, now: Moment) -> Option<Holding> {
        if self.is_free(now) {
            return None;
        }
        let holding = self.holding(name, now);
        match how {
            Revoke::Gently => self.revoked = true,
            Revoke::Now => self.free(now),
        }
        Some(holding)
    }

    fn subscribe(&mut self) -> WakeUps {
        let bell = Arc::default();
        self.bells.retain(|bell| bell.strong_count() > 0);
        self.bells.push(Arc::downgrade(&bell));
        WakeUps::new(bell, ())
    }

    /// Ends the lease; nobody is granted the name before `from`.
    fn free(&mut self, from: Moment) {
        self.holder = None;
        self.ends = from;
        self.ring();
    }

    /// Wakes every subscriber. A subscription doesn't say whose it is, so the first waiter can't be picked.
    fn ring(&self) {
        for bell in self.bells.iter().filter_map(Weak::upgrade) {
            bell.notify_one();
        }
    }

    fn is_free(&self, now: Moment) -> bool {
        self.ends <= now
    }

    fn is_held_by(&self, holder: HolderId, now: Moment) -> bool {
        self.holder == Some(holder) && !self.is_free(now)
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
        self.queue.retain(|_, until| *until > now);
    }

    /// Whether there was one.
    fn forget_waiter(&mut self, holder: HolderId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|(_, waiter), _| *waiter != holder);
        self.queue.len() < before
    }

    /// What an operator is shown; none if the name is free and nobody waits.
    fn shown(&mut self, name: &LockName, now: Moment) -> Option<Holding> {
        self.forget_dead_waiters(now);
        (!self.is_free(now) || !self.queue.is_empty()).then(|| self.holding(name, now))
    }

    fn holding(&self, name: &LockName, now: Moment) -> Holding {
        Holding {
            name: name.clone(),
            holder: self.holder.filter(|_| !self.is_free(now)),
            label: self.label.clone(),
            token: FencingToken::new(self.token),
            held_for: now.since(self.granted),
            remaining: self.ends.since(now),
            revoked: self.revoked && !self.is_free(now),
            waiting: self.queue.len() as u64,
            ticket: None,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Memory {
    fn traits(&self) -> Traits {
        Traits { kind: "memory", smallest_ttl: Duration::from_secs(1), wake_ups: true }
    }

    fn for_keeper(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async { Ok(self.with(&claim.name, |entry, now| entry.claim(claim, now))) })
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
        Box::pin(async move { Ok(self.with(&lease.name, |entry, now| entry.release(lease.holder, how.keep_for, now))) })
    }

    fn subscribe<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<WakeUps>> {
        Box::pin(async { Ok(self.with(name, |entry, _| entry.subscribe())) })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async { Ok(self.with(name, |entry, now| entry.shown(name, now))) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Holding>>> {
        Box::pin(async {
            let shown = |names: &mut BTreeMap<LockName, Entry>, now| {
                names.iter_mut().filter_map(|(name, entry)| entry.shown(name, now)).collect()
            };
            Ok(self.with_all(shown))
        })
    }

    fn revoke<'a>(&'a self, name: &'a LockName, how: Revoke) -> BoxFuture<'a, Result<Option<Holding>>> {
        Box::pin(async move { Ok(self.with(name, |entry, now| entry.revoke(name, how, now))) })
    }

    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(async { Ok(vec![Finding::fine("memory", "locks live in this process and end with it")]) })
    }
}
