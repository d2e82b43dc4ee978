//! A lock: a name, and the terms on which it is asked for.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::hold::LossReason;
use crate::lease::Holding;
use crate::locks::Client;
use crate::name::LockName;
use crate::store::Traits;
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
pub enum Outcome {
    /// We hold the lock for as long as the guard lives and is valid.
    Acquired(Guard),
    /// Somebody else holds it (or is before us in the queue), and the time to wait is over.
    Contended(Holding),
}

impl Outcome {
    /// The guard, if the lock was acquired.
    #[must_use]
    pub fn guard(self) -> Option<Guard> {
        match self {
            Self::Acquired(guard) => Some(guard),
            Self::Contended(_) => None,
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
    /// The lock was lost; the job was dropped where it stood.
    Lost(LossReason),
}

#[derive(Debug, Clone, Default)]
struct Settings {
    ttl: Option<Duration>,
    wait: Wait,
    stop_grace: Option<Duration>,
    max_hold: Option<Duration>,
    at_least_for: Duration,
    progress_within: Option<Duration>,
    label: Option<Arc<str>>,
}

/// Checked settings: what one acquisition works with.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub name: LockName,
    pub label: Arc<str>,
    pub ttl: Duration,
    pub wait: Wait,
    pub stop_grace: Duration,
    pub max_hold: Option<Duration>,
    pub at_least_for: Duration,
    pub progress_within: Option<Duration>,
}

impl Lock {
    pub(crate) fn new(client: Arc<Client>, name: &str) -> Self {
        let name = LockName::new(name).map_err(|error| error.to_string().into());
        Self { client, name, settings: Settings::default() }
    }

    /// How long the store keeps the lease if nobody renews it: how long others wait for a machine that
    /// died. The keeper renews at a third of it. Default: 30 s; smallest 1 s, largest the client's
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

    /// How long before the end of the validity a holder is told to stop. Default: min(10 s, ttl/3); at most ttl/2.
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
    /// Bad terms; or the store can't say (it is asked up to three times under the same identity).
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
    /// the job ends, and drops the job where it stands if the lock is lost.
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
        let guard = match self.acquire().await? {
            Outcome::Acquired(guard) => guard,
            Outcome::Contended(holding) => return Ok(Ran::Contended(holding)),
        };
        let ran = tokio::select! {
            biased;
            reason = guard.lost() => Ran::Lost(reason),
            done = job(&guard) => Ran::Done(done),
        };
        let _ = guard.release().await;
        Ok(ran)
    }

    fn terms(&self) -> Result<Terms> {
        let name = self.name.clone().map_err(|error| Error::invalid(&*error))?;
        let Settings { ttl, wait, stop_grace, max_hold, at_least_for, progress_within, label } = self.settings.clone();
        let ttl = ttl.unwrap_or(DEFAULT_TTL);
        check_ttl(ttl, self.client.max_ttl, self.client.store.traits())?;
        let stop_grace = stop_grace.unwrap_or_else(|| (ttl / 3).min(LONGEST_DEFAULT_GRACE));
        check_grace(stop_grace, ttl)?;
        check_holds(max_hold, at_least_for, progress_within)?;
        let label = label.unwrap_or_else(|| Arc::clone(&self.client.label));
        Ok(Terms { name, label, ttl, wait, stop_grace, max_hold, at_least_for, progress_within })
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("name", &self.name).field("settings", &self.settings).finish_non_exhaustive()
    }
}

const DEFAULT_TTL: Duration = Duration::from_secs(30);
const LONGEST_DEFAULT_GRACE: Duration = Duration::from_secs(10);
const LONGEST_MINIMUM_HOLD: Duration = Duration::from_secs(366 * 24 * 3600);

fn check_ttl(ttl: Duration, largest: Duration, traits: Traits) -> Result<()> {
    let smallest = traits.smallest_ttl;
    if ttl < smallest {
        return Err(Error::invalid(format!(
            "the TTL {ttl:?} is too short: with a {} store it must be at least {smallest:?}",
            traits.kind
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

fn check_grace(grace: Duration, ttl: Duration) -> Result<()> {
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
