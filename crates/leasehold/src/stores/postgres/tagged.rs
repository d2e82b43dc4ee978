//! Leases with a tag, in the tables.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_postgres::types::Type;

use super::Postgres;
use super::link::Given;
use crate::error::Result;
use crate::lease::{Attempt, Claim, LeaseKey, Renewal};
use crate::store::{Carried, Refusal, Route, Tagged};
use crate::stores::sql::{arbiter, micros};

impl Tagged for Postgres {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(async move {
            let epoch = match arbiter::epoch_here(under) {
                Ok(epoch) => epoch,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let acquired = self.acquire(claim, Some(epoch)).await?;
            arbiter::attempt(acquired, claim, under.epoch, self.shown())
        })
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        Box::pin(async move {
            let answers = self.renew_all(leases, Some(arbiter::number(under.epoch))).await;
            answers.into_iter().map(|answer| answer.map(Ok)).collect()
        })
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        Box::pin(async move {
            let epoch = match arbiter::epoch_here(to) {
                Ok(epoch) => epoch,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let Carried { key, label, token, ttl } = lease;
            let given: [Given<'_>; 7] = [
                (&self.namespace(), Type::TEXT),
                (&key.name.as_str(), Type::TEXT),
                (&key.holder.to_string(), Type::TEXT),
                (label, Type::TEXT),
                (&token.number().cast_signed(), Type::INT8),
                (&micros(*ttl), Type::INT8),
                (&epoch, Type::INT8),
            ];
            let outcome = self.ask_for(&self.server.statements.carry, &given, |row| row.try_get(0)).await?;
            arbiter::carried(outcome, self.shown())
        })
    }
}
