//! What a job does when it is run.

use std::error::Error;

use futures_util::future::BoxFuture;
use leasehold::{FencingToken, Guard, Tick};

/// Why a run failed, for people.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One run of a job, to whoever does it.
#[derive(Debug)]
pub struct Run {
    pub(crate) job: String,
    pub(crate) tick: Tick,
    pub(crate) guard: Guard,
    pub(crate) attempt: u32,
}

impl Run {
    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// For which tick. Of a run that was asked for: when it was.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// How often this tick has been begun, this time included: by this node, which tries again, or by one that died.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Larger than that of every earlier run of this job: for a resource that refuses whoever comes with a smaller one.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// What keeps other nodes from running it at the same time. When it is [lost](Guard::lost) the work is dropped.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Whether it did what it should, or why not.
    pub result: Result<(), Failure>,
    /// What it wrote last, for the ledger.
    pub output: String,
}

impl From<Result<(), Failure>> for Ended {
    fn from(result: Result<(), Failure>) -> Self {
        Self { result, output: String::new() }
    }
}

/// What a job does, where a function does not say it all: see [`Job::of`](crate::Job::of).
pub trait Work: Send + Sync + 'static {
    /// Does it once.
    ///
    /// # Cancel safety
    /// Where the lock is lost, a limit is over or the scheduler is stopped, the future is dropped: what it has started must
    /// end with it, at once.
    fn run<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Ended>;
}

/// A function as work.
pub(crate) struct Function<F>(pub F);

impl<F> Work for Function<F>
where
    F: for<'a> Fn(&'a Run) -> BoxFuture<'a, Result<(), Failure>> + Send + Sync + 'static,
{
    fn run<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Ended> {
        let work = (self.0)(run);
        Box::pin(async { work.await.into() })
    }
}
