//! What goes on in the background: the route is read, the primary watched, leases carried, leftovers cleared.
//!
//! On a thread and connections of its own, as the keeper: a job that blocks its runtime must lose neither its route nor
//! its lock by that. It begins with the first claim and ends with the last handle.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::FutureExt;
use futures_util::stream::FuturesUnordered;

use super::leftovers::Leftover;
use super::route::RouteLease;
use super::shared::{Shared, limited, lock};
use super::stores::{Side, Stores};
use super::switch;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Ended;
use crate::store::{Epoch, Reached, Target};
use crate::validity::Moment;

/// How often a primary that is away, or not in use, is looked at.
const PROBE: Duration = Duration::from_secs(1);

/// How often something is tried again that is left over in a store.
const CLEAR: Duration = Duration::from_secs(1);

/// How many of these at the same time.
const AT_ONCE: usize = 16;

impl Shared {
    /// Makes sure that the background is at work.
    pub fn start(self: &Arc<Self>, stores: &Stores) -> Result<()> {
        let mut started_in = lock(&self.started_in);
        match *started_in {
            Some(process) if process == std::process::id() => return Ok(()),
            Some(_) => {
                let forked =
                    "this process is a fork of the one that connected, where the route is read; connect after the fork";
                return Err(Error::new(ErrorKind::Closed, forked));
            }
            None => {}
        }
        let work = Arc::clone(self).tend(stores.for_keeper());
        if self.settings.simulated {
            drop(tokio::spawn(work));
        } else {
            start_thread(work)?;
        }
        *started_in = Some(std::process::id());
        Ok(())
    }

    async fn tend(self: Arc<Self>, stores: Stores) {
        let mut closing = self.closing.subscribe();
        let work = async {
            tokio::join!(
                self.again(|| self.keep_reading(&stores)),
                self.again(|| self.keep_watching(&stores)),
                self.again(|| self.carry_all(&stores)),
                self.again(|| self.keep_clearing(&stores, Side::Primary)),
                self.again(|| self.keep_clearing(&stores, Side::Arbiter))
            )
        };
        tokio::select! {
            _ = closing.wait_for(|closing| *closing) => {}
            _ = work => {}
        }
    }

    /// Begins `work` again if it panics: a thread that is gone would end all holds, and nobody would know why.
    async fn again<F: Future<Output = ()>>(&self, work: impl Fn() -> F) {
        while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
            tokio::time::sleep(self.settings.retry()).await;
            self.bells.carry.notify_one();
        }
    }

    /// Keeps the route lease fresh.
    async fn keep_reading(&self, stores: &Stores) {
        loop {
            let began = self.now();
            let read = self.read_route(stores).await;
            self.holders().forget_the_old(self.now());
            let next = began + self.pause(read.is_ok());
            drop(self.heard.send_replace(read.map_err(Arc::new)));
            tokio::select! {
                () = self.settings.clock.sleep_until(next) => {}
                () = self.bells.read.notified() => {
                    self.settings.clock.sleep_until(began + self.settings.retry_on_demand()).await;
                }
            }
        }
    }

    /// A route that isn't in force yet is looked at again when it should be.
    fn pause(&self, was_read: bool) -> Duration {
        let usual = if was_read { self.settings.refresh() } else { self.settings.retry() };
        let now = self.now();
        let coming = self.known_route().and_then(|route| route.coming).filter(|coming| coming.late > now);
        coming.map_or(usual, |coming| usual.min(coming.late.since(now)))
    }

    /// Looks at the primary, and calls for a switch when it has been away, or back, for long enough.
    async fn keep_watching(&self, stores: &Stores) {
        let mut complained = Moment::from_nanos(0);
        let mut anew = false;
        loop {
            let sent = self.now();
            let answer = limited(self.settings.primary_limit(), stores.primary().serves()).await;
            anew |= answer.as_ref().is_err_and(Error::is_transient);
            self.health.send_modify(|health| health.note(&answer, sent));
            self.first_reading().await;
            if let Ok(serving) = &answer {
                self.tell_of_the_route(stores, serving.watermark).await;
                anew = self.note_that_it_is_reached(stores, anew).await.is_err();
            }
            if self.is_to_complain(complained) {
                complained = sent;
                let _ = limited(self.settings.read_limit(), stores.arbiter().complain()).await;
            }
            self.switch_if_called_for(stores).await;
            let usual =
                if self.is_all_well() { self.settings.refresh() } else { PROBE.min(self.settings.down_after / 5) };
            tokio::select! {
                () = self.settings.clock.sleep_until(sent + usual) => {}
                () = self.bells.probe.notified() => tokio::time::sleep(PROBE / 10).await,
            }
        }
    }

    /// A primary that is not in use, or came back empty, would not hear of routes; and it is who knows of them if the arbiter
    /// loses its data. Of none that is only coming: who holds something under the one before may still have it renewed.
    async fn tell_of_the_route(&self, stores: &Stores, known: Epoch) {
        let Some(route) = self.known_route().filter(|route| route.is_in_force(self.now())) else { return };
        if known < route.route.epoch {
            let _ = limited(self.settings.primary_limit(), stores.primary().raise(route.route.epoch)).await;
        }
    }

    /// What is seen of the primary is of no use before it is known where the route leads; and who has a short job sees it only
    /// once.
    async fn first_reading(&self) {
        let mut heard = self.heard.subscribe();
        if self.known_route().is_none() {
            let _ = tokio::time::timeout(self.settings.read_limit(), heard.changed()).await;
        }
    }

    /// Has it count, for clients that come when this one has gone, from when it is reached again; `anew` if it was not since we
    /// looked last, and where somebody has complained since.
    async fn note_that_it_is_reached(&self, stores: &Stores, anew: bool) -> Result<()> {
        let now = self.now();
        let is_in_reserve = |route: &RouteLease| route.route.target == Target::Arbiter && route.is_in_force(now);
        let mut reached_for = Ok(Reached::default());
        if let Some(route) = self.known_route().filter(is_in_reserve) {
            let (limit, longest) = (self.settings.primary_limit(), self.settings.up_after);
            let reached = async |anew| limited(limit, stores.primary().reached(route.route.epoch, anew, longest)).await;
            reached_for = reached(anew).await;
            if let (Ok(found), Some(ago)) = (&reached_for, route.complained(now))
                && ago <= found.span.max(found.unseen)
            {
                reached_for = reached(true).await;
            }
        }
        let span = reached_for.as_ref().map_or(Duration::ZERO, |found| found.span);
        self.health.send_modify(|health| health.note_reached(span));
        reached_for.map(drop)
    }

    /// Nobody goes back to a primary that one of us can't reach.
    fn is_to_complain(&self, last: Moment) -> bool {
        let is_in_reserve = self.known_route().is_some_and(|route| route.route.target == Target::Arbiter);
        is_in_reserve && self.health.borrow().is_failing() && self.now().since(last) >= self.settings.up_after / 4
    }

    fn is_all_well(&self) -> bool {
        self.known_route().is_some_and(|route| self.health.borrow().is_what_the_route_says(&route))
    }

    async fn switch_if_called_for(&self, stores: &Stores) {
        let Some(route) = self.known_route() else { return };
        let called_for = switch::called_for(&route, &self.health.borrow(), &self.settings, self.now());
        let Some(switch) = called_for else { return };
        // Whether it took effect, and whoever did it: the next reading tells, and arms it.
        let _ = limited(self.settings.read_limit(), stores.arbiter().switch(&switch)).await;
        self.bells.read.notify_one();
    }

    /// Takes away what is left over in one of the stores, as long as it can be there.
    async fn keep_clearing(&self, stores: &Stores, side: Side) {
        let mut clearing = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = clearing.next(), if !clearing.is_empty() => {}
                leftover = self.left_over_on(side).next(|| self.now()), if clearing.len() < AT_ONCE => {
                    clearing.push(self.clear_away(stores, side, leftover));
                }
            }
        }
    }

    async fn clear_away(&self, stores: &Stores, side: Side, leftover: Leftover) {
        let call = stores.on(side).release(&leftover.key, Ended::default());
        if limited(self.settings.read_limit(), call).await.is_ok() {
            let _ = leftover.cleared.send(());
            return;
        }
        tokio::time::sleep(CLEAR).await;
        self.left_over_on(side).add(leftover);
    }
}

/// Whatever the thread needs is made before it: without it nothing may be granted.
fn start_thread(work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Internal, format!("the fallback's thread can't be started: {error}")).with_source(error)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    std::thread::Builder::new().name("leasehold-route".into()).spawn(move || runtime.block_on(work)).map_err(failed)?;
    Ok(())
}
