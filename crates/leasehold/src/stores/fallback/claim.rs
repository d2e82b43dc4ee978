//! One attempt at a lock: in the store to which the route leads, and for a tick at the arbiter's mark.

use super::shared::{Shared, under_way};
use super::stores::{Side, Stores};
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Attempt, Claim, Ended, Grant, Holding, LeaseKey, Place};
use crate::span::Span;
use crate::store::{Refusal, Route, TickClaim, TickOf};
use crate::tick::{Due, Standing};
use crate::validity;

impl Shared {
    pub async fn claim(&self, stores: &Stores, claim: &Claim) -> Result<Attempt> {
        self.check_claim(claim)?;
        let under = self.route_for_claims(stores).await?;
        let sent = self.now();
        self.holders().asks(claim, Side::of(&under.target), sent);
        let plain = without_what_is_not_of_one_store(claim);
        let answer = stores.tagged(&under.target).claim(&plain, &under).await;
        match answer.inspect_err(|error| self.suspect(&under, error))? {
            Err(refusal) => Err(self.refused(&under, refusal)),
            Ok(Attempt::Granted(grant)) => {
                let until = validity::until(sent, claim.ttl);
                let bound = self.holders().granted(claim.holder, &under, grant.token, until, self.now());
                let bound = bound.ok_or_else(too_late)?;
                self.with_its_tick(stores, claim, &under, Grant { bound: Some(bound), ..grant }).await
            }
            Ok(Attempt::Held(holding)) => self.held(stores, claim, &under, holding).await,
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
        let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
        let again = self.holders().claims_tick(claim.holder, grant.token);
        let tick = TickOf { lease: key.clone(), due, again };
        match stores.arbiter().claim_tick(&tick, under.epoch).await.map_err(Error::maybe_applied)? {
            Err(refusal) => {
                self.give_back(stores, &key, claim, under).await;
                Err(self.refused(under, refusal))
            }
            Ok(TickClaim::NotDue(why)) => {
                self.give_back(stores, &key, claim, under).await;
                Ok(Attempt::NotDue(why))
            }
            Ok(TickClaim::Claimed { attempt, gave_up }) => {
                let is_valid = self.holders().route_of(claim.holder, self.now()).is_some();
                if !is_valid {
                    return Err(too_late());
                }
                Ok(Attempt::Granted(Grant { attempt, gave_up, ..grant }))
            }
        }
    }

    /// It was not begun: the next one may have it.
    async fn give_back(&self, stores: &Stores, key: &LeaseKey, claim: &Claim, under: &Route) {
        let side = Side::of(&under.target);
        self.holders().ends(key.holder);
        match stores.on(side).release(key, Ended::default()).await {
            Ok(_) => self.holders().forget(key.holder),
            Err(_) => self.leave_over(key.clone(), side, claim.ttl),
        }
    }

    /// A tick that is over is not worth waiting for.
    async fn held(&self, stores: &Stores, claim: &Claim, under: &Route, holding: Holding) -> Result<Attempt> {
        if claim.queue.is_none() {
            self.holders().asked_in_vain(claim.holder);
        }
        let Some(due) = claim.due else { return Ok(Attempt::Held(holding)) };
        let standing = self.standing(stores, claim, due, &holding).await?;
        if matches!(standing, Standing::ForClaim) {
            return Ok(Attempt::Held(holding));
        }
        if claim.queue.is_some() {
            let key = LeaseKey { name: claim.name.clone(), holder: claim.holder };
            let left = stores.on(Side::of(&under.target)).leave(&key).await;
            left.map_err(Error::maybe_applied)?;
        }
        Ok(match standing {
            Standing::Over(why) => Attempt::NotDue(why),
            Standing::Running | Standing::ForClaim => Attempt::Held(Holding { ticket: None, ..holding }),
        })
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
            Refusal::OtherRoute | Refusal::NewerTag | Refusal::HeldByAnother => under_way(under),
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

fn too_late() -> Error {
    let late = "the grant came so late that its route or its time is over";
    Error::new(ErrorKind::TimedOut, late).maybe_applied()
}
