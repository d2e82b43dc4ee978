//! A held lock, for code without async.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::error::Result;
#[cfg(feature = "fence-rusqlite")]
use crate::fence::OpenTransaction;
use crate::guard::{LossReason, Released};
use crate::lease::{FencingToken, HolderId};
use crate::name::LockName;
use crate::tick::Tick;

/// A held lock, for code without async. Dropping it releases it in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    guard: crate::Guard,
    shared: Arc<Shared>,
}

impl Guard {
    pub(super) fn new(guard: crate::Guard, shared: Arc<Shared>) -> Self {
        Self { guard, shared }
    }

    pub(super) fn into_inner(self) -> crate::Guard {
        self.guard
    }

    /// See [`crate::Guard::name`].
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.guard.name()
    }

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

    /// See [`crate::Guard::complete_in`].
    ///
    /// # Errors
    /// The lock or the tick is ours no longer, or the transaction can't complete it.
    #[cfg(feature = "fence-rusqlite")]
    pub fn complete_in<'guard, T: OpenTransaction<'guard>>(&'guard self, tx: T) -> T::Answer {
        self.guard.complete_in(tx)
    }

    /// See [`crate::Guard::may_be_complete`].
    #[must_use]
    pub fn may_be_complete(&self) -> bool {
        self.guard.may_be_complete()
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

    /// Gives the lock back; there is nothing to do for this tick or key. See [`crate::Guard::not_needed`].
    ///
    /// # Errors
    /// The store can't say; it goes on being told in the background.
    pub fn not_needed(self) -> Result<Released> {
        let Self { guard, shared } = self;
        shared.block_on(guard.not_needed())
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
