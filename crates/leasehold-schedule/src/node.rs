//! What the jobs of one node share: the locks, the time, whom to tell, and whether it is to end.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use leasehold::{Error, Locks};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::ending::Ending;
use crate::event::{Event, Observer};
use crate::job::Job;
use crate::late::Late;
use crate::ledger::{self, Ledger};
use crate::orders::Standing;
use crate::pace::Pace;
use crate::scribe::Scribe;

/// How long a store that can't be asked is left alone, twice as long each time.
pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// One scheduler's node.
pub(crate) struct Node {
    pub locks: Locks,
    pub pace: Pace,
    pub observer: Option<Arc<dyn Observer>>,
    pub ending: watch::Receiver<Ending>,
    /// What operators ask for, as it was heard last.
    pub orders: watch::Sender<Arc<Standing>>,
    pub scribe: Scribe,
    pub late: Late,
    /// How many records of each job are kept.
    pub records: AtomicU32,
    /// The names of its jobs.
    pub names: Mutex<HashSet<String>>,
    /// So many claims are under way at a time: of a store that is asked for all that is due at once the last answers would come too late.
    pub asking: Semaphore,
}

/// How many claims of one node are under way at a time.
pub(crate) const ASKING: usize = 32;

impl Node {
    pub fn now(&self) -> Timestamp {
        self.pace.now()
    }

    /// An observer that panics must not take a job along.
    pub fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            let _ = catch_unwind(AssertUnwindSafe(|| observer.observe(event)));
        }
    }

    /// The ledger decides nothing: what fails there is told and goes no further.
    pub fn told<T>(&self, result: Result<T, Error>) -> Option<T> {
        result.inspect_err(|error| self.tell(&Event::LedgerFailed { error })).ok()
    }

    /// That of this job.
    pub fn ledger(&self, job: &str) -> Result<Ledger<'_>, Error> {
        Ok(Ledger::of(&self.locks, job)?.keeping(self.records.load(Ordering::Relaxed)))
    }

    /// It has these jobs now.
    pub fn has_jobs<'a>(&self, jobs: impl ExactSizeIterator<Item = &'a Job>) {
        self.records.store(ledger::kept_of_each(jobs.len()), Ordering::Relaxed);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = jobs.map(|job| job.name.clone()).collect();
    }

    /// Whether it has a job of that name now.
    pub fn has(&self, job: &str) -> bool {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).contains(job)
    }

    pub fn is_ending(&self) -> bool {
        *self.ending.borrow() > Ending::No
    }

    /// Resolves when it has got so far, also if the scheduler is gone.
    pub async fn ends(&self, so_far: Ending) {
        so_far.reached(&self.ending).await;
    }

    /// Sleeps; false if the end comes first.
    pub async fn sleeps(&self, span: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.ends(Ending::Soon) => false,
            () = tokio::time::sleep(span) => true,
        }
    }

    /// A place among those who ask the store; none if the end comes first.
    pub async fn place(&self) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            () = self.ends(Ending::Soon) => None,
            place = self.asking.acquire() => place.ok(),
        }
    }
}
