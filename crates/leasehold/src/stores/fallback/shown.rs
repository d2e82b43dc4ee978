//! What people are shown of both stores.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, join, join_all, join3};

use super::shared::{Shared, limited};
use super::stores::{Side, Stores};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{HolderId, Holding, Revoke, Waiter};
use crate::name::LockName;
use crate::span::Span;
use crate::store::{Epoch, Serving, Store, Target, WakeUps};

/// A route whose number is larger is told: years are left, or it is switched much too often.
const NEARLY_LAST: Epoch = Epoch::new(Epoch::LAST.number() / 10 * 9);

impl Shared {
    /// Where holders are: in one store, or while the route changes in either.
    async fn sides_in_use(&self) -> Result<Vec<Side>> {
        let route = self.route_now().await?;
        let side = Side::of(&route.route.target);
        Ok(if route.is_in_force(self.now()) { vec![side] } else { vec![side, side.other()] })
    }

    /// What each of them answers, that to which the route leads first. While it changes the primary may be silent, which is why it does:
    /// the other is not to be unheard for it.
    async fn of_each<'a, T>(
        &self,
        stores: &'a Stores,
        ask: impl Fn(&'a dyn Store) -> BoxFuture<'a, Result<T>>,
    ) -> Result<Vec<T>> {
        let sides = self.sides_in_use().await?;
        let is_moving = sides.len() > 1;
        let asked = sides.into_iter().map(|side| {
            let answer = ask(stores.on(side));
            async move {
                if is_moving && side == Side::Primary {
                    limited(self.settings.primary_limit(), answer).await
                } else {
                    answer.await
                }
            }
        });
        those_that_answered(join_all(asked).await)
    }

    pub async fn inspect<'a>(&self, stores: &'a Stores, name: &'a LockName) -> Result<Option<Holding>> {
        Ok(self.of_each(stores, |store| store.inspect(name)).await?.into_iter().fold(None, better))
    }

    pub async fn list(&self, stores: &Stores) -> Result<Vec<Holding>> {
        let mut shown: BTreeMap<LockName, Holding> = BTreeMap::new();
        for holding in self.of_each(stores, |store| store.list()).await?.into_iter().flatten() {
            let name = holding.name.clone();
            let known = shown.remove(&name);
            shown.extend(better(known, Some(holding)).map(|holding| (name, holding)));
        }
        Ok(shown.into_values().collect())
    }

    /// Where the route leads. While it changes they come over from the other store one by one: those who have not yet are
    /// told behind.
    pub async fn queue<'a>(&self, stores: &'a Stores, name: &'a LockName) -> Result<Vec<Waiter>> {
        let mut line: Vec<Waiter> = Vec::new();
        for waiter in self.of_each(stores, |store| store.queue(name)).await?.into_iter().flatten() {
            if !line.iter().any(|known| known.holder == waiter.holder) {
                line.push(waiter);
            }
        }
        Ok(line)
    }

    /// Not while the route changes: what is ended in one store then comes back from the other. A switch that came in between
    /// is found by a look at the route afterwards; one that comes later finds what was done here.
    pub async fn revoke(
        &self,
        stores: &Stores,
        name: &LockName,
        holder: Option<HolderId>,
        how: Revoke,
    ) -> Result<Option<Holding>> {
        self.read_since(self.now()).await?;
        let (route, now) = (self.route_now().await?, self.now());
        if let Some(coming) = route.coming.filter(|_| !route.is_in_force(now)) {
            let (target, rest) = (&route.route.target, Span(coming.late.since(now)));
            let moving = format!("locks are moving to {target}, and none can be revoked until that is over, in {rest}");
            return Err(Error::new(ErrorKind::Unavailable, moving).passes());
        }
        let revoked = stores.on(Side::of(&route.route.target)).revoke(name, holder, how).await?;
        let unknown = |error: Error| error.context("whether it has moved meanwhile is not known").maybe_applied();
        self.read_since(self.now()).await.map_err(unknown)?;
        let is_still_there = self.route_now().await.map_err(unknown)?.route == route.route;
        if revoked.is_some() && !is_still_there {
            let moved = "locks began to move to another store meanwhile, and this one may have gone along; look, and revoke it again";
            return Err(Error::new(ErrorKind::Unavailable, moved).passes().maybe_applied());
        }
        Ok(revoked)
    }

    /// In the store that is used now. Who still listens there after a switch finds out by asking.
    pub async fn subscribe(&self, stores: &Stores, name: &LockName) -> Result<WakeUps> {
        let sides = self.sides_in_use().await?;
        stores.on(sides[0]).subscribe(name).await
    }

    /// How the route stands, and what both stores have to say: asked at once, for each may be silent.
    pub async fn diagnose(&self, stores: &Stores) -> Result<Vec<Finding>> {
        let serves = limited(self.settings.primary_limit(), stores.primary().serves());
        let parts = join(stores.primary().examine(), stores.on(Side::Arbiter).diagnose());
        let (read, serves, (primary, arbiter)) = join3(self.read_anew(), serves, parts).await;
        let mut findings = vec![self.about_the_route(&read)];
        findings.extend(match serves {
            Ok(serving) => self.about_the_primary(&serving),
            // It says so itself below, unless it could be asked for the rest.
            Err(error) => primary.is_ok().then(|| Finding::warning("primary", error.to_string(), "look again")),
        });
        for (found, subject) in [(primary, "primary"), (arbiter, "arbiter")] {
            match found {
                Ok(found) => findings.extend(found),
                Err(error) => findings.push(Finding::problem(subject, error.to_string(), "see that it can be reached")),
            }
        }
        Ok(findings)
    }

    /// Whether what it serves is what the route leads to; nothing where that is not known.
    fn about_the_primary(&self, serving: &Serving) -> Option<Finding> {
        let (subject, route, seen) = ("primary", self.known_route()?, serving.watermark);
        let up_after = self.settings.up_after;
        Some(match &route.route.target {
            Target::Primary(expected) if *expected == serving.incarnation => {
                Finding::fine(subject, format!("it serves what the route leads to, and has heard of route {seen}"))
            }
            Target::Primary(_) => {
                let message =
                    "it was restarted or replaced, and the route does not lead to what it is now: nothing is granted";
                let within = Span(self.settings.moves_within());
                let fix =
                    format!("wait: a client that holds or waits for a lock has the route follow it within {within}");
                Finding::warning(subject, message, fix)
            }
            Target::Arbiter => {
                let missed = route.complained(self.now()).filter(|ago| *ago < up_after);
                let missed =
                    missed.map_or_else(String::new, |ago| format!("; a client could not reach it {} ago", Span(ago)));
                let message = format!("it can be reached, and is not in use{missed}. It has heard of route {seen}");
                let fix = format!("wait: the route goes back once all clients have reached it for {}", Span(up_after));
                Finding::warning(subject, message, fix)
            }
        })
    }

    fn about_the_route(&self, read: &Result<()>) -> Finding {
        if let Err(error) = read {
            let fix = if error.is_transient() {
                "see that it can be reached: without the arbiter nothing is granted, and holds end with the route lease"
            } else {
                "see to it; until then nothing is granted, and holds end with the route lease"
            };
            return Finding::problem("route", error.to_string(), fix);
        }
        let Some(route) = self.known_route() else {
            return Finding::warning("route", "it is not known for sure", "look again");
        };
        let (number, target, now) = (route.route.epoch, &route.route.target, self.now());
        if !route.is_in_force(now) {
            return Finding::warning("route", format!("number {number} is about to lead to {target}"), "wait for it");
        }
        let message = format!("number {number} leads to {target}, since {}", Span(route.in_force_for(now)));
        if number > NEARLY_LAST {
            let fix = "move to another namespace: tokens have no room for more, and nothing is granted then";
            return Finding::warning("route", format!("{message}; the last is number {}", Epoch::LAST), fix);
        }
        Finding::fine("route", message)
    }
}

/// Of two stores between which locks are moving, one may be away: that is why they move. Not both.
fn those_that_answered<T>(answers: Vec<Result<T>>) -> Result<Vec<T>> {
    let (answered, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    if answered.is_empty() {
        failed.into_iter().map(|failed| failed.map(|_: T| ())).collect::<Result<Vec<()>, Error>>()?;
    }
    answered.into_iter().collect()
}

/// What says who holds it, of two stores between which locks are moving.
fn better(known: Option<Holding>, found: Option<Holding>) -> Option<Holding> {
    match (known, found) {
        (Some(known), Some(found)) => Some(if known.holder.is_none() { found } else { known }),
        (known, found) => known.or(found),
    }
}
