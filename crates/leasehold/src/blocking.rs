//! The same locks for code without async.
//!
//! Each type here wraps the one of the same name one level up; see there for what it promises. Don't call
//! these from inside an async runtime: a blocking call there stops the runtime's thread (and panics).
//!
//! ```no_run
//! use leasehold::blocking::{Locks, Outcome};
//!
//! # fn main() -> leasehold::Result<()> {
//! let locks = Locks::connect("sqlite:///var/lib/leasehold/locks.db")?;
//! if let Outcome::Acquired(guard) = locks.lock("nightly-backup").try_acquire()? {
//!     // … the work …
//!     guard.release()?;
//! }
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "fence-rusqlite")]
use crate::fence::OpenTransaction;
use crate::guard::{LossReason, Released};
use crate::lease::{FencingToken, HolderId, Holding, Revoke};
use crate::lock::Wait;
use crate::locks::LocksBuilder;
use crate::tick::Tick;

/// A client of one store, for code without async. Cheap to clone.
///
/// # On drop
/// The last clone waits until what dropped guards left to be released has been, for 5 s at the most: a program may
/// end right after. Inside an async runtime (`spawn_blocking` included) it waits for nothing.
#[derive(Clone, Debug)]
pub struct Locks {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    locks: crate::Locks,
    /// There until the drop, which has to take it by value.
    runtime: Option<Runtime>,
}

impl Shared {
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("taken by the drop only").block_on(future)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let locks = self.locks.clone();
        let finish = move || drop(runtime.block_on(async { tokio::time::timeout(LAST_WORDS, locks.shutdown()).await }));
        match tokio::runtime::Handle::try_current() {
            Err(error) if error.is_missing_context() => finish(),
            // Inside a runtime, or in a thread that is ending, nothing can be waited for here.
            _ => drop(std::thread::Builder::new().spawn(finish)),
        }
    }
}

/// How long the last clone waits for releases that are under way.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A named lock with its terms, for code without async.
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    lock: crate::Lock,
    shared: Arc<Shared>,
}

/// A held lock, for code without async. Dropping it releases it in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    guard: crate::Guard,
    shared: Arc<Shared>,
}

/// How an acquisition ended.
pub type Outcome = crate::Outcome<Guard>;

impl Locks {
    /// See [`crate::Locks::connect`].
    ///
    /// # Errors
    /// The URL is wrong, or the store can't be opened.
    pub fn connect(url: &str) -> Result<Self> {
        Self::build(|| crate::Locks::builder().connect(url))
    }

    /// A client with the settings of `builder`.
    ///
    /// # Errors
    /// The URL is wrong, or the store can't be opened.
    pub fn with(builder: LocksBuilder, url: &str) -> Result<Self> {
        Self::build(|| builder.connect(url))
    }

    fn build(connect: impl FnOnce() -> Result<crate::Locks>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            Error::new(ErrorKind::Internal, "the operating system gives us no event queue").with_source(error)
        })?;
        let locks = {
            let _inside = runtime.enter();
            connect()?
        };
        Ok(Self { shared: Arc::new(Shared { locks, runtime: Some(runtime) }) })
    }

    /// See [`crate::Locks::lock`].
    pub fn lock(&self, name: &str) -> Lock {
        Lock { lock: self.shared.locks.lock(name), shared: Arc::clone(&self.shared) }
    }

    /// See [`crate::Locks::once`].
    pub fn once(&self, key: &str, keep: Duration) -> Lock {
        Lock { lock: self.shared.locks.once(key, keep), shared: Arc::clone(&self.shared) }
    }

    /// See [`crate::Locks::time`].
    ///
    /// # Errors
    /// The store can't say.
    pub fn time(&self) -> Result<Duration> {
        self.shared.block_on(self.shared.locks.time())
    }

    /// See [`crate::Locks::inspect`].
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub fn inspect(&self, name: &str) -> Result<Option<Holding>> {
        self.shared.block_on(self.shared.locks.inspect(name))
    }

    /// See [`crate::Locks::list`].
    ///
    /// # Errors
    /// The store can't say.
    pub fn list(&self) -> Result<Vec<Holding>> {
        self.shared.block_on(self.shared.locks.list())
    }

    /// See [`crate::Locks::revoke`].
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub fn revoke(&self, name: &str, how: Revoke) -> Result<Option<Holding>> {
        self.shared.block_on(self.shared.locks.revoke(name, how))
    }
}

impl Lock {
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

    fn outcome(&self, outcome: crate::Outcome) -> Outcome {
        outcome.map(|guard| Guard { guard, shared: Arc::clone(&self.shared) })
    }
}

impl Guard {
    /// See [`crate::Guard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// See [`crate::Guard::holder`].
    #[must_use]
    pub fn holder(&self) -> HolderId {
        self.guard.holder()
    }

    /// See [`crate::Guard::tick`].
    #[must_use]
    pub fn tick(&self) -> Option<Tick> {
        self.guard.tick()
    }

    /// See [`crate::Guard::attempt`].
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.guard.attempt()
    }

    /// See [`crate::Guard::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// See [`crate::Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Why the holder has to stop; none as long as it hasn't. Ask between steps of the work.
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.guard.loss()
    }

    /// Blocks until the holder has to stop. See [`crate::Guard::lost`].
    #[must_use]
    pub fn lost(&self) -> LossReason {
        self.shared.block_on(self.guard.lost())
    }

    /// See [`crate::Guard::touch`].
    pub fn touch(&self) {
        self.guard.touch();
    }

    /// See [`crate::Guard::fence`].
    ///
    /// # Errors
    /// The lock is ours no longer, or the transaction can't be fenced.
    #[cfg(feature = "fence-rusqlite")]
    pub fn fence<'guard, T: OpenTransaction<'guard>>(&'guard self, tx: T) -> T::Answer {
        self.guard.fence(tx)
    }

    /// Gives the lock back; of a tick or key, the work is done. See [`crate::Guard::complete`].
    ///
    /// # Errors
    /// The store can't say; it goes on being told in the background.
    pub fn complete(self) -> Result<Released> {
        let Self { guard, shared } = self;
        shared.block_on(guard.complete())
    }

    /// Gives the lock back; the work was never begun. See [`crate::Guard::not_started`].
    ///
    /// # Errors
    /// The store can't say; it goes on being told in the background.
    pub fn not_started(self) -> Result<Released> {
        let Self { guard, shared } = self;
        shared.block_on(guard.not_started())
    }

    /// Gives the lock back. See [`crate::Guard::release`].
    ///
    /// # Errors
    /// The store can't say; the release goes on being tried in the background.
    pub fn release(self) -> Result<Released> {
        let Self { guard, shared } = self;
        shared.block_on(guard.release())
    }
}
