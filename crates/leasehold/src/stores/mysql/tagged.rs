//! Leases with a tag, in the tables.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{MySql, answer, room_for};
use crate::error::Result;
use crate::lease::{Attempt, Claim, LeaseKey, Renewal};
use crate::store::{Carried, Refusal, Route, Tagged};
use crate::stores::sql::{arbiter, micros};

const CARRY: &str = "call leasehold_v2_carry(?, ?, ?, ?, ?, ?, ?)";

impl Tagged for MySql {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(async move {
            let epoch = match arbiter::epoch_here(under) {
                Ok(epoch) => epoch,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let acquired = self.acquire(claim, Some(epoch)).await?;
            arbiter::attempt(acquired, claim, under.epoch, &self.site.options.shown)
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
            let call = self
                .call(CARRY, &key.name)
                .bytes(key.holder.to_string())
                .text(&room_for(label))
                .number(token.number().cast_signed())
                .number(micros(*ttl))
                .number(epoch);
            let rows = self.ask(&key.name, call).await?;
            let outcome = answer::number(&rows).map_err(|fault| self.told(fault))?;
            arbiter::carried(i32::try_from(outcome).unwrap_or(0), &self.site.options.shown)
        })
    }
}
