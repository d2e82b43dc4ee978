//! What a job does when it is run.

use std::error::Error;
use std::fmt;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
#[cfg(any(feature = "fence-rusqlite", feature = "fence-sqlx-mysql", feature = "fence-tokio-postgres"))]
use leasehold::fence::OpenTransaction;
use leasehold::{FencingToken, Guard, LossReason, Tick};
use tokio::sync::watch;

use crate::ending::Ending;

/// Why a run failed, for people.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One run of a job, to whoever does it.
#[derive(Debug)]
pub struct Run {
    pub(crate) job: String,
    pub(crate) tick: Tick,
    pub(crate) guard: Guard,
    pub(crate) attempt: u32,
    /// How it failed last, before it was tried again.
    pub(crate) failed: Option<String>,
    pub(crate) ending: watch::Receiver<Ending>,
}

/// Why a run has to end before it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// The lock was lost, or the [time limit](crate::Job::time_limit) is over ([`LossReason::HeldTooLong`]).
    Lost(LossReason),
    /// The scheduler was stopped, and its [grace](crate::Scheduler::grace) is over.
    Stopped,
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

    /// What keeps other nodes from running it at the same time.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Resolves when the work has to end before it is done, and says why. Where the lock was lost, it has to have ended
    /// [`stop_grace`](crate::Job::stop_grace) later, when another node may get it.
    ///
    /// # Cancel safety
    /// Cancel safe, and may be called any number of times: it goes on resolving. What it says is what came first, or the
    /// loss where both have.
    pub async fn cut(&self) -> Cut {
        tokio::select! {
            biased;
            reason = self.guard.lost() => Cut::Lost(reason),
            () = Ending::Now.reached(&self.ending) => Cut::Stopped,
        }
    }

    /// Why the work has to end, if it has to.
    pub(crate) fn is_cut(&self) -> Option<Cut> {
        self.guard.loss().map(Cut::Lost).or_else(|| self.cut().now_or_never())
    }

    /// Says in the open transaction `tx` that the tick is done: with the commit it is, whatever becomes of this node; if the transaction
    /// is rolled back, nothing has happened. See [`Guard::complete_in`]; in [`fence`](leasehold::fence) is said where in the transaction
    /// it is best called.
    ///
    /// A run that has committed is done, also if it then fails, panics or is dropped: it is recorded as done, and not tried again. If it fails
    /// and the commit was not answered, the store is asked; nobody runs the tick again before it is known that nothing was committed.
    ///
    /// ```no_run
    /// use leasehold_schedule::{Failure, Job, Run, Schedule};
    ///
    /// # fn job() -> Result<Job, leasehold_schedule::ScheduleError> {
    /// async fn bill(run: &Run) -> Result<(), Failure> {
    ///     let (mut database, connection) = tokio_postgres::connect("postgres://jobs@db/jobs", tokio_postgres::NoTls).await?;
    ///     tokio::spawn(connection);
    ///     let tx = database.transaction().await?;
    ///     let completed = run.complete_in(&tx).await?;
    ///     tx.execute("insert into invoice select customer, sum(price) from orders group by customer", &[]).await?;
    ///     completed.commit(tx).await?;
    ///     Ok(())
    /// }
    ///
    /// let monthly = Schedule::parse("0 3 1 * *", Some("Europe/London"))?;
    /// Ok(Job::new("billing", monthly, |run| Box::pin(bill(run))).at_least_once(true))
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Guard::complete_in`]: with all of them roll back, which dropping the transaction does, and fail.
    #[cfg(any(feature = "fence-rusqlite", feature = "fence-sqlx-mysql", feature = "fence-tokio-postgres"))]
    pub fn complete_in<'run, T: OpenTransaction<'run>>(&'run self, tx: T) -> T::Answer {
        self.guard.complete_in(tx)
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(reason) => reason.fmt(f),
            Self::Stopped => f.write_str("the scheduler was stopped"),
        }
    }
}

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Whether it did what it should, or why not. Work that was [cut](Run::cut) and says why not was lost or stopped, and has
    /// not failed; work that says that it did what it should is done, whatever it was told meanwhile.
    pub result: Result<(), Failure>,
    /// What it wrote last, for the ledger.
    pub output: String,
    /// What of it may be at work still.
    pub left: Left,
    /// Whether something else than the work itself, and than [what it is told](Run::cut), has ended it: a process that it needs was
    /// killed, say. With a result that says why, it has not failed but died: where it is to run at least once its tick stays open.
    pub died: bool,
}

/// What may be at work still of a run that has ended: this decides what becomes of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// It was never begun, for certain: another node may run the tick in its place, even where it is run at most once.
    NotBegun,
    /// Nothing; or only what was left alone on purpose.
    Nothing,
    /// Something, for all that is known: the lock is not given back, and ends by itself with its TTL. It is not tried again.
    Perhaps,
}

impl Ended {
    /// With what it wrote last.
    #[must_use]
    pub fn output(self, output: String) -> Self {
        Self { output, ..self }
    }

    /// With what may be at work still.
    #[must_use]
    pub fn left(self, left: Left) -> Self {
        Self { left, ..self }
    }

    /// Ended by something else than itself, see [`died`](Self::died).
    #[must_use]
    pub fn died(self, died: bool) -> Self {
        Self { died, ..self }
    }
}

impl From<Result<(), Failure>> for Ended {
    /// One that wrote nothing, and left nothing at work.
    fn from(result: Result<(), Failure>) -> Self {
        Self { result, output: String::new(), left: Left::Nothing, died: false }
    }
}

/// What a job does, where a function does not say it all: see [`Job::of`](crate::Job::of).
pub trait Work: Send + Sync + 'static {
    /// Does it once, and comes back when nothing of it is at work any more: then the lock is given back.
    ///
    /// It is told to end by [`Run::cut`], and waited for: a scheduler never drops it, for what has begun may need time to
    /// end, and until then nobody else must begin.
    ///
    /// # Cancel safety
    /// Dropped it is only with the scheduler's own future, and its lock is given back at once: what it has started must
    /// end before the drop comes back.
    fn run<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Ended>;
}

/// A function as work: a future that is dropped when it has to end.
pub(crate) struct Function<F>(pub F);

impl<F> Work for Function<F>
where
    F: for<'a> Fn(&'a Run) -> BoxFuture<'a, Result<(), Failure>> + Send + Sync + 'static,
{
    fn run<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, Ended> {
        let work = (self.0)(run);
        Box::pin(async move {
            tokio::select! {
                biased;
                cut = run.cut() => Err(cut.to_string().into()),
                result = work => result,
            }
            .into()
        })
    }
}
