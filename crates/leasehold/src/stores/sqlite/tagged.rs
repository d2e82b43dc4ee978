//! Leases with a tag, in the tables.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::params;

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::hex::Hex;
use super::lane::Kind;
use super::leases::{self, Leases};
use super::route;
use super::{Sqlite, queue};
use crate::error::Result;
use crate::lease::{Attempt, Claim, LeaseKey, Renewal};
use crate::name::LockName;
use crate::store::{Carried, Epoch, Force, Refusal, Route, Tagged};

fn claim(connection: &mut Connection, claim: &Claim, under: &Route) -> Result<Result<Attempt, Refusal>, Fault> {
    let floor = leases::token_floor(connection.database.machine.wall_ms());
    connection.write(|writing| {
        if !route::leads_here(writing, under, |force| matches!(force, Force::Since(_)))? {
            return Ok(Err(Refusal::OtherRoute));
        }
        let own = Leases::find(writing, &claim.name)?.of(claim.holder, writing.now).and_then(|own| own.tag);
        if own > Some(under.epoch) {
            return Ok(Err(Refusal::NewerTag));
        }
        bury(writing, &claim.name, under.epoch)?;
        leases::decide(writing, claim, Some(under.epoch), floor).map(Ok)
    })
}

fn carry(connection: &mut Connection, lease: &Carried, to: &Route) -> Result<Result<(), Refusal>, Fault> {
    connection.write(|writing| {
        if !route::leads_here(writing, to, |force| matches!(force, Force::In(_)))? {
            return Ok(Err(Refusal::OtherRoute));
        }
        let Carried { key, ttl, .. } = lease;
        let found = Leases::find(writing, &key.name)?;
        if found.of(key.holder, writing.now).and_then(|own| own.tag) > Some(to.epoch) {
            return Ok(Err(Refusal::NewerTag));
        }
        let is_buried = |tag: Option<Epoch>| tag.is_some_and(|tag| tag < to.epoch);
        let (own, others): (Vec<_>, Vec<_>) = found
            .live(writing.now)
            .filter(|other| !is_buried(other.tag))
            .partition(|other| other.holder == Some(key.holder));
        if own.iter().any(|own| own.revoked) {
            return Ok(Err(Refusal::Revoked));
        }
        if !others.is_empty() {
            return Ok(Err(Refusal::HeldByAnother));
        }
        let end = own.iter().map(|own| own.expires).fold(leases::after(writing.now, *ttl), i64::max);
        put(writing, lease, to.epoch, end)?;
        queue::forget(writing, &key.name, key.holder)?;
        Ok(Ok(()))
    })
}

/// Writes a carried lease, and lets go of all others of its name: none of them is alive.
fn put(writing: &Writing<'_>, lease: &Carried, tag: Epoch, end: i64) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked, tag)
         values(?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, 0, ?8)
         on conflict(ns, name, slot) do update set
            holder = ?3, label = ?4, token = ?5, granted = ?6, expires = ?7, revoked = 0, permits = 1, tag = ?8",
    )?;
    let (name, holder) = (lease.key.name.as_str(), Hex::of(lease.key.holder));
    let (token, tag) = (lease.token.number().cast_signed(), leases::number(tag));
    let label = lease.label.as_str();
    statement.execute(params![writing.namespace(), name, holder.as_str(), label, token, writing.now, end, tag])?;
    let mut statement =
        writing.db.prepare_cached("delete from leasehold_locks where ns = ?1 and name = ?2 and slot > 0")?;
    statement.execute(params![writing.namespace(), name])?;
    Ok(())
}

/// Leases of earlier routes are dead. What has no tag is none of a fallback's.
fn bury(writing: &Writing<'_>, name: &LockName, epoch: Epoch) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "update leasehold_locks set holder = null, expires = 0, revoked = 0
         where ns = ?1 and name = ?2 and tag < ?3 and expires > ?4",
    )?;
    statement.execute(params![writing.namespace(), name.as_str(), leases::number(epoch), writing.now])?;
    Ok(())
}

impl Tagged for Sqlite {
    fn claim<'a>(&'a self, claim: &'a Claim, under: &'a Route) -> BoxFuture<'a, Result<Result<Attempt, Refusal>>> {
        Box::pin(async move {
            let (claim, under) = (claim.clone(), under.clone());
            let kind = Kind::Claim { durable: false };
            let answer = self.lane.run(kind, move |connection| self::claim(connection, &claim, &under)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }

    fn renew_under<'a>(
        &'a self,
        leases: &'a [(LeaseKey, Duration)],
        under: &'a Route,
    ) -> BoxFuture<'a, Vec<Result<Result<Renewal, Refusal>>>> {
        Box::pin(async move {
            let answers = self.renew_all(leases, Some(under.epoch)).await;
            answers.into_iter().map(|answer| answer.map(Ok)).collect()
        })
    }

    fn carry<'a>(&'a self, lease: &'a Carried, to: &'a Route) -> BoxFuture<'a, Result<Result<(), Refusal>>> {
        Box::pin(async move {
            let (lease, to) = (lease.clone(), to.clone());
            let kind = Kind::Claim { durable: false };
            let answer = self.lane.run(kind, move |connection| self::carry(connection, &lease, &to)).await;
            answer.map_err(|fault| self.told(&fault))
        })
    }
}
