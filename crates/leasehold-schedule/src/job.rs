//! A job: a name, when it is due, on which terms it is run, and what it does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::{Lock, Locks, Tick};

use crate::policy::{Missed, Overlap, Retries};
use crate::schedule::Schedule;
use crate::work::{Failure, Function, Run, Work};

/// The lock under which runs are asked for, one at a time. No job has its name.
pub(crate) const ASKING: &str = "leasehold:trigger";

/// How much longer than anything asks for it a mark is remembered.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// For how long it is remembered which ticks were claimed, whatever a node is told to catch up with: it is as long on all of
/// them. A job is known for as long, and may have rested since it was claimed last.
const MEMORY: Duration = Duration::from_secs(400 * 24 * 3600);

/// No tick is run at the very instant at which it is due.
const SHORTEST_CATCH_UP: Duration = Duration::from_secs(60);

/// Jobs that are due at the same time are spread over less than that.
const LONGEST_JITTER: Duration = A_DAY;

/// Something that is to be run at each tick of a schedule, by one of the nodes that know it.
///
/// Its name is the name of its lock: nodes must agree on it, and on the schedule. The setters change one term each and can be
/// chained; terms that make no sense are reported by [`checked`](Self::checked), or when a scheduler is given the job.
#[derive(Clone)]
#[must_use]
pub struct Job {
    pub(crate) name: String,
    pub(crate) schedule: Schedule,
    pub(crate) terms: Terms,
    pub(crate) work: Arc<dyn Work>,
}

/// On which terms a job is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub missed: Missed,
    pub overlap: Overlap,
    pub at_least_once: bool,
    pub catch_up: Duration,
    pub retries: Retries,
    pub time_limit: Option<Duration>,
    pub jitter: Duration,
    pub at_least_for: Duration,
    pub ttl: Option<Duration>,
    pub stop_grace: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            missed: Missed::default(),
            overlap: Overlap::default(),
            at_least_once: false,
            catch_up: Duration::from_secs(3600),
            retries: Retries::NONE,
            time_limit: None,
            jitter: Duration::ZERO,
            at_least_for: Duration::ZERO,
            ttl: None,
            stop_grace: None,
        }
    }
}

impl Job {
    /// A job on the usual terms: each tick once at most; the latest missed one within an hour is run late; a tick that is due
    /// while the job still runs is skipped; what fails is not tried again.
    ///
    /// Where the lock is lost, a limit is over or the scheduler is stopped, the future that `work` has made is dropped: what
    /// it has started must end with it, at once.
    ///
    /// ```
    /// use leasehold_schedule::{Job, Schedule};
    ///
    /// let nightly = Schedule::parse("30 2 * * *", Some("Europe/Berlin"))?;
    /// let job = Job::new("nightly", nightly, |run| {
    ///     Box::pin(async move {
    ///         println!("attempt {}, token {}", run.attempt(), run.token());
    ///         Ok(())
    ///     })
    /// });
    /// # Ok::<(), leasehold_schedule::ScheduleError>(())
    /// ```
    pub fn new<F>(name: &str, schedule: Schedule, work: F) -> Self
    where
        F: for<'a> Fn(&'a Run) -> BoxFuture<'a, Result<(), Failure>> + Send + Sync + 'static,
    {
        Self::of(name, schedule, Function(work))
    }

    /// A job on the usual terms that says more of how it ended than a function does.
    pub fn of(name: &str, schedule: Schedule, work: impl Work) -> Self {
        Self { name: name.to_owned(), schedule, terms: Terms::default(), work: Arc::new(work) }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it is due.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What becomes of ticks that nobody ran when they were due. Default: the latest is run.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.terms.missed = missed;
        self
    }

    /// How old a missed tick may be that is still run. Default: 1 h; at least a minute, for so late a tick may be that nothing has delayed.
    pub fn catch_up(mut self, window: Duration) -> Self {
        self.terms.catch_up = window.max(SHORTEST_CATCH_UP);
        self
    }

    /// What becomes of a tick that is due while the job still runs for an earlier one. Default: it is skipped.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.terms.overlap = overlap;
        self
    }

    /// Whether a tick whose node died in the middle is begun again by another: at least once. Default: no, at most once. Of a
    /// tick that was claimed without this, it changes nothing.
    pub fn at_least_once(mut self, at_least_once: bool) -> Self {
        self.terms.at_least_once = at_least_once;
        self
    }

    /// How often a run that fails is tried again, for the same tick. Default: not at all. A run that failed so often is
    /// recorded as failed, and that is the end of its tick.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.terms.retries = retries;
        self
    }

    /// How long a tick's run may take, its retries included; then it is [cut](Run::cut). Default: no limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.terms.time_limit = Some(limit);
        self
    }

    /// Spreads jobs that are due at the same time: each starts later by a span below this that depends on its name alone.
    /// Default: none.
    pub fn jitter(mut self, within: Duration) -> Self {
        self.terms.jitter = within;
        self
    }

    /// Minimum hold, see [`Lock::at_least_for`]. Ticks run once without it. Default: none.
    pub fn at_least_for(mut self, least: Duration) -> Self {
        self.terms.at_least_for = least;
        self
    }

    /// The TTL of its lock: how long others wait for a node that died. Default: the store's usual one.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// How long before the end of the validity its work is told to end, see [`Lock::stop_grace`]. Default: the lock's usual
    /// one.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.terms.stop_grace = Some(grace);
        self
    }

    /// Its lock, for one tick.
    pub(crate) fn lock(&self, locks: &Locks, tick: Tick) -> Lock {
        let Terms { overlap, at_least_once, catch_up, time_limit, at_least_for, ttl, stop_grace, .. } = &self.terms;
        let mut lock = locks.lock(&self.name).at_least_for(*at_least_for);
        if let Some(ttl) = ttl {
            lock = lock.ttl(*ttl);
        }
        if let Some(grace) = stop_grace {
            lock = lock.stop_grace(*grace);
        }
        if let Some(limit) = time_limit {
            lock = lock.max_hold(*limit);
        }
        if let Overlap::Allow(most) = overlap {
            lock = lock.permits(*most);
        }
        lock.tick(tick).retry_failed(*at_least_once).remember(catch_up.saturating_add(A_DAY).max(MEMORY))
    }

    /// This job, once its name and terms are known to be good. Sends nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid), naming the value, the rule and the fix.
    pub fn checked(self, locks: &Locks) -> leasehold::Result<Self> {
        drop(self.lock(locks, Tick::ONLY).checked()?);
        check_name(&self.name)?;
        let refused = |why: String| Err(leasehold::Error::invalid(format!("{}: {why}", self.name)));
        let Terms { jitter, missed, .. } = self.terms;
        if self.schedule.period().is_some_and(|period| jitter >= period) {
            return refused(format!("a jitter of {jitter:?} is longer than the job's period"));
        }
        if jitter > LONGEST_JITTER {
            return refused(format!("a jitter of {jitter:?} is too long: give a day at most, or another schedule"));
        }
        if missed == (Missed::All { most: 0 }) {
            return refused(
                "of its missed ticks all are to be run, and 0 at most: give 1 at least, or another policy".into(),
            );
        }
        Ok(self)
    }
}

/// A job must not have the name of our own lock.
pub(crate) fn check_name(job: &str) -> leasehold::Result<()> {
    if job == ASKING {
        return Err(leasehold::Error::invalid(format!(
            "{job:?} is the lock under which runs are asked for; give the job another name"
        )));
    }
    Ok(())
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("name", &self.name).field("terms", &self.terms).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use leasehold::stores::Memory;

    use super::*;

    /// A node that is told to catch up with more than others must not run what these have forgotten.
    #[test]
    fn which_ticks_were_claimed_is_remembered_for_as_long_whatever_is_caught_up_with() {
        let locks = Locks::over(Arc::new(Memory::default()));
        let tick = Tick::from_unix_millis(1_796_004_000_000).unwrap();
        let terms = |catch_up| {
            let schedule = Schedule::parse("@monthly", None).unwrap();
            let job = Job::new("job", schedule, |_| Box::pin(async { Ok(()) })).catch_up(catch_up);
            format!("{:?}", job.lock(&locks, tick))
        };
        let kept = terms(Duration::ZERO);
        assert!(kept.contains("remember: Some(34560000s)"), "{kept}");
        assert_eq!(terms(A_DAY * 40), kept);
        assert!(terms(A_DAY * 500).contains("remember: Some(43286400s)"), "no shorter than is asked for");
    }
}
