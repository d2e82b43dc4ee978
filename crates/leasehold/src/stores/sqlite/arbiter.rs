//! The file as the arbiter of a fallback: its route, and the marks of ticks wherever the leases are.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Sqlite;
use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::lane::Kind;
use super::{route, ticks};
use crate::error::Result;
use crate::lease::HolderId;
use crate::name::LockName;
use crate::store::{Arbiter, Epoch, Reading, Refusal, Route, RouteTerms, Switch, TickClaim, TickOf};
use crate::tick::{Due, NotDue, Standing, Tick};

/// Writes what must outlive the machine's next failure.
const LASTING: Kind = Kind::Claim { durable: true };

/// Writes nothing of the kind.
const PASSING: Kind = Kind::Claim { durable: false };

fn claim_tick(connection: &mut Connection, claim: &TickOf, epoch: Epoch) -> Result<Result<TickClaim, Refusal>, Fault> {
    connection.write_durably(|writing| {
        if !route::admits_ticks(writing, epoch)? {
            return Ok(Err(Refusal::OtherRoute));
        }
        let TickOf { lease, due, again } = claim;
        let own = ticks::open(writing, &lease.name, due.tick)?.filter(|open| open.holder == Some(lease.holder));
        if let Some(own) = own.filter(|_| *again) {
            return Ok(Ok(TickClaim::Claimed { attempt: own.attempts, gave_up: None }));
        }
        // Whoever claims has the lease: nobody else's is alive.
        match standing(writing, &lease.name, *due, None)? {
            Standing::Over(why) => Ok(Ok(TickClaim::NotDue(why))),
            Standing::ForClaim | Standing::Running => {
                let (attempt, gave_up) = ticks::claim(writing, lease, *due)?;
                Ok(Ok(TickClaim::Claimed { attempt, gave_up }))
            }
        }
    })
}

fn standing(writing: &Writing<'_>, name: &LockName, due: Due, alive: Option<HolderId>) -> Result<Standing, Fault> {
    let floor = route::floor(writing)?.filter(|newest| due.tick != Tick::ONLY && due.tick <= *newest);
    match (due.tick.window(writing.utc(), due.keep), floor) {
        (Err(why), _) => Ok(Standing::Over(why)),
        // An idempotency key has no time to tell by whether it was lost.
        (Ok(()), Some(newest)) => Ok(Standing::Over(NotDue::Claimed { newest, unfinished: false })),
        // Whoever has a lease here is told by the caller, too.
        (Ok(()), None) => ticks::standing(writing, name, due, false, |holder| alive == Some(holder)),
    }
}

impl Sqlite {
    async fn arbitrate<T: Send + 'static>(
        &self,
        kind: Kind,
        what: impl Fn(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T> {
        self.lane.run(kind, what).await.map_err(|fault| self.told(&fault))
    }
}

impl Arbiter for Sqlite {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        Box::pin(self.arbitrate(PASSING, route::read))
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        let (route, terms) = (route.clone(), terms.clone());
        Box::pin(self.arbitrate(LASTING, move |connection| route::found(connection, &route, &terms)))
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        let switch = switch.clone();
        Box::pin(self.arbitrate(LASTING, move |connection| route::switch(connection, &switch)))
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.arbitrate(LASTING, move |connection| route::arm(connection, epoch, drain)))
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.arbitrate(LASTING, route::complain))
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        let claim = claim.clone();
        Box::pin(self.arbitrate(LASTING, move |connection| claim_tick(connection, &claim, epoch)))
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        let name = name.clone();
        Box::pin(
            self.arbitrate(PASSING, move |connection| connection.write(|writing| standing(writing, &name, due, alive))),
        )
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        let terms = terms.clone();
        Box::pin(self.arbitrate(LASTING, move |connection| route::repair(connection, seen, &terms)))
    }
}
