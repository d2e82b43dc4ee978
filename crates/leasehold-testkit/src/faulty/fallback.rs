//! The same faults for the parts of a fallback.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::store::{
    Arbiter, Carried, Epoch, Primary, Reached, Reading, Refusal, Route, RouteTerms, Serving, Switch, Tagged, TickClaim,
    TickOf,
};
use leasehold::{Attempt, Claim, Due, Finding, HolderId, LeaseKey, LockName, Renewal, Result, Standing};

use super::{Faulty, Operation, Told};

impl Faulty {
    fn tagged(&self) -> &dyn Tagged {
        match self.inner.as_primary() {
            Some(primary) => primary,
            None => self.arbiter(),
        }
    }

    fn arbiter(&self) -> &dyn Arbiter {
        self.inner.as_arbiter().expect("it was asked whether it is one")
    }

    fn primary(&self) -> &dyn Primary {
        self.inner.as_primary().expect("it was asked whether it is one")
    }
}

impl Tagged for Faulty {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(self.answer(Operation::TryAcquire, self.tagged().claim(claim, under)))
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        let failed = |told: Told| leases.iter().map(|_| Err(told.error())).collect();
        Box::pin(self.suffer(Operation::Renew, self.tagged().renew_under(leases, under), failed))
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        Box::pin(self.answer(Operation::Carry, self.tagged().carry(lease, to)))
    }
}

impl Primary for Faulty {
    fn identity(&self) -> String {
        self.primary().identity()
    }

    fn serves(&self) -> BoxFuture<'_, Result<Serving>> {
        Box::pin(self.answer(Operation::Serves, self.primary().serves()))
    }

    fn raise(&self, epoch: Epoch) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.answer(Operation::Raise, self.primary().raise(epoch)))
    }

    fn reached(&self, epoch: Epoch, anew: bool, longest: Duration) -> BoxFuture<'_, Result<Reached>> {
        Box::pin(self.answer(Operation::Raise, self.primary().reached(epoch, anew, longest)))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.answer(Operation::Diagnose, self.primary().examine()))
    }
}

impl Arbiter for Faulty {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().route()))
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().found(route, terms)))
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().switch(switch)))
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().arm(epoch, drain)))
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().complain()))
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        Box::pin(self.answer(Operation::ClaimTick, self.arbiter().claim_tick(claim, epoch)))
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(self.answer(Operation::ClaimTick, self.arbiter().standing(name, due, alive)))
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        Box::pin(self.answer(Operation::Route, self.arbiter().repair(seen, terms)))
    }
}
