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
//!
//! Nothing here stops code that runs: where a lock is lost, the async side drops the job's future, and here the job has to
//! ask [`Guard::loss`] between its steps.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::lease::{HolderId, Holding, Revoke, Waiter};
use crate::locks::LocksBuilder;
use crate::name::LockName;
use crate::store::Store;

mod guard;
mod lock;
mod multi;
mod watching;

pub use self::guard::Guard;
pub use self::lock::{Lock, Outcome};
pub use self::multi::{MultiGuard, MultiLock};
pub use self::watching::Watching;

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

    /// See [`crate::Locks::over`]: for a store that no URL names, as a fallback.
    ///
    /// # Errors
    /// The operating system gives us no event queue.
    pub fn over(store: Arc<dyn Store>) -> Result<Self> {
        Self::build(|| Ok(crate::Locks::over(store)))
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
        Lock::new(self.shared.locks.lock(name), Arc::clone(&self.shared))
    }

    /// See [`crate::Locks::once`].
    pub fn once(&self, key: &str, keep: Duration) -> Lock {
        Lock::new(self.shared.locks.once(key, keep), Arc::clone(&self.shared))
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

    /// See [`crate::Locks::queue`].
    ///
    /// # Errors
    /// The store can't say.
    pub fn queue(&self, name: &LockName) -> Result<Vec<Waiter>> {
        self.shared.block_on(self.shared.locks.queue(name))
    }

    /// See [`crate::Locks::revoke`].
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub fn revoke(&self, name: &str, how: Revoke) -> Result<Option<Holding>> {
        self.shared.block_on(self.shared.locks.revoke(name, how))
    }

    /// Ends one holder's hold of a name that several may hold. See [`crate::Locks::revoke_one`].
    ///
    /// # Errors
    /// The name is not legal, or the store can't say.
    pub fn revoke_one(&self, name: &str, holder: HolderId, how: Revoke) -> Result<Option<Holding>> {
        self.shared.block_on(self.shared.locks.revoke_one(name, holder, how))
    }

    /// See [`crate::Locks::reset_marks`].
    ///
    /// # Errors
    /// The name is not legal, or the store can't do it.
    pub fn reset_marks(&self, name: &str) -> Result<bool> {
        self.shared.block_on(self.shared.locks.reset_marks(name))
    }

    /// How a name stands, each time that this changes. See [`crate::Locks::watch`].
    ///
    /// # Errors
    /// The name is not legal.
    pub fn watch(&self, name: &str) -> Result<Watching> {
        Ok(Watching::new(self.shared.locks.watch(name)?, Arc::clone(&self.shared)))
    }

    /// What an operator should know about the store. See [`crate::Locks::diagnose`].
    ///
    /// # Errors
    /// The store can't say.
    pub fn diagnose(&self) -> Result<Vec<Finding>> {
        self.shared.block_on(self.shared.locks.diagnose())
    }
}
