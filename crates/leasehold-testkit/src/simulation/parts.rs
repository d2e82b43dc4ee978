//! The parts of a fallback at the other end of a network.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::store::{
    Arbiter, Carried, Epoch, Primary, Reached, Reading, Refusal, Route, RouteTerms, Serving, Switch, Tagged, TickClaim,
    TickOf,
};
use leasehold::{Attempt, Claim, Due, Error, Finding, HolderId, LeaseKey, LockName, Renewal, Result, Standing, Store};

use super::wire::Wire;

/// A store is at least one of the two, or it would not have been asked.
fn tagged(store: &dyn Store) -> &dyn Tagged {
    match store.as_primary() {
        Some(primary) => primary,
        None => arbiter(store),
    }
}

fn primary(store: &dyn Store) -> &dyn Primary {
    store.as_primary().expect("it was asked whether it is one")
}

fn arbiter(store: &dyn Store) -> &dyn Arbiter {
    store.as_arbiter().expect("it was asked whether it is one")
}

/// Sends a call of one of the traits: `sent!(self, part, method(arguments, by, reference))`.
macro_rules! sent {
    ($self:ident, $part:ident.$method:ident($($argument:ident),*)) => {{
        $(let $argument = $argument.to_owned();)*
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                $(let $argument = $argument.clone();)*
                Box::pin(async move { $part(&*store).$method($(&$argument),*).await })
            };
            Wire::carry($self, call).await?
        })
    }};
}

impl Tagged for Wire {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        sent!(self, tagged.claim(claim, under))
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        let (leases, under, count) = (leases.to_owned(), under.clone(), leases.len());
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let (leases, under) = (leases.clone(), under.clone());
                Box::pin(async move { tagged(&*store).renew_under(&leases, &under).await })
            };
            let failed = |error: Error| {
                let again = move || Error::new(error.kind(), error.to_string()).maybe_applied();
                (0..count).map(|_| Err(again())).collect()
            };
            Wire::carry(self, call).await.unwrap_or_else(failed)
        })
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        sent!(self, tagged.carry(lease, to))
    }
}

impl Primary for Wire {
    fn identity(&self) -> String {
        primary(&**self.inner()).identity()
    }

    fn serves(&self) -> BoxFuture<'_, Result<Serving>> {
        sent!(self, primary.serves())
    }

    fn raise(&self, epoch: Epoch) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { primary(&*store).raise(epoch).await })
            };
            Wire::carry(self, call).await?
        })
    }

    fn reached(&self, epoch: Epoch, anew: bool, longest: Duration) -> BoxFuture<'_, Result<Reached>> {
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { primary(&*store).reached(epoch, anew, longest).await })
            };
            Wire::carry(self, call).await?
        })
    }

    fn examine(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        sent!(self, primary.examine())
    }
}

impl Arbiter for Wire {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        sent!(self, arbiter.route())
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        sent!(self, arbiter.found(route, terms))
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        sent!(self, arbiter.switch(switch))
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                Box::pin(async move { arbiter(&*store).arm(epoch, drain).await })
            };
            Wire::carry(self, call).await?
        })
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        sent!(self, arbiter.complain())
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        let claim = claim.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let claim = claim.clone();
                Box::pin(async move { arbiter(&*store).claim_tick(&claim, epoch).await })
            };
            Wire::carry(self, call).await?
        })
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        let name = name.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let name = name.clone();
                Box::pin(async move { arbiter(&*store).standing(&name, due, alive).await })
            };
            Wire::carry(self, call).await?
        })
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        let terms = terms.clone();
        Box::pin(async move {
            let call = move |store: Arc<dyn Store>| -> BoxFuture<'static, _> {
                let terms = terms.clone();
                Box::pin(async move { arbiter(&*store).repair(seen, &terms).await })
            };
            Wire::carry(self, call).await?
        })
    }
}
