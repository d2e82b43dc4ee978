//! Permits that are counted, numbered or told wrong.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use leasehold::{
    Attempt, Claim, Ended, FencingToken, Grant, HolderId, Holding, LeaseKey, LockName, Release, Result, Store,
};

use super::Flaw::*;
use super::{Mutant, holders, key_of};

/// Who was granted each permit of a name last, and how often it was granted.
pub type Slots = BTreeMap<LockName, Vec<(HolderId, u64)>>;

impl Mutant {
    /// What a flaw makes of the permits of a claim; an answer, if it is answered at once.
    pub async fn miscount(&self, claim: &mut Claim) -> Result<Option<Attempt>> {
        let told = self.inner.inspect(&claim.name).await?;
        let permits = claim.permits;
        match (self.flaw, &told) {
            (PermitsAreUnlimited, _) if permits.get() > 1 => claim.permits = 1000.try_into().unwrap(),
            (PermitsAreIgnored, _) => claim.permits = 1.try_into().unwrap(),
            (OneMorePermit, _) if permits.get() > 1 => claim.permits = permits.saturating_add(1),
            (PermitsDisagree, Some(told)) if told.holder.is_some() => claim.permits = told.permits,
            (PermitsNeverShrink, _) => {
                let most = self.most.fetch_max(permits.get(), Ordering::Relaxed).max(permits.get());
                claim.permits = most.try_into().unwrap();
            }
            (SurplusIsWithheld, Some(told)) if claim.queue.is_none() && told.waiting > 0 => {
                return Ok(Some(Attempt::Held(told.clone())));
            }
            (WaitersGetOnePermitOnly, Some(told)) if claim.queue.is_some() && !self.is_first(claim) => {
                let ticket = claim.queue.and_then(|place| place.ticket).or(Some(u64::MAX / 2));
                return Ok(Some(Attempt::Held(Holding { waiting: 1, ticket, ..told.clone() })));
            }
            (PermitsHaveNoQueue, _) if permits.get() > 1 => claim.queue = None,
            _ => {}
        }
        Ok(None)
    }

    /// Whether nobody waited before this one.
    fn is_first(&self, claim: &Claim) -> bool {
        let waited = self.waited.lock().unwrap();
        waited.iter().find(|waiter| waiter.name == claim.name).is_none_or(|first| first.holder == claim.holder)
    }

    /// Remembers who waits, in order.
    pub fn stands_in_line(&self, claim: &Claim, answer: &Attempt) {
        let mut waited = self.waited.lock().unwrap();
        waited.retain(|waiter| waiter.holder != claim.holder || matches!(answer, Attempt::Held(_)));
        let stands = waited.iter().any(|waiter| waiter.holder == claim.holder);
        if claim.queue.is_some() && !stands && matches!(answer, Attempt::Held(_)) {
            waited.push(claim.clone());
        }
    }

    /// Numbers each permit for itself.
    pub fn number_by_permit(&self, claim: &Claim, grant: Grant, alive: &[HolderId]) -> Grant {
        let mut slots = self.slots.lock().unwrap();
        let slots = slots.entry(claim.name.clone()).or_default();
        let same = slots.iter().position(|(holder, _)| *holder == claim.holder && alive.contains(holder));
        let free = || slots.iter().position(|(holder, _)| !alive.contains(holder));
        let number = match same {
            Some(index) => slots[index].1,
            None => match free() {
                Some(index) => {
                    slots[index] = (claim.holder, slots[index].1 + 1);
                    slots[index].1
                }
                None => {
                    slots.push((claim.holder, 1));
                    1
                }
            },
        };
        Grant { token: FencingToken::new(number), ..grant }
    }

    /// Keeps the released permit, and all that are free beside it.
    pub async fn keep_all(&self, lease: &LeaseKey, how: Ended) -> Result<Release> {
        let permits = self.inner.inspect(&lease.name).await?.unwrap().permits;
        let answer = self.inner.release(lease, how).await?;
        for _ in 0..permits.get() {
            let claim = Claim::new(lease.name.clone(), HolderId::fresh(), "kept".into(), how.keep_for);
            let claim = Claim { permits, ..claim };
            if let Attempt::Granted(_) = self.inner.try_acquire(&claim).await? {
                let _ = self.inner.release(&key_of(&claim), how).await?;
            }
        }
        Ok(answer)
    }

    /// What is told of a name.
    pub fn retold(&self, told: Holding) -> Holding {
        if self.has(OthersAreNotTold) {
            return Holding { others: Vec::new(), ..told };
        }
        if self.has(OthersComeInNoOrder) {
            return Holding { others: told.others.into_iter().rev().collect(), ..told };
        }
        if self.has(PermitsAreNotTold) {
            return Holding { permits: 1.try_into().unwrap(), ..told };
        }
        if self.has(OthersHaveTheFirstOnesToken) {
            let others = told.others.iter().cloned().map(|other| leasehold::Holder { token: told.token, ..other });
            return Holding { others: others.collect(), ..told };
        }
        told
    }

    /// An entry of the list for each holder.
    pub fn spread(told: &Holding) -> Vec<Holding> {
        let count = holders(told).len().max(1);
        vec![told.clone(); count]
    }
}
