//! One attempt at a lock: in the store to which the route leads, and for a tick at the arbiter's mark.

use futures_util::future::join_all;

use super::shared::{Shared, under_way};
use super::stores::{Side, Stores};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim, FencingToken, Grant, HolderId, Holding, LeaseKey, Place};
use crate::span::Span;
use crate::store::{Refusal, Route, TickClaim, TickOf};
use crate::tick::{Due, NotDue, Standing};
use crate::validity;

impl Shared {
    /// What may not be run is not queued for: to get out of the queue again a holder would have to leave while it goes on
    /// asking, and a `leave` that comes late would take a later lease of it away.
    pub async fn claim(&self, stores: &Stores, claim: &Claim) -> Result<Attempt> {
        self.check_claim(claim)?;
        if let Some(why) = self.holders().not_due(claim.holder) {
            return Ok(Attempt::NotDue(why));
        }
        let waits = claim.queue.is_some();
        let Some(due) = claim.due else { return self.ask(stores, claim, waits).await };
        let mut seen = None;
        loop {
            let holding = match self.ask(stores, &Claim { queue: None, ..claim.clone() }, waits).await? {
                Attempt::Held(holding) => holding,
                answer => return Ok(answer),
            };
            match self.standing(stores, claim, due, &holding).await? {
                Standing::ForClaim if waits => {
                    return self.ask(stores, claim, waits).await.map_err(Error::maybe_applied);
                }
                Standing::ForClaim | Standing::Running => return Ok(Attempt::Held(holding)),
                // Between the two looks somebody may have been granted the lock, and begun this very tick.
                Standing::Over(NotDue::Claimed { unfinished: true, .. }) if seen != Some(grant_of(&holding)) => {
                    seen = Some(grant_of(&holding));
                }
                Standing::Over(why) => {
                    if waits {
                        self.give_back(stores, &key_of(claim), why).await; // It may have a place from an earlier claim.
                    }
                    return Ok(Attempt::NotDue(why));
                }
            }
        }
    }

    /// Sends it, once. Whoever `waits` will ask again if it is in vain, or leave.
    async fn ask(&self, stores: &Stores, claim: &Claim, waits: bool) -> Result<Attempt> {
        let under = self.route_for_claims().await?;
        let sent = self.now();
        self.holders().asks(claim, stores, Side::of(&under.target), sent);
        let plain = without_what_is_not_of_one_store(claim);
        let answer = stores.tagged(&under.target).claim(&plain, &under).await;
        let answer = answer.inspect_err(|error| self.suspect(&under, error));
        match answer.map_err(|error| self.of_both(&under, error))? {
            Err(refusal) => Err(self.refused(&under, refusal)),
            Ok(Attempt::Granted(grant)) => {
                let until = validity::until(sent, claim.ttl);
                let bound = self.holders().granted(claim.holder, &under, grant.token, until, self.now());
                let bound = bound.ok_or_else(too_late)?;
                self.with_its_tick(stores, claim, &under, Grant { bound: Some(bound), ..grant }).await
            }
            Ok(Attempt::Held(holding)) => {
                if !waits {
                    self.holders().asked_in_vain(claim.holder);
                }
                Ok(Attempt::Held(holding))
            }
            Ok(not_due) => Ok(not_due),
        }
    }

    fn check_claim(&self, claim: &Claim) -> Result<()> {
        if claim.permits.get() != 1 {
            let several = format!("{}: a fallback has locks for one holder only, and no permits", claim.name);
            return Err(Error::new(ErrorKind::Misconfigured, several));
        }
        if claim.ttl > self.settings.max_ttl {
            let (ttl, most) = (Span(claim.ttl), Span(self.settings.max_ttl));
            return Err(Error::invalid(format!("the TTL {ttl} is too long: at most {most} under this fallback")));
        }
        Ok(())
    }

    /// The lease is there; a claim with a tick starts only if the arbiter gives it that, too, and while it is valid.
    async fn with_its_tick(&self, stores: &Stores, claim: &Claim, under: &Route, grant: Grant) -> Result<Attempt> {
        let Some(due) = claim.due else { return Ok(Attempt::Granted(grant)) };
        let key = key_of(claim);
        let again = self.holders().claims_tick(claim.holder, grant.token);
        let tick = TickOf { lease: key.clone(), due, again };
        match stores.arbiter().claim_tick(&tick, under.epoch).await.map_err(Error::maybe_applied)? {
            // It has the lease: whoever asked asks again, or leaves.
            Err(refusal) => Err(self.refused(under, refusal).maybe_applied()),
            Ok(TickClaim::NotDue(why)) => {
                self.give_back(stores, &key, why).await;
                Ok(Attempt::NotDue(why))
            }
            Ok(TickClaim::Claimed { attempt, gave_up }) => {
                if !self.holders().is_given_its_tick(claim.holder, self.now()) {
                    return Err(too_late());
                }
                Ok(Attempt::Granted(Grant { attempt, gave_up, ..grant }))
            }
        }
    }

    /// It is not to be run: the next one may have the lock. Until all stores have heard of it, and so also if this is dropped
    /// half-way, whoever asks for this holder again is told the same.
    async fn give_back(&self, stores: &Stores, key: &LeaseKey, why: NotDue) {
        let traces = self.holders().ends_not_due(key.holder, why, self.now());
        let leave = async |side: Side| {
            let has_heard = stores.on(side).leave(key).await.is_ok();
            if !has_heard {
                drop(self.leave_over(key.clone(), side, traces.ttl));
            }
            has_heard
        };
        let heard = join_all(traces.sides().map(leave)).await;
        if heard.into_iter().all(|has_heard| has_heard) {
            self.holders().forget(key.holder);
        }
    }

    async fn standing(&self, stores: &Stores, claim: &Claim, due: Due, holding: &Holding) -> Result<Standing> {
        stores.arbiter().standing(&claim.name, due, holding.holder).await.map_err(Error::maybe_applied)
    }

    /// A store did not do what was asked since it goes by another route.
    pub fn refused(&self, under: &Route, refusal: Refusal) -> Error {
        self.bells.read.notify_one();
        match refusal {
            Refusal::OtherIncarnation => {
                self.bells.probe.notify_one();
                let replaced = "the primary was restarted or replaced, and the route does not lead to what it is now";
                Error::new(ErrorKind::Unavailable, replaced).passes()
            }
            Refusal::OtherRoute | Refusal::NewerTag | Refusal::HeldByAnother | Refusal::Revoked => under_way(under),
        }
    }

    /// What can't be reached is looked at more closely.
    pub fn suspect(&self, under: &Route, error: &Error) {
        if error.is_transient() && Side::of(&under.target) == Side::Primary {
            self.bells.probe.notify_one();
        }
    }
}

/// A claim as one store is told of it: ticks are the arbiter's, and nothing is handed over, for a store doesn't know
/// whether its route is over.
fn without_what_is_not_of_one_store(claim: &Claim) -> Claim {
    let queue = claim.queue.map(|place| Place { sent: None, ..place });
    Claim { due: None, queue, ..claim.clone() }
}

fn key_of(claim: &Claim) -> LeaseKey {
    LeaseKey { name: claim.name.clone(), holder: claim.holder }
}

/// Of whom a holding tells: the same again was there all the time.
fn grant_of(holding: &Holding) -> (Option<HolderId>, FencingToken) {
    (holding.holder, holding.token)
}

fn too_late() -> Error {
    let late = "the grant came so late that its route or its time is over";
    Error::new(ErrorKind::TimedOut, late).maybe_applied()
}
