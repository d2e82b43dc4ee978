//! Watching a lock, for code without async.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::error::Result;
use crate::lease::Holding;
use crate::name::LockName;

/// Looks at a lock, whoever holds it, and tells each change: an iterator without end. Made by
/// [`Locks::watch`](super::Locks::watch); see [`crate::Watching`] for what counts as a change and how soon it is told.
///
/// It looks only while it is asked. What began and ended in between is not seen, as with the async one.
///
/// ```no_run
/// # fn demo(locks: leasehold::blocking::Locks) -> leasehold::Result<()> {
/// for change in locks.watch("nightly-backup")? {
///     match change? {
///         Some(holding) => println!("{} {} waiting", holding.label, holding.waiting),
///         None => println!("free"),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Watching {
    watching: crate::Watching,
    shared: Arc<Shared>,
}

impl Watching {
    pub(super) fn new(watching: crate::Watching, shared: Arc<Shared>) -> Self {
        Self { watching, shared }
    }

    /// The lock's name.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.watching.name()
    }

    /// As [`next`](Iterator::next), but none if nothing has changed within this time. The change after it is not missed:
    /// the next call tells it.
    ///
    /// # Errors
    /// As for [`crate::Watching::next`].
    pub fn next_within(&mut self, most: Duration) -> Result<Option<Option<Holding>>> {
        let Self { watching, shared } = self;
        shared.block_on(async { tokio::time::timeout(most, watching.next()).await }).ok().transpose()
    }
}

/// What [`crate::Watching::next`] tells, one after the other; it never ends. What can't pass, as denied access, is told
/// each time: break the loop then.
impl Iterator for Watching {
    type Item = Result<Option<Holding>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { watching, shared } = self;
        Some(shared.block_on(watching.next()))
    }
}
