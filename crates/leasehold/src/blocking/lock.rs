//! A lock, for code without async.

use std::sync::Arc;
use std::time::Duration;

use super::{Guard, Shared};
use crate::error::Result;
use crate::lock::{Ran, Wait};

/// A named lock with its terms, for code without async.
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    lock: crate::Lock,
    shared: Arc<Shared>,
}

/// How an acquisition ended.
pub type Outcome<G = Guard> = crate::Outcome<G>;

impl Lock {
    pub(super) fn new(lock: crate::Lock, shared: Arc<Shared>) -> Self {
        Self { lock, shared }
    }

    /// See [`crate::Lock::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// See [`crate::Lock::wait`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.lock = self.lock.wait(wait);
        self
    }

    /// This lock on other terms, for the setters that have no twin here:
    /// `lock.terms(|lock| lock.max_hold(limit))`.
    pub fn terms(mut self, change: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        self.lock = change(self.lock);
        self
    }

    /// Asks once. See [`crate::Lock::try_acquire`].
    ///
    /// # Errors
    /// Bad terms, or the store can't say.
    pub fn try_acquire(&self) -> Result<Outcome> {
        let outcome = self.shared.block_on(self.lock.try_acquire())?;
        Ok(self.outcome(outcome))
    }

    /// Waits for the lock. See [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// Bad terms, or the store can't say.
    pub fn acquire(&self) -> Result<Outcome> {
        let outcome = self.shared.block_on(self.lock.acquire())?;
        Ok(self.outcome(outcome))
    }

    /// Runs `job` under the lock: waits for it as [`acquire`](Self::acquire) does, and releases it whatever way the job
    /// ends, a panic included. A tick or key is done when the job has returned; see [`try_run`](Self::try_run) for one
    /// that may fail.
    ///
    /// A job is not stopped from outside. If the lock is lost while it runs, it goes on until it returns: a long one asks
    /// [`Guard::loss`] between its steps and gives up. What it returns then is dropped, the answer is [`Ran::Lost`], and
    /// its tick counts as failed.
    ///
    /// ```no_run
    /// # fn demo(locks: leasehold::blocking::Locks) -> leasehold::Result<()> {
    /// use leasehold::Ran;
    ///
    /// let ran = locks.lock("billing").run(|guard| {
    ///     for customer in 0..1000 {
    ///         if guard.loss().is_some() {
    ///             break;
    ///         }
    ///         // … the bill of this customer, with guard.token() …
    ///     }
    /// })?;
    /// if let Ran::Lost(reason) = ran { println!("not all was billed: {reason}") }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire). A release that fails after the job is retried in the background and hides
    /// nothing.
    pub fn run<T>(&self, job: impl FnOnce(&Guard) -> T) -> Result<Ran<T>> {
        self.run_and_judge(job, |_| true)
    }

    /// As [`run`](Self::run), for a job that may fail: a tick or key is done only if the job returned `Ok`.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire). The job's own error comes back in [`Ran::Done`].
    pub fn try_run<T, E>(&self, job: impl FnOnce(&Guard) -> Result<T, E>) -> Result<Ran<Result<T, E>>> {
        self.run_and_judge(job, Result::is_ok)
    }

    fn run_and_judge<T>(&self, job: impl FnOnce(&Guard) -> T, is_done: impl FnOnce(&T) -> bool) -> Result<Ran<T>> {
        let guard = match self.acquire()? {
            Outcome::Acquired(guard) => guard,
            Outcome::Contended(holding) => return Ok(Ran::Contended(holding)),
            Outcome::NotDue(why) => return Ok(Ran::NotDue(why)),
        };
        if let Some(reason) = guard.loss() {
            let _ = guard.not_started();
            return Ok(Ran::Lost(reason));
        }
        let done = job(&guard);
        if let Some(reason) = guard.loss() {
            let _ = guard.release();
            return Ok(Ran::Lost(reason));
        }
        let _ = if is_done(&done) { guard.complete() } else { guard.release() };
        Ok(Ran::Done(done))
    }

    pub(super) fn into_parts(self) -> (crate::Lock, Arc<Shared>) {
        (self.lock, self.shared)
    }

    fn outcome(&self, outcome: crate::Outcome) -> Outcome {
        outcome.map(|guard| Guard::new(guard, Arc::clone(&self.shared)))
    }
}
