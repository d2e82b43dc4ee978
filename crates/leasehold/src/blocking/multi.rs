//! Several locks at once, for code without async.

use std::sync::Arc;
use std::time::Duration;

use super::{Guard, Lock, Shared};
use crate::error::{Error, Result};
use crate::guard::{LossReason, Released};
use crate::lock::{Outcome, Wait};
use crate::name::LockName;

/// Several locks that are held together, for code without async. See [`crate::MultiLock`].
///
/// ```no_run
/// # fn demo(locks: leasehold::blocking::Locks) -> leasehold::Result<()> {
/// use std::time::Duration;
/// use leasehold::Wait;
/// use leasehold::blocking::MultiLock;
///
/// let both = MultiLock::of([locks.lock("stock"), locks.lock("orders")])?;
/// if let Some(guard) = both.wait(Wait::For(Duration::from_secs(5))).acquire()?.guard() {
///     // … move something from the one to the other …
///     guard.release()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct MultiLock {
    locks: crate::MultiLock,
    shared: Arc<Shared>,
}

/// Several held locks, for code without async. Dropping it releases them all in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: Vec<Guard>,
    shared: Arc<Shared>,
}

impl MultiLock {
    /// These locks together, which have to be of one client (or of clones of it). See [`crate::MultiLock::of`].
    ///
    /// # Errors
    /// There are none, two have the same name, they are of several clients, or a name or term is bad.
    pub fn of(locks: impl IntoIterator<Item = Lock>) -> Result<Self> {
        let (locks, clients): (Vec<_>, Vec<_>) = locks.into_iter().map(Lock::into_parts).unzip();
        let all = crate::MultiLock::of(locks)?;
        let shared = Arc::clone(&clients[0]); // Of none there is no `MultiLock`.
        // What others have connected is served by their own threads of work, which stand still meanwhile.
        if clients.iter().any(|other| !Arc::ptr_eq(other, &shared)) {
            return Err(Error::invalid("the locks are of several clients; make them all of one, or of clones of it"));
        }
        Ok(Self { locks: all, shared })
    }

    /// See [`crate::MultiLock::wait`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.locks = self.locks.wait(wait);
        self
    }

    /// Asks once for each. See [`crate::MultiLock::try_acquire`].
    ///
    /// # Errors
    /// Bad terms, or the store can't say.
    pub fn try_acquire(&self) -> Result<Outcome<MultiGuard>> {
        let outcome = self.shared.block_on(self.locks.try_acquire())?;
        Ok(self.outcome(outcome))
    }

    /// Waits for all of them. See [`crate::MultiLock::acquire`].
    ///
    /// # Errors
    /// Bad terms, or the store can't say.
    pub fn acquire(&self) -> Result<Outcome<MultiGuard>> {
        let outcome = self.shared.block_on(self.locks.acquire())?;
        Ok(self.outcome(outcome))
    }

    fn outcome(&self, outcome: Outcome<crate::MultiGuard>) -> Outcome<MultiGuard> {
        let guard = |guard| Guard::new(guard, Arc::clone(&self.shared));
        outcome.map(|all| MultiGuard {
            guards: all.into_guards().into_iter().map(guard).collect(),
            shared: Arc::clone(&self.shared),
        })
    }
}

impl MultiGuard {
    /// The guards of the single locks, in order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The guard of this name, if it is among them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Guard> {
        self.guards.iter().find(|guard| guard.name().as_str() == name)
    }

    /// Whether all of them may still be relied on.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }

    /// How long all of them may be relied on if no renewal comes any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Why the holder has to stop, and for which of them; none as long as it hasn't. Ask between steps of the work.
    #[must_use]
    pub fn loss(&self) -> Option<(LockName, LossReason)> {
        self.guards.iter().find_map(|guard| Some((guard.name().clone(), guard.loss()?)))
    }

    /// Reports progress for all of them. See [`crate::Guard::touch`].
    pub fn touch(&self) {
        self.guards.iter().for_each(Guard::touch);
    }

    /// Gives all of them back, at the same time. See [`crate::MultiGuard::release`].
    ///
    /// # Errors
    /// The store can't say, of one at least; the release goes on being tried in the background.
    pub fn release(self) -> Result<Released> {
        self.end(crate::MultiGuard::release)
    }

    /// Gives all of them back; their ticks are done. See [`crate::MultiGuard::complete`].
    ///
    /// # Errors
    /// The store can't say, of one at least; it goes on being told in the background.
    pub fn complete(self) -> Result<Released> {
        self.end(crate::MultiGuard::complete)
    }

    /// Gives all of them back; the work was never begun. See [`crate::MultiGuard::not_started`].
    ///
    /// # Errors
    /// The store can't say, of one at least; it goes on being told in the background.
    pub fn not_started(self) -> Result<Released> {
        self.end(crate::MultiGuard::not_started)
    }

    fn end<F: Future<Output = Result<Released>>>(self, how: impl FnOnce(crate::MultiGuard) -> F) -> Result<Released> {
        let guards = self.guards.into_iter().map(Guard::into_inner).collect();
        self.shared.block_on(how(crate::MultiGuard::of_guards(guards)))
    }
}
