//! Counts what it is told of.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use leasehold::{Event, LockName};
use leasehold_schedule::Event as JobEvent;

use super::catalogue;
use super::groups::{GroupOf, Groups};
use super::jobs::{JobSeries, Trouble};
use super::locks::LockSeries;
use super::stores::{RouteSeries, Votes};

/// Observes locks and jobs, and counts what happens to them in the `metrics` facade.
///
/// It counts with the recorder that is installed when it is made, so make it after that. Cheap to clone: the clones count together,
/// so one can observe a [`Locks`](leasehold::Locks) and another its scheduler. It never blocks for long and never panics.
///
/// ```
/// use leasehold::Locks;
/// use leasehold_monitor::metrics::Meter;
/// # use leasehold::stores::Memory;
/// # use std::sync::Arc;
/// # let store = Arc::new(Memory::default());
///
/// // Locks named like "invoice/2931" are counted together, as "invoice".
/// let meter = Meter::grouped(|name| name.as_str().split_once('/').map(|(group, _)| group.to_owned()));
/// let locks = Locks::builder().observer(meter.clone()).over(store);
/// let scheduler = leasehold_schedule::Scheduler::over(locks).observer(meter);
/// ```
#[derive(Clone)]
pub struct Meter {
    inner: Arc<Inner>,
}

struct Inner {
    locks: Groups<LockSeries>,
    votes: Votes,
    /// Of those who have one: where there is no fallback there is no route to be told of.
    route: OnceLock<RouteSeries>,
    group_of: Option<Arc<GroupOf>>,
    /// Of those who run jobs.
    jobs: OnceLock<(Groups<JobSeries>, Trouble)>,
}

impl Meter {
    /// One that counts all locks together.
    #[must_use]
    pub fn new() -> Self {
        Self::by(None)
    }

    /// One that counts the locks of each group together, under the label `group`, and those for which `group` knows none without
    /// it. A job counts as the lock of its name.
    ///
    /// Groups are to be few and known: each has some dozens of series. From the 51st on all are one, `other`.
    pub fn grouped<G: Into<Cow<'static, str>>>(group: impl Fn(&LockName) -> Option<G> + Send + Sync + 'static) -> Self {
        Self::by(Some(Arc::new(move |name: &LockName| group(name).map(Into::into))))
    }

    fn by(group_of: Option<Arc<GroupOf>>) -> Self {
        catalogue::describe();
        let locks = Groups::new(LockSeries::of, group_of.clone());
        let (votes, route, jobs) = (Votes::default(), OnceLock::new(), OnceLock::new());
        Self { inner: Arc::new(Inner { locks, votes, route, group_of, jobs }) }
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

impl leasehold::Observer for Meter {
    fn observe(&self, event: &Event<'_>) {
        let inner = &*self.inner;
        match event {
            Event::Asked { name }
            | Event::Answered { name, .. }
            | Event::Withdrawn { name, .. }
            | Event::Acquired { name, .. }
            | Event::LetGo { name, .. }
            | Event::Renewed { name, .. }
            | Event::RenewalFailed { name, .. }
            | Event::Lost { name, .. }
            | Event::Stale { name, .. }
            | Event::Released { name, .. }
            | Event::ReleaseFailed { name, .. }
            | Event::GaveUp { name, .. } => inner.locks.with(name, |series| series.count(event)),
            Event::Voted { member, on, ballot, times } => inner.votes.count(member, *on, *ballot, *times),
            Event::Routed { to, epoch } => inner.route().leads_to(to, *epoch),
            Event::Switched { to, epoch, .. } => inner.route().moves_to(to, *epoch),
            _ => {}
        }
    }
}

impl leasehold_schedule::Observer for Meter {
    fn observe(&self, event: &JobEvent<'_>) {
        let (jobs, trouble) = self.inner.jobs();
        let count = |job: &str, count: &dyn Fn(&JobSeries)| {
            if let Ok(name) = LockName::new(job) {
                jobs.with(&name, count);
            }
        };
        match event {
            JobEvent::Started { job, late, .. } => count(job, &|series| series.begins(*late)),
            JobEvent::Ended { job, took, how, .. } => count(job, &|series| series.ends(*took, how)),
            JobEvent::NotRun { job, why, .. } => count(job, &|series| series.is_not_run(why)),
            JobEvent::ClockIsFast { job, .. } => count(job, &JobSeries::clock_is_fast),
            JobEvent::StoreIsAway { .. } => trouble.store_is_away.increment(1),
            JobEvent::StoreRefuses { .. } => trouble.store_refuses.increment(1),
            JobEvent::LedgerFailed { .. } => trouble.ledger_failed.increment(1),
            _ => {}
        }
    }
}

impl Inner {
    fn route(&self) -> &RouteSeries {
        self.route.get_or_init(RouteSeries::new)
    }

    fn jobs(&self) -> &(Groups<JobSeries>, Trouble) {
        self.jobs.get_or_init(|| (Groups::new(JobSeries::of, self.group_of.clone()), Trouble::new()))
    }
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("locks", &self.inner.locks).finish_non_exhaustive()
    }
}
