//! The memory store as the arbiter of a fallback.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Contents, Memory};
use crate::error::Result;
use crate::lease::HolderId;
use crate::name::LockName;
use crate::rule::Rule;
use crate::store::{Arbiter, Epoch, Force, Reading, Refusal, Route, RouteTerms, Switch, Target, TickClaim, TickOf};
use crate::tick::{Due, NotDue, Standing, TICK_SLACK, Tick};
use crate::validity::Moment;

/// The route and what stands beside it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub route: Route,
    /// From when on it is in force; none as long as it is not armed.
    not_before: Option<Moment>,
    terms: RouteTerms,
    patience: Duration,
    complained: Option<Moment>,
}

impl Row {
    fn first(route: Route, terms: &RouteTerms) -> Self {
        Self { route, not_before: None, terms: terms.clone(), patience: Duration::ZERO, complained: None }
    }

    pub(super) fn force(&self, now: Moment) -> Force {
        match self.not_before {
            None => Force::Unarmed,
            Some(at) if now < at => Force::In(at.since(now)),
            Some(at) => Force::Since(now.since(at)),
        }
    }

    fn read(&self, now: Moment) -> Reading {
        Reading {
            route: self.route.clone(),
            force: self.force(now),
            terms: self.terms.clone(),
            patience: self.patience,
            complained: self.complained.map(|at| now.since(at)),
        }
    }

    fn switch(&mut self, switch: &Switch, now: Moment) -> bool {
        let is_due = matches!(self.force(now), Force::Since(age) if age >= switch.dwell);
        if self.route.epoch != switch.from || !is_due {
            return false;
        }
        self.route = Route { epoch: switch.from.later(1), target: switch.to.clone() };
        self.not_before = None;
        self.patience = switch.patience;
        true
    }

    fn arm(&mut self, epoch: Epoch, drain: Duration, now: Moment) {
        if self.route.epoch == epoch && self.not_before.is_none() {
            self.not_before = Some(now + drain);
        }
    }

    /// Whether a tick may be claimed under a route of this epoch.
    fn admits(&self, epoch: Epoch, now: Moment) -> bool {
        let is_pending = !matches!(self.force(now), Force::Since(_));
        epoch == self.route.epoch || is_pending && epoch.later(1) == self.route.epoch
    }
}

impl Contents {
    fn claim_tick(&mut self, claim: &TickOf, epoch: Epoch, now: Moment, utc: Duration) -> Result<TickClaim, Refusal> {
        if !self.route.as_ref().is_some_and(|row| row.admits(epoch, now)) {
            return Err(Refusal::OtherRoute);
        }
        let TickOf { lease, due, again } = claim;
        let marks = &mut self.names.entry(lease.name.clone()).or_default().marks;
        let is_own = marks.open.get(&due.tick).is_some_and(|open| open.holder == Some(lease.holder));
        if *again && is_own {
            return Ok(TickClaim::Claimed { attempt: marks.attempts(lease.holder), gave_up: None });
        }
        if let Err(why) = self.window(*due, utc) {
            return Ok(TickClaim::NotDue(why));
        }
        let marks = &mut self.names.entry(lease.name.clone()).or_default().marks;
        // Whoever claims has the lease: nobody else's is alive.
        match marks.standing(*due, |_| false) {
            Standing::Over(why) => Ok(TickClaim::NotDue(why)),
            Standing::ForClaim | Standing::Running => {
                let (attempt, gave_up) = marks.claim(lease.holder, *due);
                Ok(TickClaim::Claimed { attempt, gave_up })
            }
        }
    }

    /// Whether a tick is to be looked at. All those are over that may have been claimed before data was lost; an
    /// idempotency key has no time to tell that by.
    fn window(&self, due: Due, utc: Duration) -> Result<(), NotDue> {
        due.tick.window(utc, due.keep)?;
        match self.floor {
            Some(newest) if due.tick != Tick::ONLY && due.tick <= newest => {
                Err(NotDue::Claimed { newest, unfinished: false })
            }
            _ => Ok(()),
        }
    }

    fn standing(&self, name: &LockName, due: Due, alive: Option<HolderId>, utc: Duration) -> Standing {
        if let Err(why) = self.window(due, utc) {
            return Standing::Over(why);
        }
        let marks = self.names.get(name).map(|entry| &entry.marks);
        marks.map_or(Standing::ForClaim, |marks| marks.standing(due, |holder| alive == Some(holder)))
    }

    fn repair(&mut self, seen: Epoch, terms: &RouteTerms, utc: Duration) -> Epoch {
        let epoch = self.route.as_ref().map_or(seen, |row| row.route.epoch.max(seen));
        let epoch = epoch.later(2);
        let row = self.route.get_or_insert_with(|| Row::first(Route { epoch, target: Target::Arbiter }, terms));
        row.route.epoch = epoch;
        row.not_before = None;
        if Rule::RestoredMarksAreRaised.holds() {
            // Names that the backup doesn't know have marks, too. A node whose clock was fast may have claimed ahead.
            let latest = i64::try_from((utc + TICK_SLACK).as_millis()).unwrap_or(i64::MAX);
            self.floor = Tick::from_unix_millis(latest);
            for entry in self.names.values_mut() {
                entry.marks.open.retain(|tick, _| *tick == Tick::ONLY);
            }
        }
        epoch
    }
}

impl Memory {
    fn with_route<T>(&self, what: impl FnOnce(&mut Row, Moment) -> T) -> Option<T> {
        self.with_all(|contents, now| contents.route.as_mut().map(|row| what(row, now)))
    }
}

impl Arbiter for Memory {
    fn route(&self) -> BoxFuture<'_, Result<Option<Reading>>> {
        Box::pin(async { Ok(self.with_route(|row, now| row.read(now))) })
    }

    fn found<'a>(&'a self, route: &'a Route, terms: &'a RouteTerms) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.with_all(|contents, _| {
                contents.route.get_or_insert_with(|| Row::first(route.clone(), terms));
            });
            Ok(())
        })
    }

    fn switch<'a>(&'a self, switch: &'a Switch) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(self.with_route(|row, now| row.switch(switch, now)).unwrap_or(false)) })
    }

    fn arm(&self, epoch: Epoch, drain: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.with_route(|row, now| row.arm(epoch, drain, now));
            Ok(())
        })
    }

    fn complain(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.with_route(|row, now| row.complained = Some(now));
            Ok(())
        })
    }

    fn claim_tick<'a>(&'a self, claim: &'a TickOf, epoch: Epoch) -> BoxFuture<'a, Result<Result<TickClaim, Refusal>>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let utc = contents.utc(now);
                contents.claim_tick(claim, epoch, now, utc)
            }))
        })
    }

    fn standing<'a>(
        &'a self,
        name: &'a LockName,
        due: Due,
        alive: Option<HolderId>,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let utc = contents.utc(now);
                contents.standing(name, due, alive, utc)
            }))
        })
    }

    fn repair<'a>(&'a self, seen: Epoch, terms: &'a RouteTerms) -> BoxFuture<'a, Result<Epoch>> {
        Box::pin(async move {
            Ok(self.with_all(|contents, now| {
                let utc = contents.utc(now);
                contents.repair(seen, terms, utc)
            }))
        })
    }
}
