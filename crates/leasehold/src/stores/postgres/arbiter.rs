//! The database as the arbiter of a fallback: its route, and the marks of ticks wherever the leases are.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_postgres::types::Type;

use super::link::Given;
use super::{Postgres, rows};
use crate::error::Result;
use crate::lease::HolderId;
use crate::name::LockName;
use crate::store::{Arbiter, Epoch, Reading, Refusal, Route, RouteTerms, Switch, TickClaim, TickOf};
use crate::stores::sql::arbiter::{self, Stored, Terms};
use crate::stores::sql::micros;
use crate::tick::{Due, Standing};

impl Postgres {
    /// Calls a procedure that answers one number, once the namespace is given.
    async fn step(&self, statement: &str, given: &[Given<'_>]) -> Result<i32> {
        let namespace = self.namespace();
        let given: Vec<Given<'_>> =
            std::iter::once((&namespace as _, Type::TEXT)).chain(given.iter().cloned()).collect();
        self.ask_for(statement, &given, |row| row.try_get(0)).await
    }
}

impl Arbiter for Postgres {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        Box::pin(async {
            let given: [Given<'_>; 1] = [(&self.namespace(), Type::TEXT)];
            let stored = self.ask_for(&self.server.statements.route, &given, rows::route).await?;
            Ok(stored.map(Stored::reading))
        })
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Terms { lease, drift, max_ttl, identity } = Terms::of(terms);
            let given: [Given<'_>; 6] = [
                (&arbiter::number(route.epoch), Type::INT8),
                (&arbiter::incarnation(&route.target), Type::TEXT),
                (&lease, Type::INT8),
                (&drift, Type::INT8),
                (&max_ttl, Type::INT8),
                (&identity, Type::TEXT),
            ];
            self.step(&self.server.statements.found, &given).await.map(drop)
        })
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let given: [Given<'_>; 4] = [
                (&arbiter::number(switch.from), Type::INT8),
                (&arbiter::incarnation(&switch.to), Type::TEXT),
                (&micros(switch.dwell), Type::INT8),
                (&micros(switch.patience), Type::INT8),
            ];
            Ok(self.step(&self.server.statements.switch, &given).await? == 1)
        })
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let given: [Given<'_>; 2] = [(&arbiter::number(epoch), Type::INT8), (&micros(drain), Type::INT8)];
            self.step(&self.server.statements.arm, &given).await.map(drop)
        })
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.step(&self.server.statements.complain, &[]).await.map(drop) })
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        Box::pin(async move {
            let TickOf { lease, due, again } = claim;
            let given: [Given<'_>; 8] = [
                (&self.namespace(), Type::TEXT),
                (&lease.name.as_str(), Type::TEXT),
                (&lease.holder.to_string(), Type::TEXT),
                (&arbiter::number(epoch), Type::INT8),
                (&due.tick.as_unix_millis(), Type::INT8),
                (&due.retry_failed, Type::BOOL),
                (&micros(due.keep), Type::INT8),
                (again, Type::BOOL),
            ];
            self.ask_for(&self.server.statements.tick, &given, rows::ticked).await?.claim(self.shown())
        })
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            let given: [Given<'_>; 6] = [
                (&self.namespace(), Type::TEXT),
                (&name.as_str(), Type::TEXT),
                (&due.tick.as_unix_millis(), Type::INT8),
                (&due.retry_failed, Type::BOOL),
                (&micros(due.keep), Type::INT8),
                (&alive.map(|holder| holder.to_string()), Type::TEXT),
            ];
            self.ask_for(&self.server.statements.stands, &given, rows::ticked).await?.standing(self.shown())
        })
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        Box::pin(async move {
            let Terms { lease, drift, max_ttl, identity } = Terms::of(terms);
            let given: [Given<'_>; 6] = [
                (&self.namespace(), Type::TEXT),
                (&arbiter::number(seen), Type::INT8),
                (&lease, Type::INT8),
                (&drift, Type::INT8),
                (&max_ttl, Type::INT8),
                (&identity, Type::TEXT),
            ];
            self.ask_for(&self.server.statements.repair, &given, |row| row.try_get(0)).await.map(arbiter::epoch)
        })
    }
}
