//! The jobs of a scheduler, which may change while it runs.

use std::collections::HashSet;

use leasehold::{Error, Locks};
use tokio::sync::watch;

use crate::job::Job;

/// Changes the jobs of a [`Scheduler`](crate::Scheduler), before it runs and while it does. Cheap to clone.
///
/// ```no_run
/// # use leasehold::Locks;
/// # use leasehold_schedule::{Job, Scheduler};
/// # fn jobs_in_the_file() -> Vec<Job> { Vec::new() }
/// # async fn demo(locks: Locks) -> leasehold::Result<()> {
/// let scheduler = Scheduler::over(locks);
/// let roster = scheduler.roster();
/// roster.replace(jobs_in_the_file())?;
/// tokio::spawn(scheduler.run(std::future::pending()));
/// // The file has changed:
/// roster.replace(jobs_in_the_file())?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Roster {
    locks: Locks,
    jobs: watch::Sender<Vec<Job>>,
}

impl Roster {
    pub(crate) fn over(locks: Locks) -> Self {
        Self { locks, jobs: watch::Sender::new(Vec::new()) }
    }

    /// Has these jobs from now on, and no others.
    ///
    /// While the scheduler runs: a job whose schedule is what it was goes on with it, on its new terms and with its new work
    /// from its next tick on. One that is new here, or whose schedule has changed, begins at its next tick. One that is gone
    /// is due no more. What runs is left alone; so is a tick that is due already and waits, for the store or for its turn.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](leasehold::ErrorKind::Invalid): a name or terms are not right, or two jobs have one name. Nothing
    /// has changed then.
    pub fn replace(&self, jobs: impl IntoIterator<Item = Job>) -> leasehold::Result<()> {
        let mut names = HashSet::new();
        let mut checked = Vec::new();
        for job in jobs {
            let job = job.checked(&self.locks)?;
            if !names.insert(job.name.clone()) {
                return Err(twice(&job));
            }
            checked.push(job);
        }
        self.jobs.send_replace(checked);
        Ok(())
    }

    pub(crate) fn add(&self, job: Job) -> leasehold::Result<()> {
        let job = job.checked(&self.locks)?;
        if self.jobs.borrow().iter().any(|other| other.name == job.name) {
            return Err(twice(&job));
        }
        self.jobs.send_modify(|jobs| jobs.push(job));
        Ok(())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Vec<Job>> {
        self.jobs.subscribe()
    }
}

fn twice(job: &Job) -> Error {
    Error::invalid(format!("two jobs are called {:?}: each needs a name of its own", job.name))
}
