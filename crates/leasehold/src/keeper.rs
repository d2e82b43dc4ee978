//! The keeper: renews all leases of one client, tells losses in time, and cleans up after calls that
//! nobody waits for any more.
//!
//! One thread per client, with a runtime and connections of its own, so that a job that blocks its runtime
//! can't starve the renewals. No thread, task or timer per lease: leases lie in one map in order of when
//! they are next due, and the thread sleeps until the first. Registering and forgetting a lease is an
//! insertion into that map; the thread is woken only if it would sleep too long.
//!
//! What is due within one [`WINDOW`] is renewed in batches of [`BATCH`]. Losses are told from the same
//! timer, which needs no I/O: store calls run beside it, never in its way.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, oneshot};

use crate::bound::Way;
use crate::chance;
use crate::error::{Applied, Error, ErrorKind, Result};
use crate::event::{Event, Observer};
use crate::hold::{Hold, LossReason};
use crate::lease::{Ended, LeaseKey, Release, Renewal};
use crate::presence::{Presence, STUCK};
use crate::store::Store;
use crate::tick::Verdict;
use crate::validity::{self, Clock, Moment};

/// Leases that are due this much later are renewed along.
const WINDOW: Duration = Duration::from_millis(100);

/// How many leases one command renews.
const BATCH: usize = 100;

/// How often a store that has been away for a whole TTL is told what became of a tick, before jitter.
const OVERDUE: Duration = Duration::from_secs(5);

/// The handle that a client has of its keeper.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    place: Place,
    /// In which process it was started; 0: in none. A fork has no copy of its thread.
    started_in: AtomicU32,
    starting: Mutex<()>,
}

/// Where the keeper runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a thread of its own: the real thing.
    OwnThread,
    /// On the runtime of whoever acquires: for simulations under paused time.
    CallersRuntime,
}

struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    schedule: Mutex<Schedule>,
    wake: Notify,
    closing: AtomicBool,
}

#[derive(Default)]
struct Schedule {
    /// By when they are due and their number. Small, both: with many leases what costs is memory that is gone through.
    kept: BTreeMap<(Moment, u64), Kept>,
    /// Until when the keeper sleeps.
    asleep_until: Option<Moment>,
    cleanups: Vec<Cleanup>,
    drained: Vec<oneshot::Sender<()>>,
    waiters: Vec<Minded>,
}

/// A waiter that the keeper gives up if it is stuck; forgotten once it waits no longer.
struct Minded {
    waiter: Weak<Presence>,
    store: Arc<dyn Store>,
    key: LeaseKey,
    ttl: Duration,
}

/// A lease in the schedule.
struct Kept {
    hold: Arc<Hold>,
    renew_at: Moment,
    /// When that should first have been done, whatever became of it since.
    due_since: Moment,
    in_flight: bool,
    failing: Option<Box<str>>,
}

/// Something to take back from the store for a caller that is gone.
pub(crate) struct Cleanup {
    /// The handle over which the claim went: behind it, in its order, the claim can't be overtaken.
    pub store: Arc<dyn Store>,
    pub key: LeaseKey,
    pub what: Undo,
    /// By then the lease has ended by itself. What became of a tick is told beyond that.
    pub give_up_at: Moment,
}

pub(crate) enum Undo {
    /// A claim that nobody waits for: leave the queue, release what was granted, take back what was claimed of a tick.
    Claim { has_tick: bool },
    /// A guard that was dropped or whose release failed; `uncertain` if a release may have reached the store.
    Hold { how: Ended, label: Arc<str>, acquired: Moment, uncertain: bool },
}

impl Undo {
    /// Whether it says something that no end of a TTL says.
    fn is_about_a_tick(&self) -> bool {
        match self {
            Self::Claim { has_tick } => *has_tick,
            Self::Hold { how, .. } => how.verdict.is_some(),
        }
    }
}

/// What one tick of the keeper found to do.
#[derive(Default)]
struct Tick {
    renew: Vec<Arc<Hold>>,
    losses: Vec<(Arc<Hold>, LossReason)>,
    cleanups: Vec<Cleanup>,
    next: Option<Moment>,
    idle: bool,
}

/// A store call of the keeper that has ended.
enum Called {
    Renewed {
        sent: Moment,
        holds: Vec<Arc<Hold>>,
        answers: Vec<Result<Renewal>>,
    },
    CleanedUp,
    /// Its lease has ended by itself, and the store has still not heard of its tick.
    Overdue(Cleanup),
}

impl Keeper {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Option<Arc<dyn Observer>>,
        place: Place,
    ) -> Self {
        let shared = Shared {
            store,
            clock,
            observer,
            schedule: Mutex::default(),
            wake: Notify::new(),
            closing: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), place, started_in: AtomicU32::new(0), starting: Mutex::default() }
    }

    /// Where it runs, or would.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Makes sure that it runs: before the first claim is sent, so that no grant is ever without a keeper.
    pub fn start(&self) -> Result<()> {
        if self.runs()? {
            return Ok(());
        }
        let _starting = lock(&self.starting);
        if self.runs()? {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        match self.place {
            Place::OwnThread => start_thread(shared)?,
            Place::CallersRuntime => drop(tokio::spawn(shared.keep(self.place))),
        }
        self.started_in.store(std::process::id(), Ordering::Release);
        Ok(())
    }

    /// Asked for each claim, so without a lock.
    fn runs(&self) -> Result<bool> {
        match self.started_in.load(Ordering::Acquire) {
            0 => Ok(false),
            process if process == std::process::id() => Ok(true),
            _ => {
                let forked =
                    "this process is a fork of the one that connected, and has no keeper; connect after the fork";
                Err(Error::new(ErrorKind::Closed, forked))
            }
        }
    }

    /// Takes a fresh hold into its care.
    pub fn watch(&self, hold: Arc<Hold>, sent: Moment) {
        if let Some(bound) = &hold.bound {
            // Before it is in the schedule: what falls from here on is seen there, or sees it there.
            let (shared, weak) = (Arc::downgrade(&self.shared), Arc::downgrade(&hold));
            bound.on_move(move |way| {
                if let (Some(shared), Some(hold)) = (shared.upgrade(), weak.upgrade()) {
                    shared.is_bounded(&hold);
                    if way == Way::Down {
                        shared.look_again(&hold);
                    }
                }
            });
            // It may have been moved since the grant was told of.
            self.shared.is_bounded(&hold);
        }
        let renew_at = sent + hold.ttl / 3;
        let kept = Kept { renew_at, due_since: renew_at, hold, in_flight: false, failing: None };
        let mut schedule = self.shared.schedule();
        let due = schedule.insert(kept);
        let sleeps_too_long = schedule.asleep_until.is_some_and(|until| due < until);
        drop(schedule);
        if sleeps_too_long {
            self.shared.wake.notify_one();
        }
    }

    /// Minds a waiter: once it is stuck, it leaves, together with what it was handed over meanwhile.
    pub fn mind(&self, store: &Arc<dyn Store>, key: LeaseKey, ttl: Duration) -> Arc<Presence> {
        let now = self.shared.clock.now();
        let waiter = Arc::new(Presence::new(now));
        let minded = Minded { waiter: Arc::downgrade(&waiter), store: Arc::clone(store), key, ttl };
        let mut schedule = self.shared.schedule();
        schedule.waiters.push(minded);
        let sleeps_too_long = schedule.asleep_until.is_some_and(|until| now + STUCK < until);
        drop(schedule);
        if sleeps_too_long {
            self.shared.wake.notify_one();
        }
        waiter
    }

    /// Forgets a hold that is being given back.
    pub fn forget(&self, hold: &Hold) {
        drop(self.shared.schedule().remove(hold));
    }

    /// Cleans up in the background, from any thread, runtime or none.
    pub fn clean_up(&self, cleanup: Cleanup) {
        self.shared.schedule().cleanups.push(cleanup);
        self.shared.wake.notify_one();
        // A client whose keeper can't start has nothing in the store to clean up that a TTL doesn't end.
        if self.place == Place::OwnThread {
            let _ = self.start();
        }
    }

    /// Resolves once all clean-ups that were asked for have ended.
    pub async fn drain(&self) {
        if !self.runs().unwrap_or(false) {
            return;
        }
        let (drained, done) = oneshot::channel();
        self.shared.schedule().drained.push(drained);
        self.shared.wake.notify_one();
        let _ = done.await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.wake.notify_one();
    }
}

/// Whatever the thread needs is made before it: a keeper that can't run must be known before anything is granted.
fn start_thread(shared: Arc<Shared>) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Internal, format!("the keeper's thread can't be started: {error}")).with_source(error)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let keep = move || runtime.block_on(shared.keep(Place::OwnThread));
    std::thread::Builder::new().name("leasehold-keeper".into()).spawn(keep).map_err(failed)?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Schedule {
    fn insert(&mut self, kept: Kept) -> Moment {
        let due = kept.due();
        kept.hold.due.store(due.as_nanos(), Ordering::Relaxed);
        self.kept.insert((due, kept.hold.number), kept);
        due
    }

    fn remove(&mut self, hold: &Hold) -> Option<Kept> {
        let due = Moment::from_nanos(hold.due.load(Ordering::Relaxed));
        self.kept.remove(&(due, hold.number))
    }

    /// Tells who waits for the clean-ups, if none is left. (Dropping a sender tells its receiver.)
    fn tell_drained(&mut self) {
        if self.cleanups.is_empty() {
            self.drained.clear();
        }
    }

    /// What they may have been given is taken back over the handle that they claimed with, behind their last claim.
    fn give_up_the_stuck(&mut self, now: Moment) {
        let Self { waiters, cleanups, .. } = self;
        waiters.retain(|minded| {
            let Some(waiter) = minded.waiter.upgrade() else { return false };
            let is_stuck = waiter.give_up(now);
            if is_stuck {
                let (store, key) = (Arc::clone(&minded.store), minded.key.clone());
                let what = Undo::Claim { has_tick: false };
                cleanups.push(Cleanup { store, key, what, give_up_at: now + minded.ttl });
            }
            !is_stuck
        });
    }

    /// What is due at `now`, and when to look again.
    fn tick(&mut self, now: Moment) -> Tick {
        self.give_up_the_stuck(now);
        let mut tick = Tick { cleanups: std::mem::take(&mut self.cleanups), ..Tick::default() };
        let horizon = now + WINDOW;
        let mut looked_at = Vec::new();
        while let Some(first) = self.kept.first_entry().filter(|e| e.key().0 <= horizon) {
            let mut kept = first.remove();
            if kept.look(now, horizon, &mut tick) {
                looked_at.push(kept);
            }
        }
        for kept in looked_at {
            self.insert(kept);
        }
        let next = self.kept.first_key_value().map(|((due, _), _)| *due);
        tick.next = next.into_iter().chain((!self.waiters.is_empty()).then(|| now + STUCK / 2)).min();
        tick.idle = self.kept.is_empty() && tick.cleanups.is_empty();
        self.asleep_until = Some(tick.next.unwrap_or(Moment::NEVER));
        tick
    }
}

impl Kept {
    /// When it has to be looked at next.
    fn due(&self) -> Moment {
        let renew_at = if self.in_flight { Moment::NEVER } else { self.renew_at };
        let end = if self.hold.loss().is_some() {
            self.hold.valid_until()
        } else if self.hold.is_revoked() {
            Moment::default()
        } else {
            self.hold.tell_at().min(self.hold.hold_until)
        };
        renew_at.min(end)
    }

    /// Tells a loss or asks for a renewal, if it is time; false if it is dead and needs no care any more.
    /// The deadline comes first: after a stall nothing is renewed that is over.
    fn look(&mut self, now: Moment, horizon: Moment, tick: &mut Tick) -> bool {
        let hold = &self.hold;
        let alive = hold.is_valid(now);
        if hold.loss().is_none()
            && let Some(reason) = self.reason_to_stop(now)
        {
            tick.losses.push((Arc::clone(hold), reason));
        }
        if alive && !self.in_flight && self.renew_at <= horizon {
            if !self.may_renew(now) {
                self.renew_at = Moment::NEVER;
            } else if !hold.progresses(now) {
                self.renew_at = now + hold.ttl / 10; // It may touch its guard yet.
            } else {
                self.in_flight = true;
                tick.renew.push(Arc::clone(hold));
            }
        }
        alive
    }

    fn reason_to_stop(&self, now: Moment) -> Option<LossReason> {
        if self.hold.is_revoked() || self.hold.is_cut() {
            return Some(self.hold.how_it_was_lost());
        }
        if now >= self.hold.tell_at() {
            return Some(match &self.failing {
                Some(error) => LossReason::Unreachable(error.to_string()),
                None if !self.hold.progresses(now) => LossReason::NoProgress,
                None => LossReason::Expired,
            });
        }
        (now >= self.hold.hold_until).then_some(LossReason::HeldTooLong)
    }

    /// A holder that was told to stop because the store was away is still renewed: it shall have time to end.
    fn may_renew(&self, now: Moment) -> bool {
        let is_over =
            self.hold.is_revoked() || matches!(self.hold.loss(), Some(LossReason::Gone | LossReason::Revoked));
        now < self.hold.hold_until && !is_over
    }
}

impl Shared {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock(&self.schedule)
    }

    /// A lease ends sooner than it was scheduled for.
    fn look_again(&self, hold: &Hold) {
        let mut schedule = self.schedule();
        if let Some(kept) = schedule.remove(hold) {
            schedule.insert(kept);
            self.wake.notify_one();
        }
    }

    fn is_bounded(&self, hold: &Hold) {
        let _telling = hold.telling();
        let (name, holder, valid_until) = (&hold.key.name, hold.key.holder, hold.valid_until());
        self.observe(&Event::Bounded { name, holder, valid_until });
    }

    /// An observer that panics must not take the keeper along.
    fn observe(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            let _ = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        }
    }

    async fn keep(self: Arc<Self>, place: Place) {
        let store = self.store.for_keeper();
        let mut calls: FuturesUnordered<BoxFuture<'static, Called>> = FuturesUnordered::new();
        let mut cleaning = 0;
        // Nobody waits for these: they go on for as long as there is a client.
        let mut overdue: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        // Kept while it is for the same moment: each is a timer of the system's.
        let mut alarm: Option<(Moment, BoxFuture<'static, ()>)> = None;
        loop {
            let tick = self.schedule().tick(self.clock.now());
            for (hold, reason) in tick.losses {
                self.tell(&hold, reason);
            }
            let mut renew = tick.renew.into_iter();
            while !renew.as_slice().is_empty() {
                let holds = renew.by_ref().take(BATCH).collect();
                calls.push(Self::renew(Arc::clone(&store), Arc::clone(&self.clock), holds).boxed());
            }
            cleaning += tick.cleanups.len();
            for cleanup in tick.cleanups {
                calls.push(Arc::clone(&self).clean_up(cleanup, Arc::clone(&store), place).boxed());
            }
            if cleaning == 0 {
                self.schedule().tell_drained();
            }
            if tick.idle && calls.is_empty() && self.closing.load(Ordering::Acquire) {
                return;
            }
            let next = tick.next.unwrap_or(Moment::NEVER);
            let (_, rings) = match &mut alarm {
                Some(set) if set.0 == next => set,
                other => other.insert((next, self.clock.sleep_until(next))),
            };
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                Some(called) = calls.next(), if !calls.is_empty() => match called {
                    Called::Renewed { sent, holds, answers } => self.answered(sent, &holds, answers),
                    Called::CleanedUp => cleaning -= 1,
                    Called::Overdue(cleanup) => {
                        cleaning -= 1;
                        overdue.push(Arc::clone(&self).tell_late(cleanup, Arc::clone(&store)).boxed());
                    }
                },
                Some(()) = overdue.next(), if !overdue.is_empty() => {}
                () = rings => alarm = None,
            }
        }
    }

    fn tell(&self, hold: &Hold, reason: LossReason) {
        if hold.tell(reason)
            && let Some(reason) = hold.loss()
        {
            self.observe(&Event::Lost { name: &hold.key.name, holder: hold.key.holder, reason });
        }
    }

    async fn renew(store: Arc<dyn Store>, clock: Arc<dyn Clock>, holds: Vec<Arc<Hold>>) -> Called {
        let leases: Vec<_> = holds.iter().map(|hold| (hold.key.clone(), hold.ttl)).collect();
        let sent = clock.now();
        let answers = AssertUnwindSafe(store.renew(&leases)).catch_unwind().await.unwrap_or_else(|_| {
            let panicked = || Error::new(ErrorKind::Internal, "the store panicked").maybe_applied();
            holds.iter().map(|_| Err(panicked())).collect()
        });
        Called::Renewed { sent, holds, answers }
    }

    /// What the answers to one batch come to. The schedule is locked twice for all, and never while somebody is told.
    fn answered(&self, sent: Moment, holds: &[Arc<Hold>], answers: Vec<Result<Renewal>>) {
        let now = self.clock.now();
        let mut schedule = self.schedule();
        let kept: Vec<_> = holds.iter().map(|hold| schedule.remove(hold)).collect();
        drop(schedule);
        let answers = holds.iter().zip(kept).zip(answers);
        let keep: Vec<_> = answers
            .filter_map(|((hold, kept), answer)| self.renewal_answered(hold, kept, (sent, now), answer))
            .collect();
        let mut schedule = self.schedule();
        for kept in keep {
            // A guard that was released while the answer came has been forgotten already: don't bring it back.
            if !kept.hold.has_ended() {
                schedule.insert(kept);
            }
        }
    }

    /// What the answer comes to that was asked for and came at these moments. The lease as it is to be kept on, if it is.
    fn renewal_answered(
        &self,
        hold: &Arc<Hold>,
        kept: Option<Kept>,
        (sent, now): (Moment, Moment),
        answer: Result<Renewal>,
    ) -> Option<Kept> {
        let margin = hold.valid_until().since(now);
        let Some(mut kept) = kept else {
            // Dead or given back. A dead holder answers for itself: what it was granted goes back.
            if matches!(answer, Ok(Renewal::Renewed)) && !hold.has_ended() {
                self.give_back(hold, now);
            }
            return None;
        };
        kept.in_flight = false;
        match answer {
            Ok(Renewal::Renewed) => {
                if !hold.extend(validity::until(sent, hold.ttl), now) {
                    self.give_back(hold, now);
                } else {
                    let late = now.since(kept.due_since);
                    kept.failing = None;
                    kept.renew_at = sent + hold.ttl / 3;
                    kept.due_since = kept.renew_at;
                    let _telling = hold.telling();
                    let (name, holder, valid_until) = (&hold.key.name, hold.key.holder, hold.valid_until());
                    self.observe(&Event::Renewed { name, holder, valid_until, margin, late });
                }
            }
            Ok(Renewal::Gone) => {
                hold.die();
                self.tell(hold, LossReason::Gone);
                return None;
            }
            Ok(Renewal::Revoked) => {
                kept.renew_at = Moment::NEVER;
                self.tell(hold, LossReason::Revoked);
            }
            Err(error) => {
                kept.renew_at = now + pause_before_retry(hold.ttl);
                kept.failing = Some(error.to_string().into());
                let (name, holder) = (&hold.key.name, hold.key.holder);
                self.observe(&Event::RenewalFailed { name, holder, error: &error, remaining: margin });
            }
        }
        Some(kept)
    }

    fn give_back(&self, hold: &Hold, now: Moment) {
        // Its guard is still there, and will say what became of the work.
        let how = Ended { verdict: None, ..hold.how_it_ends(now, Verdict::Failed) };
        let label = Arc::clone(&hold.label);
        let what = Undo::Hold { how, label, acquired: hold.acquired, uncertain: false };
        let store = Arc::clone(&self.store);
        let cleanup = Cleanup { store, key: hold.key.clone(), what, give_up_at: now + hold.ttl };
        self.schedule().cleanups.push(cleanup);
        self.wake.notify_one();
    }

    /// Tries until the store has answered or the lease has ended by itself.
    async fn clean_up(self: Arc<Self>, mut cleanup: Cleanup, own: Arc<dyn Store>, place: Place) -> Called {
        let mut pause = Duration::from_millis(20);
        let mut in_order = matches!(cleanup.what, Undo::Claim { .. });
        loop {
            let tried = if std::mem::take(&mut in_order) {
                leave_in_order(&cleanup, place).await
            } else {
                self.undo(&own, &mut cleanup).await
            };
            if tried.is_ok() {
                return Called::CleanedUp;
            }
            if self.clock.now() >= cleanup.give_up_at {
                let is_heard_of = !cleanup.what.is_about_a_tick();
                return if is_heard_of { Called::CleanedUp } else { Called::Overdue(cleanup) };
            }
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Tries until the store has answered.
    async fn tell_late(self: Arc<Self>, mut cleanup: Cleanup, own: Arc<dyn Store>) {
        while self.undo(&own, &mut cleanup).await.is_err() {
            tokio::time::sleep(jittered(OVERDUE)).await;
        }
    }

    async fn undo(&self, store: &Arc<dyn Store>, cleanup: &mut Cleanup) -> Result<()> {
        match &mut cleanup.what {
            Undo::Claim { .. } => unpanicked(store.leave(&cleanup.key)).await,
            Undo::Hold { how, label, acquired, uncertain } => {
                let answer = unpanicked(store.release(&cleanup.key, *how)).await;
                let answer = answer.inspect_err(|error| *uncertain |= error.applied() == Applied::Maybe)?;
                self.observe(&Event::Released {
                    name: &cleanup.key.name,
                    holder: cleanup.key.holder,
                    label,
                    held: self.clock.now().since(*acquired),
                    in_time: answer == Release::Released || *uncertain,
                });
                Ok(())
            }
        }
    }
}

/// Takes a claim back over the handle over which it went, so that it can't be overtaken. That handle may do its work
/// on the thread that asks, and the keeper's has none to spare: it is asked from another.
async fn leave_in_order(cleanup: &Cleanup, place: Place) -> Result<()> {
    let (store, key) = (Arc::clone(&cleanup.store), cleanup.key.clone());
    let leave = async move { unpanicked(store.leave(&key)).await };
    if place == Place::CallersRuntime {
        return leave.await;
    }
    let runtime = tokio::runtime::Handle::current();
    let elsewhere = tokio::task::spawn_blocking(move || runtime.block_on(leave));
    elsewhere.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a thread ended").maybe_applied()))
}

/// A handle whose runtime is gone may panic rather than fail.
async fn unpanicked<T>(call: BoxFuture<'_, Result<T>>) -> Result<T> {
    let answer = AssertUnwindSafe(call).catch_unwind().await;
    answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the store panicked").maybe_applied()))
}

/// Between a tenth and a twentieth of the TTL: several tries before the holder has to be told.
fn pause_before_retry(ttl: Duration) -> Duration {
    jittered(ttl / 10).max(Duration::from_millis(50))
}

/// A random span between half of `most` and `most`.
pub(crate) fn jittered(most: Duration) -> Duration {
    most.mul_f64(chance::within(0.5..1.0))
}
