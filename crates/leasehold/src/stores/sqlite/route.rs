//! The route of a fallback whose arbiter the file is: one row for each namespace.
//!
//! It is read with the write lock, too. Whoever gives it a time reads the clock before others see what it writes, and who
//! read the old row meanwhile would count on more than there is.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row as Columns, params};

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::leases::{after, between, epoch, number};
use crate::store::{Epoch, Force, Incarnation, Reading, Route, RouteTerms, Switch, Target};
use crate::tick::{TICK_SLACK, Tick};

/// The route and what stands beside it.
struct Row {
    route: Route,
    /// From when on it is in force; none as long as it is not armed.
    not_before: Option<i64>,
    terms: RouteTerms,
    patience: Duration,
    complained: Option<i64>,
    /// Ticks up to here are over: data was lost.
    floor: Option<Tick>,
}

impl Row {
    fn first(route: Route, terms: &RouteTerms) -> Self {
        let terms = terms.clone();
        Self { route, not_before: None, terms, patience: Duration::ZERO, complained: None, floor: None }
    }

    fn find(writing: &Writing<'_>) -> Result<Option<Self>, Fault> {
        let mut statement = writing.db.prepare_cached(
            "select epoch, incarnation, not_before, lease, drift, max_ttl, identity, patience, complained, floor
             from leasehold_routes where ns = ?1",
        )?;
        Ok(statement.query_row([writing.namespace()], Self::of).optional()?)
    }

    fn of(row: &Columns<'_>) -> rusqlite::Result<Self> {
        let incarnation: Option<String> = row.get(1)?;
        let target = incarnation.map_or(Target::Arbiter, |name| Target::Primary(Incarnation::new(name)));
        let terms = RouteTerms {
            lease: span(row.get(3)?),
            drift: row.get(4)?,
            max_ttl: span(row.get(5)?),
            primary: row.get(6)?,
        };
        Ok(Self {
            route: Route { epoch: epoch(row.get(0)?), target },
            not_before: row.get(2)?,
            terms,
            patience: span(row.get(7)?),
            complained: row.get(8)?,
            floor: row.get::<_, Option<i64>>(9)?.and_then(Tick::from_unix_millis),
        })
    }

    fn put(&self, writing: &Writing<'_>) -> Result<(), Fault> {
        let mut statement = writing.db.prepare_cached(
            "insert or replace into leasehold_routes(
                ns, epoch, incarnation, not_before, lease, drift, max_ttl, identity, patience, complained, floor)
             values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        let incarnation = match &self.route.target {
            Target::Primary(incarnation) => Some(incarnation.to_string()),
            Target::Arbiter => None,
        };
        let terms = &self.terms;
        statement.execute(params![
            writing.namespace(),
            number(self.route.epoch),
            incarnation,
            self.not_before,
            nanos(terms.lease),
            terms.drift,
            nanos(terms.max_ttl),
            terms.primary,
            nanos(self.patience),
            self.complained,
            self.floor.map(Tick::as_unix_millis),
        ])?;
        Ok(())
    }

    fn force(&self, now: i64) -> Force {
        match self.not_before {
            None => Force::Unarmed,
            Some(at) if now < at => Force::In(between(now, at)),
            Some(at) => Force::Since(between(at, now)),
        }
    }

    fn read(self, now: i64) -> Reading {
        Reading {
            force: self.force(now),
            route: self.route,
            terms: self.terms,
            patience: self.patience,
            complained: self.complained.map(|at| between(at, now)),
        }
    }
}

pub(super) fn read(connection: &mut Connection) -> Result<Option<Reading>, Fault> {
    connection.write(|writing| Ok(Row::find(writing)?.map(|row| row.read(writing.now))))
}

pub(super) fn found(connection: &mut Connection, route: &Route, terms: &RouteTerms) -> Result<(), Fault> {
    connection.write_durably(|writing| match Row::find(writing)? {
        None => Row::first(route.clone(), terms).put(writing),
        Some(_) => Ok(()),
    })
}

pub(super) fn switch(connection: &mut Connection, switch: &Switch) -> Result<bool, Fault> {
    connection.write_durably(|writing| {
        let Some(row) = Row::find(writing)? else { return Ok(false) };
        let is_due = matches!(row.force(writing.now), Force::Since(age) if age >= switch.dwell);
        if row.route.epoch != switch.from || !is_due {
            return Ok(false);
        }
        let route = Route { epoch: switch.from.later(1), target: switch.to.clone() };
        Row { route, not_before: None, patience: switch.patience, ..row }.put(writing)?;
        Ok(true)
    })
}

/// In a later transaction than the switch: that one is committed, or it would not be seen here.
pub(super) fn arm(connection: &mut Connection, epoch: Epoch, drain: Duration) -> Result<(), Fault> {
    connection.write_durably(|writing| match Row::find(writing)? {
        Some(row) if row.route.epoch == epoch && row.not_before.is_none() => {
            Row { not_before: Some(after(writing.now, drain)), ..row }.put(writing)
        }
        _ => Ok(()),
    })
}

pub(super) fn complain(connection: &mut Connection) -> Result<(), Fault> {
    connection.write_durably(|writing| match Row::find(writing)? {
        Some(row) => Row { complained: Some(writing.now), ..row }.put(writing),
        None => Ok(()),
    })
}

pub(super) fn repair(connection: &mut Connection, seen: Epoch, terms: &RouteTerms) -> Result<Epoch, Fault> {
    connection.write_durably(|writing| {
        let row = Row::find(writing)?;
        let epoch = row.as_ref().map_or(seen, |row| row.route.epoch.max(seen)).later(2);
        let row = row.unwrap_or_else(|| Row::first(Route { epoch, target: Target::Arbiter }, terms));
        // Names that the backup doesn't know have marks, too. A node whose clock was fast may have claimed ahead.
        let latest = i64::try_from((writing.utc() + TICK_SLACK).as_millis()).unwrap_or(i64::MAX);
        let floor = row.floor.max(Tick::from_unix_millis(latest));
        Row { route: Route { epoch, ..row.route }, not_before: None, floor, ..row }.put(writing)?;
        let mut statement = writing.db.prepare_cached("delete from leasehold_ticks where ns = ?1 and tick <> ?2")?;
        statement.execute(params![writing.namespace(), Tick::ONLY.as_unix_millis()])?;
        Ok(epoch)
    })
}

/// Whether this is the route, it leads here, and is as it must be.
pub(super) fn leads_here(
    writing: &Writing<'_>,
    route: &Route,
    is_right: impl Fn(Force) -> bool,
) -> Result<bool, Fault> {
    let row = Row::find(writing)?.filter(|row| row.route == *route && is_right(row.force(writing.now)));
    Ok(row.is_some_and(|row| row.route.target == Target::Arbiter))
}

/// Whether a tick may be claimed under a route of this epoch.
pub(super) fn admits_ticks(writing: &Writing<'_>, epoch: Epoch) -> Result<bool, Fault> {
    let Some(row) = Row::find(writing)? else { return Ok(false) };
    let is_pending = !matches!(row.force(writing.now), Force::Since(_));
    Ok(epoch == row.route.epoch || is_pending && epoch.later(1) == row.route.epoch)
}

/// Ticks up to here are over, whatever the marks say.
pub(super) fn floor(writing: &Writing<'_>) -> Result<Option<Tick>, Fault> {
    Ok(Row::find(writing)?.and_then(|row| row.floor))
}

fn span(nanos: i64) -> Duration {
    between(0, nanos)
}

fn nanos(span: Duration) -> i64 {
    after(0, span)
}
