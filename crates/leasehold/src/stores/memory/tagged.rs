//! Leases with a tag, in memory.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Contents, Entry, Lease, Memory};
use crate::error::Result;
use crate::lease::{Attempt, Claim, HolderId, LeaseKey, Renewal};
use crate::rule::Rule;
use crate::store::{Carried, Epoch, Force, Incarnation, Refusal, Route, Tagged, Target};
use crate::validity::Moment;

impl Contents {
    /// The data set that it is.
    pub(super) fn incarnation(&self) -> Incarnation {
        Incarnation::new(format!("start {}", self.started))
    }

    /// Whether a claim under this route is to be looked at.
    fn admits_claim(&self, under: &Route, now: Moment) -> Result<(), Refusal> {
        match &under.target {
            Target::Primary(incarnation) => self.admits(incarnation, under.epoch),
            Target::Arbiter if !Rule::TheArbiterComparesTheRoute.holds() => Ok(()),
            Target::Arbiter => self.arbitrates(under, |force| matches!(force, Force::Since(_)), now),
        }
    }

    /// Whether a lease may be carried to here.
    fn admits_carry(&self, to: &Route, now: Moment) -> Result<(), Refusal> {
        match &to.target {
            Target::Primary(incarnation) => self.admits(incarnation, to.epoch),
            Target::Arbiter => self.arbitrates(to, |force| matches!(force, Force::In(_)), now),
        }
    }

    fn admits(&self, incarnation: &Incarnation, epoch: Epoch) -> Result<(), Refusal> {
        if *incarnation != self.incarnation() {
            return Err(Refusal::OtherIncarnation);
        }
        if epoch < self.watermark && Rule::TagsAreNeverLowered.holds() {
            return Err(Refusal::OtherRoute);
        }
        Ok(())
    }

    fn arbitrates(&self, route: &Route, is_right: impl Fn(Force) -> bool, now: Moment) -> Result<(), Refusal> {
        let own = self.route.as_ref().filter(|own| own.route == *route && is_right(own.force(now)));
        own.map(|_| ()).ok_or(Refusal::OtherRoute)
    }

    fn claim(&mut self, claim: &Claim, under: &Route, now: Moment) -> Result<Result<Attempt, Refusal>> {
        if let Err(refusal) = self.admits_claim(under, now) {
            return Ok(Err(refusal));
        }
        self.watermark = self.watermark.max(under.epoch);
        let entry = self.names.entry(claim.name.clone()).or_default();
        if entry.tag_of(claim.holder, now) > Some(under.epoch) {
            return Ok(Err(Refusal::NewerTag));
        }
        entry.bury(under.epoch);
        entry.claim(claim, Some(under.epoch), now, Duration::ZERO).map(Ok)
    }

    fn renew_under(&mut self, key: &LeaseKey, ttl: Duration, under: &Route, now: Moment) -> Result<Renewal, Refusal> {
        if let Target::Primary(incarnation) = &under.target
            && *incarnation != self.incarnation()
        {
            return Err(Refusal::OtherIncarnation);
        }
        let entry = self.names.entry(key.name.clone()).or_default();
        if entry.tag_of(key.holder, now) != Some(under.epoch) {
            return Ok(Renewal::Gone);
        }
        Ok(entry.renew(key.holder, ttl, now))
    }

    fn carry(&mut self, lease: &Carried, to: &Route, now: Moment) -> Result<(), Refusal> {
        self.admits_carry(to, now)?;
        let entry = self.names.entry(lease.key.name.clone()).or_default();
        if entry.tag_of(lease.key.holder, now) > Some(to.epoch) && Rule::TagsAreNeverLowered.holds() {
            return Err(Refusal::NewerTag);
        }
        entry.bury(to.epoch);
        let is_own = |other: &Lease| other.holder == Some(lease.key.holder);
        entry.leases.retain(|other| !other.is_over(now));
        if entry.leases.iter().any(|other| is_own(other) && other.revoked) {
            return Err(Refusal::Revoked);
        }
        if !entry.leases.iter().all(is_own) {
            return Err(Refusal::HeldByAnother);
        }
        self.watermark = self.watermark.max(to.epoch);
        let ends = entry.leases.iter().filter(|other| is_own(other)).map(|own| own.ends).max();
        entry.forget_waiter(lease.key.holder);
        entry.permits = 1;
        entry.leases.clear();
        entry.leases.push(Lease {
            holder: Some(lease.key.holder),
            label: lease.label.clone(),
            token: lease.token,
            tag: Some(to.epoch),
            granted: now,
            ends: ends.max(Some(now + lease.ttl)).unwrap_or(now),
            revoked: false,
        });
        Ok(())
    }
}

impl Entry {
    /// Leases of earlier routes are dead. What has no tag is none of a fallback's.
    fn bury(&mut self, epoch: Epoch) {
        self.leases.retain(|lease| lease.tag.is_none_or(|tag| tag >= epoch));
    }

    fn tag_of(&mut self, holder: HolderId, now: Moment) -> Option<Epoch> {
        self.lease_of(holder, now).and_then(|lease| lease.tag)
    }
}

impl Tagged for Memory {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(async move { self.with_all(|contents, now| contents.claim(claim, under, now)) })
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        let renew = move |(key, ttl): &(LeaseKey, Duration)| {
            self.with_all(|contents, now| contents.renew_under(key, *ttl, under, now))
        };
        Box::pin(async move { leases.iter().map(renew).map(Ok).collect() })
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        Box::pin(async move { Ok(self.with_all(|contents, now| contents.carry(lease, to, now))) })
    }
}
