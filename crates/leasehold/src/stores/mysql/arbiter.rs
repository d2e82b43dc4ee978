//! The database as the arbiter of a fallback: its route, and the marks of ticks wherever the leases are.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::call::{Call, Rows};
use super::fault::Fault;
use super::{MySql, answer};
use crate::error::Result;
use crate::lease::HolderId;
use crate::name::LockName;
use crate::store::{Arbiter, Epoch, Reading, Refusal, Route, RouteTerms, Switch, Target, TickClaim, TickOf};
use crate::stores::sql::arbiter::{self, Stored, Terms};
use crate::stores::sql::micros;
use crate::tick::{Due, Standing};

const ROUTE: &str = "call leasehold_v2_route(?)";
const FOUND: &str = "call leasehold_v2_found(?, ?, ?, ?, ?, ?, ?)";
const SWITCH: &str = "call leasehold_v2_switch(?, ?, ?, ?, ?)";
const ARM: &str = "call leasehold_v2_arm(?, ?, ?)";
const COMPLAIN: &str = "call leasehold_v2_complain(?)";
const REPAIR: &str = "call leasehold_v2_repair(?, ?, ?, ?, ?, ?)";
const TICK: &str = "call leasehold_v2_tick(?, ?, ?, ?, ?, ?, ?, ?)";
const STANDS: &str = "call leasehold_v2_stands(?, ?, ?, ?, ?, ?)";

impl MySql {
    fn route_call(&self, sql: &'static str) -> Call {
        Call::new(sql).bytes(self.site.options.namespace.as_str())
    }

    async fn ask_for_route<T>(&self, call: Call, read: impl Fn(&Rows) -> Result<T, Fault>) -> Result<T> {
        let answer = self.lanes.ask_for_route(call).await.and_then(|rows| read(&rows));
        answer.map_err(|fault| self.told(fault))
    }
}

fn to(call: Call, target: &Target) -> Call {
    call.maybe_bytes(arbiter::incarnation(target).as_deref().map(str::as_bytes))
}

fn on(call: Call, terms: &RouteTerms) -> Call {
    let Terms { lease, drift, max_ttl, identity } = Terms::of(terms);
    call.number(lease).number(drift).number(max_ttl).bytes(identity)
}

fn of(call: Call, due: Due) -> Call {
    call.number(due.tick.as_unix_millis()).number(i64::from(due.retry_failed)).number(micros(due.keep))
}

fn nothing(_: &Rows) -> Result<(), Fault> {
    Ok(())
}

impl Arbiter for MySql {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        Box::pin(async {
            let stored = self.ask_for_route(self.route_call(ROUTE), answer::route).await?;
            Ok(stored.map(Stored::reading))
        })
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        let call = to(self.route_call(FOUND).number(arbiter::number(route.epoch)), &route.target);
        Box::pin(self.ask_for_route(on(call, terms), nothing))
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        let call = to(self.route_call(SWITCH).number(arbiter::number(switch.from)), &switch.to);
        let call = call.number(micros(switch.dwell)).number(micros(switch.patience));
        Box::pin(async { Ok(self.ask_for_route(call, answer::number).await? != 0) })
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        let call = self.route_call(ARM).number(arbiter::number(epoch)).number(micros(drain));
        Box::pin(self.ask_for_route(call, nothing))
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.ask_for_route(self.route_call(COMPLAIN), nothing))
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        let TickOf { lease, due, again } = claim;
        let call = self.call(TICK, &lease.name).bytes(lease.holder.to_string()).number(arbiter::number(epoch));
        let call = of(call, *due).number(i64::from(*again));
        Box::pin(async {
            let rows = self.ask(&lease.name, call).await?;
            answer::ticked(&rows).map_err(|fault| self.told(fault))?.claim(&self.site.options.shown)
        })
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        let alive = alive.map(|holder| holder.to_string());
        let call = of(self.call(STANDS, name), due).maybe_bytes(alive.as_deref().map(str::as_bytes));
        Box::pin(async {
            let rows = self.ask(name, call).await?;
            answer::ticked(&rows).map_err(|fault| self.told(fault))?.standing(&self.site.options.shown)
        })
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        let call = on(self.route_call(REPAIR).number(arbiter::number(seen)), terms);
        Box::pin(async { self.ask_for_route(call, answer::number).await.map(arbiter::epoch) })
    }
}
