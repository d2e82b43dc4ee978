//! A lock: a name, and the terms on which it is asked for.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::hold::LossReason;
use crate::lease::Holding;
use crate::locks::Client;
use crate::name::LockName;
use crate::store::Traits;
use crate::tick::{Due, NotDue, TICK_SLACK, Tick};
use crate::validity::Moment;
use crate::wait::Acquisition;

/// A named lock of a [`Locks`](crate::Locks) client, with the terms on which it is asked for.
///
/// Made by [`Locks::lock`](crate::Locks::lock); the setters change one term each and can be chained. Bad
/// terms are reported by [`checked`](Self::checked), or by the first acquisition before anything is sent.
/// Reusable and cheap to clone: each acquisition has an identity of its own.
///
/// ```
/// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::Outcome;
///
/// let lock = locks.lock("nightly-backup").ttl(Duration::from_secs(60));
/// match lock.try_acquire().await? {
///     Outcome::Acquired(guard) => {
///         // … the work, with guard.token() handed to what it writes to …
///         guard.release().await?;
///     }
///     Outcome::Contended(other) => println!("{} has it", other.label),
///     Outcome::NotDue(why) => println!("{why}"), // Only of a lock with a tick or a key.
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Lock {
    client: Arc<Client>,
    name: Result<LockName, Arc<str>>,
    settings: Settings,
}

/// How long an acquisition may wait for somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// As long as it takes.
    #[default]
    Forever,
    /// At most this long.
    For(Duration),
}

/// How an acquisition ended. Contention is an answer, not an error.
#[derive(Debug)]
#[must_use = "without looking at it you don't know whether you hold the lock"]
pub enum Outcome<G = Guard> {
    /// We hold the lock for as long as the guard lives and is valid.
    Acquired(G),
    /// Somebody else holds it (or is before us in the queue), and the time to wait is over.
    Contended(Holding),
    /// The [tick](Lock::tick) or [key](crate::Locks::once) is not to be run by us, however long we wait: it was before,
    /// most likely.
    NotDue(NotDue),
}

impl<G> Outcome<G> {
    /// The guard, if the lock was acquired.
    #[must_use]
    pub fn guard(self) -> Option<G> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Contended(_) | Self::NotDue(_) => None,
        }
    }

    /// The same with another guard.
    pub(crate) fn map<H>(self, wrap: impl FnOnce(G) -> H) -> Outcome<H> {
        match self {
            Self::Acquired(guard) => Outcome::Acquired(wrap(guard)),
            Self::Contended(holding) => Outcome::Contended(holding),
            Self::NotDue(why) => Outcome::NotDue(why),
        }
    }
}

/// How [`Lock::run`] ended.
#[derive(Debug)]
#[must_use = "the job may not have run"]
pub enum Ran<T> {
    /// The job ran to its end under the lock.
    Done(T),
    /// Somebody else held the lock; the job did not run.
    Contended(Holding),
    /// The tick or key is not to be run by us; the job did not run.
    NotDue(NotDue),
    /// The lock was lost; the job was dropped where it stood.
    Lost(LossReason),
}

#[derive(Debug, Clone, Default)]
struct Settings {
    ttl: Option<Duration>,
    wait: Wait,
    patience: Option<Duration>,
    stop_grace: Option<Duration>,
    max_hold: Option<Duration>,
    at_least_for: Duration,
    progress_within: Option<Duration>,
    permits: Option<u32>,
    tick: Option<Tick>,
    retry_failed: bool,
    remember: Option<Duration>,
    label: Option<Arc<str>>,
}

/// Checked settings: what one acquisition works with.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub name: LockName,
    pub label: Arc<str>,
    pub ttl: Duration,
    pub wait: Wait,
    pub patience: Option<Duration>,
    pub stop_grace: Duration,
    pub max_hold: Option<Duration>,
    pub at_least_for: Duration,
    pub progress_within: Option<Duration>,
    pub permits: NonZeroU32,
    pub due: Option<Due>,
}

impl Lock {
    pub(crate) fn new(client: Arc<Client>, name: &str) -> Self {
        let name = LockName::new(name).map_err(|error| error.to_string().into());
        Self { client, name, settings: Settings::default() }
    }

    /// How long the store keeps the lease if nobody renews it: how long others wait for a machine that
    /// died. The keeper renews at a third of it. Default: 30 s, 60 s with a fallback; smallest 1 s, largest the client's
    /// [`max_ttl`](crate::LocksBuilder::max_ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// How long [`acquire`](Self::acquire) waits. Default: for ever.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.settings.wait = wait;
        self
    }

    /// For how long [`try_acquire`](Self::try_acquire) goes on asking a store that can't say. That somebody else has the lock is
    /// an answer, and told at once. Default: 2 s, and three times at most. For a switch of a
    /// [`Fallback`](crate::stores::Fallback) to be over: [`moves_within`](crate::stores::fallback::Settings::moves_within).
    pub fn patience(mut self, span: Duration) -> Self {
        self.settings.patience = Some(span);
        self
    }

    /// How long before the end of the validity a holder is told to stop. Default: min(10 s, ttl/3); at most ttl/2,
    /// and with a fallback 0.3 of its route lease.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.settings.stop_grace = Some(grace);
        self
    }

    /// Ends work that hangs: after this long the holder is told to stop, and renewals end. Default: no limit.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.settings.max_hold = Some(most);
        self
    }

    /// Minimum hold: released earlier, the name stays taken for the rest of this time. It keeps a node
    /// whose clock is late from running a short job again. Default: none.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.settings.at_least_for = least;
        self
    }

    /// Renews only while the job [`touch`](Guard::touch)es its guard at least this often: work that hangs
    /// loses its lock. Default: renews as long as the guard lives.
    pub fn progress_within(mut self, span: Duration) -> Self {
        self.settings.progress_within = Some(span);
        self
    }

    /// Makes it a semaphore: up to `most` may hold it at a time. All who ask for the name must ask for the same number;
    /// another one is an error while anybody holds it. Default: 1.
    ///
    /// Each permit is a lease of its own, free again when its holder dies. Tokens grow over all of them.
    pub fn permits(mut self, most: u32) -> Self {
        self.settings.permits = Some(most);
        self
    }

    /// Holds the lock for one run of a schedule: that one runs once, however many nodes try and however late they come.
    /// Whoever comes after it has run, or for a run before it, gets [`Outcome::NotDue`].
    ///
    /// Choose the tick by the store's clock, [`Locks::time`](crate::Locks::time), or by a schedule. One that is more
    /// than [`TICK_SLACK`](crate::TICK_SLACK) ahead of the store's clock is refused, so that a node whose clock is
    /// fast stops nobody.
    ///
    /// ```
    /// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
    /// use leasehold::Tick;
    ///
    /// // Once in each quarter of an hour.
    /// let millis = locks.time().await?.as_millis() as i64;
    /// let tick = Tick::from_unix_millis(millis - millis % 900_000).unwrap();
    /// let ran = locks.lock("digest").tick(tick).run(async |_guard| { /* … */ }).await?;
    /// # Ok(()) }
    /// ```
    pub fn tick(mut self, tick: Tick) -> Self {
        self.settings.tick = Some(tick);
        self
    }

    /// Whether a tick or key that was begun and not done may be begun again, by whoever comes next: at least once,
    /// until it is done. Default: no, at most once. Of one that was ever claimed without this, it changes nothing. Exactly
    /// once, for what a transaction of the job's writes: `Guard::complete_in`, of the module `fence`.
    pub fn retry_failed(mut self, retry: bool) -> Self {
        self.settings.retry_failed = retry;
        self
    }

    /// For how long it has to be remembered which ticks were claimed. An older tick than that (less
    /// [`TICK_SLACK`](crate::TICK_SLACK)) is refused. Default: 25 hours; at least 10 minutes.
    pub fn remember(mut self, keep: Duration) -> Self {
        self.settings.remember = Some(keep);
        self
    }

    /// Who holds it, for people. Default: the client's label, `host/pid/program`.
    pub fn label(mut self, label: &str) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// The name, if it is a legal one.
    #[must_use]
    pub fn name(&self) -> Option<&LockName> {
        self.name.as_ref().ok()
    }

    /// This lock, once its name and terms are known to be good. Sends nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the value, the rule and the fix.
    pub fn checked(self) -> Result<Self> {
        self.terms()?;
        Ok(self)
    }

    /// Asks once. [`Outcome::Contended`] says who has it.
    ///
    /// # Errors
    /// Bad terms; or the store can't say (it is asked several times under the same identity, as [`patience`](Self::patience)
    /// has it).
    ///
    /// # Cancel safety
    /// Dropping this future releases in the background what the store may have granted; nobody else waits
    /// longer for it than the store takes to answer. If the store is gone as well: at most one TTL.
    pub async fn try_acquire(&self) -> Result<Outcome> {
        Acquisition::begin(&self.client, self.terms()?)?.once().await
    }

    /// Waits for the lock, for as long as [`wait`](Self::wait) says: first come, first served among the waiters of this
    /// client, and among clients, which take turns.
    ///
    /// # Errors
    /// Bad terms; the store denies access or is set up wrong; it has not answered, or refused to write, for a whole TTL
    /// or until the time to wait was over; the client was shut down.
    ///
    /// # Cancel safety
    /// Dropping this future leaves the queue and releases in the background what may have been granted.
    pub async fn acquire(&self) -> Result<Outcome> {
        Acquisition::begin(&self.client, self.terms()?)?.wait().await
    }

    /// Runs `job` under the lock: waits for it as [`acquire`](Self::acquire) does, releases it whatever way
    /// the job ends, and drops the job where it stands if the lock is lost. A tick or key is done when the job has
    /// returned; see [`try_run`](Self::try_run) for one that may fail.
    ///
    /// ```
    /// # async fn demo(locks: leasehold::Locks) -> leasehold::Result<()> {
    /// use leasehold::Ran;
    ///
    /// let ran = locks.lock("billing").run(async |guard| guard.token()).await?;
    /// if let Ran::Done(token) = ran { println!("ran with token {token}") }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire). What the job returns comes back as it is, in [`Ran::Done`]; a
    /// release that fails after it is retried in the background and doesn't hide it.
    ///
    /// # Cancel safety
    /// Dropping this future drops the job and releases the lock in the background. So does a panic in the job.
    pub async fn run<T>(&self, job: impl AsyncFnOnce(&Guard) -> T) -> Result<Ran<T>> {
        self.run_and_judge(job, |_| true).await
    }

    /// As [`run`](Self::run), for a job that may fail: a tick or key is done only if the job returned `Ok`.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire). The job's own error comes back in [`Ran::Done`].
    ///
    /// # Cancel safety
    /// As for [`run`](Self::run). A job that was dropped counts as failed.
    pub async fn try_run<T, E>(&self, job: impl AsyncFnOnce(&Guard) -> Result<T, E>) -> Result<Ran<Result<T, E>>> {
        self.run_and_judge(job, Result::is_ok).await
    }

    async fn run_and_judge<T>(
        &self,
        job: impl AsyncFnOnce(&Guard) -> T,
        is_done: impl FnOnce(&T) -> bool,
    ) -> Result<Ran<T>> {
        let guard = match self.acquire().await? {
            Outcome::Acquired(guard) => guard,
            Outcome::Contended(holding) => return Ok(Ran::Contended(holding)),
            Outcome::NotDue(why) => return Ok(Ran::NotDue(why)),
        };
        if let Some(reason) = guard.loss() {
            let _ = guard.not_started().await;
            return Ok(Ran::Lost(reason));
        }
        let ran = tokio::select! {
            biased;
            reason = guard.lost() => Ran::Lost(reason),
            done = job(&guard) => Ran::Done(done),
        };
        let is_done = matches!(&ran, Ran::Done(done) if is_done(done));
        let _ = if is_done { guard.complete().await } else { guard.release().await };
        Ok(ran)
    }

    pub(crate) fn now(&self) -> Moment {
        self.client.clock.now()
    }

    fn terms(&self) -> Result<Terms> {
        let name = self.name.clone().map_err(|error| Error::invalid(&*error))?;
        let Settings { ttl, wait, patience, stop_grace, max_hold, at_least_for, progress_within, .. } = self.settings;
        let traits = self.client.store.traits();
        let ttl = ttl.unwrap_or(traits.usual_ttl.min(self.client.max_ttl));
        check_ttl(ttl, self.client.max_ttl, traits)?;
        let longest_default = LONGEST_DEFAULT_GRACE.min(traits.longest_stop_grace);
        let stop_grace = stop_grace.unwrap_or_else(|| (ttl / 3).min(longest_default));
        check_grace(stop_grace, ttl, traits)?;
        check_holds(max_hold, at_least_for, progress_within)?;
        let permits = checked_permits(self.settings.permits)?;
        let due = self.settings.due()?;
        let label = self.settings.label.as_ref().unwrap_or(&self.client.label);
        let label = Arc::clone(label);
        Ok(Terms {
            name,
            label,
            ttl,
            wait,
            patience,
            stop_grace,
            max_hold,
            at_least_for,
            progress_within,
            permits,
            due,
        })
    }
}

impl Settings {
    fn due(&self) -> Result<Option<Due>> {
        let Some(tick) = self.tick else { return Ok(None) };
        let keep = self.remember.unwrap_or(DEFAULT_MEMORY);
        if keep < SHORTEST_MEMORY || keep > LONGEST_MEMORY {
            return Err(Error::invalid(format!(
                "ticks and keys can't be remembered for {keep:?}: give at least 10 minutes, since clocks differ, and at \
                 most 100 years"
            )));
        }
        Ok(Some(Due { tick, retry_failed: self.retry_failed, keep }))
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("settings", &self.settings).finish_non_exhaustive()
    }
}

const LONGEST_DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// A day more than the hour within which a missed tick may be caught up with.
const DEFAULT_MEMORY: Duration = Duration::from_secs(25 * 3600);
const SHORTEST_MEMORY: Duration = TICK_SLACK.saturating_mul(2);
const LONGEST_MEMORY: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
/// So many holders of one name are looked through at each claim.
const MOST_PERMITS: u32 = 1000;
const LONGEST_MINIMUM_HOLD: Duration = Duration::from_secs(366 * 24 * 3600);

fn checked_permits(asked: Option<u32>) -> Result<NonZeroU32> {
    let asked = asked.unwrap_or(1);
    NonZeroU32::new(asked).filter(|permits| permits.get() <= MOST_PERMITS).ok_or_else(|| {
        Error::invalid(format!("{asked} permits make no sense: give 1 for a lock, and at most {MOST_PERMITS}"))
    })
}

/// `a redis`, `an etcd`.
fn a(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn check_ttl(ttl: Duration, largest: Duration, traits: Traits) -> Result<()> {
    let smallest = traits.smallest_ttl;
    if ttl < smallest {
        return Err(Error::invalid(format!(
            "the TTL {ttl:?} is too short: with {} store it must be at least {smallest:?}",
            a(traits.kind)
        )));
    }
    if ttl > largest {
        return Err(Error::invalid(format!(
            "the TTL {ttl:?} is too long: at most {largest:?}. It is how long others wait for a machine that \
             died, not how long the job may run (leases renew themselves)"
        )));
    }
    Ok(())
}

fn check_grace(grace: Duration, ttl: Duration, traits: Traits) -> Result<()> {
    let longest = traits.longest_stop_grace;
    if grace > longest {
        return Err(Error::invalid(format!(
            "the stop grace {grace:?} is too long: with {} store it may be at most {longest:?}",
            a(traits.kind)
        )));
    }
    if grace.is_zero() {
        return Err(Error::invalid("the stop grace is 0: a holder needs some time to stop; give it at least 1ms"));
    }
    if grace > ttl / 2 {
        return Err(Error::invalid(format!(
            "the stop grace {grace:?} is more than half of the TTL {ttl:?}: too little would be left for \
             renewals. Make it at most {:?}, or the TTL at least {:?}",
            ttl / 2,
            grace.saturating_mul(2)
        )));
    }
    Ok(())
}

fn check_holds(max_hold: Option<Duration>, at_least: Duration, progress: Option<Duration>) -> Result<()> {
    if max_hold.is_some_and(|most| most.is_zero()) || progress.is_some_and(|span| span.is_zero()) {
        return Err(Error::invalid("a maximum hold or progress span of 0 would end every job at once; leave it out"));
    }
    if at_least > LONGEST_MINIMUM_HOLD {
        return Err(Error::invalid(format!(
            "the minimum hold {at_least:?} is longer than a year; it keeps the name from everybody for that long"
        )));
    }
    if let Some(most) = max_hold
        && at_least > most
    {
        return Err(Error::invalid(format!(
            "the minimum hold {at_least:?} is longer than the maximum hold {most:?}; swap them or drop one"
        )));
    }
    Ok(())
}
