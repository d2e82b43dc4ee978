//! What all handles of one fallback share.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join};
use tokio::sync::{Notify, oneshot, watch};

use super::holders::Holders;
use super::leftovers::{Leftover, Leftovers};
use super::route::RouteLease;
use super::settings::Settings;
use super::stores::{Side, Stores};
use super::switch::Health;
use crate::error::{Applied, Error, ErrorKind, Result};
use crate::lease::LeaseKey;
use crate::rule::Rule;
use crate::span::Span;
use crate::store::{self, Epoch, Listener, Listeners, News, Route, RouteTerms, Serving, Switched, Target};
use crate::validity::Moment;

/// What all handles of one fallback share, and its background works on.
pub(super) struct Shared {
    pub settings: Settings,
    /// What the clients of the namespace must agree on.
    pub terms: RouteTerms,
    holders: Mutex<Holders>,
    pub health: watch::Sender<Health>,
    /// What the last reading of the route came to; the background's, who alone reads it.
    pub heard: watch::Sender<Result<(), Arc<Error>>>,
    /// Whether the arbiter could not be reached when it was last asked for the route.
    arbiter_is_away: AtomicBool,
    /// Leases of holders that are done, left in the store in which they were not released: the primary's, the arbiter's.
    leftovers: [Leftovers; 2],
    pub bells: Bells,
    listeners: Listeners,
    /// In which process the background was started.
    pub started_in: Mutex<Option<u32>>,
    pub closing: watch::Sender<bool>,
}

/// What the background waits for.
#[derive(Debug, Default)]
pub(super) struct Bells {
    /// The route is to be read now.
    pub read: Notify,
    /// The primary is to be looked at now.
    pub probe: Notify,
    /// There may be leases to carry.
    pub carry: Notify,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to `call`, if it comes within `limit`; also if the store panics.
pub(super) async fn limited<T>(limit: Duration, call: BoxFuture<'_, Result<T>>) -> Result<T> {
    let late = || Error::new(ErrorKind::TimedOut, format!("no answer within {}", Span(limit))).maybe_applied();
    let panicked = |_| Err(Error::new(ErrorKind::Internal, "the store panicked").maybe_applied());
    let call = AssertUnwindSafe(call).catch_unwind().map(|answer| answer.unwrap_or_else(panicked));
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(late()))
}

impl Shared {
    pub fn new(settings: Settings, primary: String) -> Self {
        Self {
            terms: settings.terms(primary),
            settings,
            holders: Mutex::default(),
            health: watch::Sender::default(),
            heard: watch::Sender::new(Ok(())),
            arbiter_is_away: AtomicBool::new(false),
            leftovers: Default::default(),
            bells: Bells::default(),
            listeners: Listeners::default(),
            started_in: Mutex::default(),
            closing: watch::Sender::new(false),
        }
    }

    pub fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    pub fn holders(&self) -> MutexGuard<'_, Holders> {
        lock(&self.holders)
    }

    /// The route, if it was read lately enough.
    pub fn known_route(&self) -> Option<RouteLease> {
        let now = self.now();
        self.holders().route().filter(|route| now < route.until).cloned()
    }

    /// The route under which a claim may be sent now.
    pub async fn route_for_claims(&self) -> Result<Route> {
        let route = self.route_now().await?;
        if !route.is_in_force(self.now()) {
            return Err(under_way(&route.route));
        }
        Ok(route.route)
    }

    /// The route, read anew if it was not lately enough. Nothing was sent for the caller if it fails.
    pub async fn route_now(&self) -> Result<RouteLease> {
        let next = self.heard.subscribe();
        if let Some(route) = self.known_route() {
            return Ok(route);
        }
        if let Err(error) = self.reading(next).await {
            return Err(self.without_a_route(error).await);
        }
        self.known_route().ok_or_else(|| {
            Error::new(ErrorKind::TimedOut, "the arbiter's answer came so late that the route may have changed since")
        })
    }

    /// That the arbiter can't be reached is one thing, and that neither can is another.
    async fn without_a_route(&self, error: Error) -> Error {
        let mut health = self.health.subscribe();
        if self.arbiter_is_away.load(Ordering::Relaxed) {
            let known = health.wait_for(Health::is_known);
            let _ = tokio::time::timeout(self.settings.primary_limit(), known).await;
            if let Some(primary) = self.health.borrow().why() {
                return neither(primary, &error);
            }
        }
        error.context("the arbiter has not said which store is in use")
    }

    /// The error of a store that was asked under a route; if the other is away, too, of both.
    pub fn of_both(&self, under: &Route, error: Error) -> Error {
        if !error.is_transient() {
            return error;
        }
        let both = match Side::of(&under.target) {
            Side::Primary => {
                let heard = self.heard.borrow();
                let is_away = self.arbiter_is_away.load(Ordering::Relaxed);
                heard.as_ref().err().filter(|_| is_away).map(|arbiter| neither(&error, arbiter))
            }
            Side::Arbiter => self.health.borrow().why().map(|primary| neither(primary, &error)),
        };
        let Some(both) = both else { return error };
        if error.applied() == Applied::Maybe { both.maybe_applied() } else { both }
    }

    /// Has the background read the route, and waits for that. It does not read by itself: a caller may stand still for
    /// long, at any time, and must keep nobody from the route.
    pub async fn read_anew(&self) -> Result<()> {
        self.reading(self.heard.subscribe()).await
    }

    /// Has it read until it was asked for at `moment` or later.
    pub async fn read_since(&self, moment: Moment) -> Result<()> {
        loop {
            self.read_anew().await?;
            if self.holders().route().is_some_and(|route| route.was_read_since(moment)) {
                return Ok(());
            }
        }
    }

    async fn reading(&self, mut next: watch::Receiver<Result<(), Arc<Error>>>) -> Result<()> {
        self.bells.read.notify_one();
        let limit = self.settings.down_after * 2;
        if tokio::time::timeout(limit, next.changed()).await.is_err() {
            let late = format!("the route was not read within {}", Span(limit));
            return Err(Error::new(ErrorKind::TimedOut, late));
        }
        let heard = next.borrow();
        heard.as_ref().copied().map_err(|error| Error::new(error.kind(), error.to_string()))
    }

    /// Reads the route. Arms it, if that is still to be done.
    pub async fn read_route(&self, stores: &Stores) -> Result<()> {
        let arbiter = stores.arbiter();
        let limit = self.settings.read_limit();
        loop {
            let sent = self.now();
            let answer = limited(limit, arbiter.route()).await;
            let is_away = answer.as_ref().is_err_and(Error::is_transient);
            self.arbiter_is_away.store(is_away, Ordering::Relaxed);
            let Some(reading) = answer? else {
                self.found(stores).await?;
                continue;
            };
            self.check(&reading.terms)?;
            let route = RouteLease::of(reading, sent, self.now());
            let (epoch, is_armed) = (route.route.epoch, route.is_armed());
            self.learn(route)?;
            if is_armed {
                return Ok(());
            }
            limited(limit, arbiter.arm(epoch, self.drain())).await?;
        }
    }

    /// All route leases on the one before are over then.
    fn drain(&self) -> Duration {
        let whole = self.settings.route_lease;
        match (Rule::ADrain.holds(), Rule::AWholeDrain.holds()) {
            (false, _) => Duration::ZERO,
            (_, false) => whole / 2,
            _ => whole,
        }
    }

    /// Whoever counts otherwise than the others is refused.
    fn check(&self, terms: &RouteTerms) -> Result<()> {
        if *terms == self.terms {
            return Ok(());
        }
        let (ours, theirs) = (&self.terms, terms);
        Err(Error::new(
            ErrorKind::Misconfigured,
            format!(
                "this client's fallback is set up otherwise than that of the others (here: primary {}, route lease {}, max_ttl {}, \
                 drift {} ppm; there: primary {}, route lease {}, max_ttl {}, drift {} ppm); all must be the same",
                ours.primary,
                Span(ours.lease),
                Span(ours.max_ttl),
                ours.drift,
                theirs.primary,
                Span(theirs.lease),
                Span(theirs.max_ttl),
                theirs.drift
            ),
        ))
    }

    /// Writes the first route: to the primary, which must be there to say that it has seen none. Where there is a trace of one, or
    /// this client has read one, the arbiter's was lost.
    async fn found(&self, stores: &Stores) -> Result<()> {
        if let Some(known) = self.holders().route() {
            return Err(lost(known.route.epoch));
        }
        let unknown = |error: Error| error.context("the first route can't be written as long as the primary is away");
        let limits = (self.settings.down_after, self.settings.primary_limit());
        let (serving, seen) = traced(stores, limits).await.map_err(unknown)?;
        if seen > Epoch::default() {
            // Somebody else may have founded it meanwhile, and been granted something.
            let read = limited(self.settings.read_limit(), stores.arbiter().route()).await?;
            return read.map(drop).ok_or_else(|| lost(seen));
        }
        let target = Target::Primary(serving.incarnation);
        let route = Route { epoch: Epoch::FIRST, target };
        limited(self.settings.read_limit(), stores.arbiter().found(&route, &self.terms)).await
    }

    /// Acts on a reading of the route: moves all bounds, and sees to what has to be carried.
    fn learn(&self, route: RouteLease) -> Result<()> {
        let now = self.now();
        let within = route.coming.filter(|_| route.is_armed()).map(|coming| coming.late.since(now));
        let new = route.route.clone();
        let (is_first, learned) = {
            let mut holders = self.holders();
            (holders.route().is_none(), holders.learn(route, now))
        };
        #[cfg(feature = "traced")]
        if let Err(error) = &learned {
            tracing::error!(%error, "the fallback's route is not to be believed");
        }
        match learned? {
            Some(from) => self.tell(&Switched { from, route: new, within }),
            None if is_first => self.listeners.tell(&News::Routed(&new)),
            None => {}
        }
        self.bells.carry.notify_one();
        Ok(())
    }

    fn tell(&self, switched: &Switched) {
        #[cfg(feature = "traced")]
        tracing::info!(
            epoch = switched.route.epoch.number(),
            target = %switched.route.target,
            within = ?switched.within,
            "the fallback's route has changed"
        );
        self.listeners.tell(&News::Switched(switched));
    }

    /// Who comes late is told at once where the route leads.
    pub fn listen(&self, listener: Weak<Listener>) {
        let Some(told_now) = listener.upgrade() else { return };
        self.listeners.add(listener);
        let mut told = None;
        // What is learnt meanwhile is told by whoever learns it, and may be told before what was known here.
        loop {
            let known = self.holders().route().map(|route| route.route.clone());
            if known == told {
                return;
            }
            if let Some(route) = &known {
                store::tell(&told_now, &News::Routed(route));
            }
            told = known;
        }
    }

    /// What is left of a holder in a store is taken away in the background, as far as that can be done: behind what went out
    /// from there before, a carry above all. Resolves once nothing more is to be done.
    pub fn leave_over(&self, key: LeaseKey, side: Side, ttl: Duration) -> oneshot::Receiver<()> {
        let (cleared, is_cleared) = oneshot::channel();
        let now = self.now();
        let until = now + ttl;
        if now < until {
            self.left_over_on(side).add(Leftover { key, until, cleared });
        }
        is_cleared
    }

    /// The same, and waits a moment for it: the process may end next. Not for a primary that is known to be away.
    pub async fn clear(&self, key: LeaseKey, side: Side, ttl: Duration) {
        let is_cleared = self.leave_over(key, side, ttl);
        let is_away = side == Side::Primary && self.health.borrow().is_failing();
        if !is_away {
            let _ = tokio::time::timeout(self.settings.read_limit(), is_cleared).await;
        }
    }

    pub fn left_over_on(&self, side: Side) -> &Leftovers {
        &self.leftovers[side as usize]
    }
}

/// What the primary serves, and the latest route that there is a trace of: it has heard of that, or a lease in either store has
/// its number in the token. The limits are for the primary's word, and for each store's list. Leases that can't be listed, by who
/// has no right to, say, show nothing.
pub(super) async fn traced(stores: &Stores, (says, lists): (Duration, Duration)) -> Result<(Serving, Epoch)> {
    let serving = limited(says, stores.primary().serves()).await?;
    let list = |side| limited(lists, stores.on(side).list());
    let (primary, arbiter) = join(list(Side::Primary), list(Side::Arbiter)).await;
    let held = [primary, arbiter].into_iter().flatten().flatten();
    let seen = held.map(|holding| Epoch::of(holding.token)).fold(serving.watermark, Epoch::max);
    Ok((serving, seen))
}

/// Nothing can be reached at all.
fn neither(primary: impl Display, arbiter: impl Display) -> Error {
    let message = format!("neither store can be reached: the primary ({primary}), the arbiter ({arbiter})");
    Error::new(ErrorKind::Unavailable, message)
}

/// What an operator does then.
pub(super) const SET_IT: &str =
    "Stop all clients, then: `leasehold route set --restored` (ticks up to five minutes from then count as run)";

/// An arbiter without a route, which has had one.
pub(super) fn lost(seen: Epoch) -> Error {
    let message = format!(
        "the arbiter knows of no route, and number {seen} has been seen: the arbiter has lost its data, and nothing can be \
         granted until an operator has set a later route. {SET_IT}"
    );
    Error::new(ErrorKind::Misconfigured, message)
}

/// The answer while the route changes. It ends by itself, so whoever waits may wait for it.
pub(super) fn under_way(route: &Route) -> Error {
    let message = format!("locks are moving to {}, and nothing is granted until the old route is over", route.target);
    Error::new(ErrorKind::Unavailable, message).passes()
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}
