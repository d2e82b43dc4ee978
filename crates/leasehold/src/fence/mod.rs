//! Fences: what a holder that was paused for too long can't get past.
//!
//! A lock can't help a process that is stopped between asking "is it still mine?" and its write. What is written to
//! can: it refuses the write of whoever is the holder no longer, in the transaction of the write itself. There are two
//! ways.
//!
//! | the lease is | use | what holds the next one up |
//! |---|---|---|
//! | in the database that the job writes to, or in one that the same transaction can reach | [`Guard::fence`] | nobody is granted the lock from the fence to the commit |
//! | anywhere else | `register_fence` before the job starts, `fenced` in its transaction | the resource knows the largest token, and refuses smaller ones |
//!
//! Both fail with [`ErrorKind::Stale`]: let `?` carry it out of the transaction, which is rolled
//! back when it is dropped. A module for each client of a database has what belongs to it, behind a feature of its own.
//!
//! # Exactly once
//!
//! A [tick](crate::Lock::tick) or a [key](crate::Locks::once) that is to be tried again after a failure
//! ([`retry_failed`](crate::Lock::retry_failed)) is done at least once: a process that dies between the commit of its work and the word
//! that it is done leaves the tick open, and the work is done again. [`Guard::complete_in`] says that word in the transaction of the
//! work: both are there or neither is, and what the transaction has written is written exactly once.
//!
//! | what happens | the work | the tick |
//! |---|---|---|
//! | the process dies before the commit; the transaction is rolled back | not done | open: somebody else begins it again |
//! | the process dies after it | done | closed: nobody does |
//! | the commit was sent and not answered | done or not | closed or open: whoever comes next is told which |
//! | the process was paused, and another has the lock or the tick | not done: [`Stale`](crate::ErrorKind::Stale) | the other's |
//!
//! After a commit that was not answered, don't guess. Do the whole transaction again under the same guard: if the first one was
//! committed, `complete_in` fails with `Stale`; it waits for one that is still open. Or release the guard and claim the tick again: who is told
//! [`NotDue::Claimed`](crate::NotDue::Claimed), not `unfinished`, knows that it is done, and who is granted it that it is not, for nobody is while
//! that transaction is open. `leasehold_schedule` does both.
//!
//! It is about what stands in the transaction. A mail that was sent meanwhile is not.

#[cfg(feature = "fence-rusqlite")]
pub mod rusqlite;
#[cfg(feature = "fence-sqlx-mysql")]
pub mod sqlx_mysql;
#[cfg(feature = "fence-tokio-postgres")]
pub mod tokio_postgres;

use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::guard::Guard;
use crate::hold::LossReason;
use crate::tick::Tick;

impl Guard {
    /// Makes the open transaction `tx` one of this holder only: it fails if the lock is ours no longer, and if it
    /// doesn't, nobody else is granted the lock before the transaction has ended, however long this process is paused.
    ///
    /// `tx` is a transaction of one of the clients in [`fence`](crate::fence), and there is said when it is best called
    /// and what it holds up meanwhile. The fence that it answers borrows the guard, so that it can't be released while
    /// the transaction is open.
    ///
    /// # Errors
    /// - `Stale`: the lock is ours no longer, or the transaction looks at a time before it was. The transaction must be rolled back, which dropping it does.
    /// - `Invalid`: the lease is in no database that the transaction can reach.
    /// - Transient ones: the database was busy. Roll back, and do the whole transaction again.
    pub fn fence<'guard, T: OpenTransaction<'guard>>(&'guard self, tx: T) -> T::Answer {
        tx.fence(self)
    }

    /// Closes this holder's tick, or key, in the open transaction `tx`, under its [`fence`](Self::fence): with the commit the work
    /// is done whatever becomes of this process, and nobody does it again; if the transaction is rolled back, nothing has happened. So what it
    /// writes is written exactly once, if the tick is to be tried again after a failure ([`retry_failed`](crate::Lock::retry_failed)).
    ///
    /// Where in the transaction it is best called is said in [`fence`](crate::fence), as of the fence. Commit soon after it: who
    /// else says that the tick is done waits for a transaction that is open. Rolled back to a savepoint before it, it is undone.
    /// Once it is committed, give the guard back as always: [`complete`](Self::complete) and [`release`](Self::release) find
    /// nothing left to close, and free the lock. A key is remembered from then on; from its claim on, if the process dies first.
    ///
    /// # Errors
    /// - `Stale`: the lock is ours no longer; or the tick isn't, for another has it or it is closed: by a transaction before this one whose
    ///   commit was not answered, perhaps. The transaction must be rolled back, which dropping it does.
    /// - `Invalid`: the lease is in no database that the transaction can reach, or it is held for no tick and no key. In SQLite also: other
    ///   files might be written in the same transaction.
    /// - Transient ones: the database was busy. Roll back, and do the whole transaction again.
    pub fn complete_in<'guard, T: OpenTransaction<'guard>>(&'guard self, tx: T) -> T::Answer {
        tx.complete(self)
    }

    /// What is to be closed.
    fn tick_to_complete(&self) -> Result<Tick> {
        self.tick().ok_or_else(|| {
            Error::invalid(format!(
                "the lock {} is held for no tick and no key, so there is nothing to complete: claim it with Lock::tick or \
                 Locks::once, or call fence",
                self.name()
            ))
        })
    }

    /// From here on the tick may be closed: the transaction may be committed.
    fn begins_to_complete(&self) {
        self.may_be_complete.store(true, Ordering::Release);
    }

    /// The lock is ours, and there is nothing of ours to close.
    fn not_open(&self, tick: Tick) -> Error {
        let message = format!(
            "{tick} of {} is not open for this holder: another has it by now, or it is done, perhaps by an earlier transaction of \
             this holder; roll the transaction back",
            self.name()
        );
        self.refused(Error::new(ErrorKind::Stale, message))
    }

    /// A fence is of no use to a guard that is valid no longer. Asks nobody.
    fn check_still_valid(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        Err(self.stale(&self.loss().unwrap_or(LossReason::Expired)))
    }

    /// The store was seen to have the lease no longer: the same as if a renewal had been told so.
    fn found_gone(&self) -> Error {
        self.hold.die();
        if self.hold.tell(LossReason::Gone) {
            let (name, holder) = (&self.hold.key.name, self.hold.key.holder);
            self.client.observe(&Event::Lost { name, holder, reason: &LossReason::Gone });
        }
        self.stale(&LossReason::Gone)
    }

    /// A transaction that looks at the store as it once was can't say whose the lock is now.
    #[cfg(any(feature = "fence-sqlx-mysql", feature = "fence-tokio-postgres"))]
    fn not_seen_as_ours(&self) -> Error {
        let message = format!(
            "the transaction began to look before the lock {} was had, or another has it by now: roll it back, and fence \
             first in the next one",
            self.name()
        );
        self.refused(Error::new(ErrorKind::Stale, message))
    }

    fn stale(&self, reason: &LossReason) -> Error {
        let message = format!("the lock {} is ours no longer ({reason}): roll the transaction back", self.name());
        self.refused(Error::new(ErrorKind::Stale, message))
    }

    /// Told of each transaction that a fence has refused.
    fn refused(&self, error: Error) -> Error {
        self.client.observe(&Event::Stale { name: &self.hold.key.name, holder: self.hold.key.holder, error: &error });
        error
    }
}

/// A transaction, open in one of the clients that fences are made for: what [`Guard::fence`] and [`Guard::complete_in`]
/// take. Implemented here only.
pub trait OpenTransaction<'guard>: sealed::Sealed {
    /// `Result<Fence<'guard>>`, or a future of that where the client is asynchronous.
    type Answer;

    /// Puts the fence into it.
    #[doc(hidden)]
    fn fence(self, guard: &'guard Guard) -> Self::Answer;

    /// Puts the fence into it, and closes the guard's tick.
    #[doc(hidden)]
    fn complete(self, guard: &'guard Guard) -> Self::Answer;
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;
    use std::sync::Arc;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::Locks;
    use crate::stores::Memory;

    /// A transaction of a client that has to be waited for, and which it wants to itself meanwhile.
    #[derive(Default)]
    struct Asynchronous {
        asked: usize,
    }

    struct Fence<'guard>(PhantomData<&'guard Guard>);

    impl<'guard: 'tx, 'tx> OpenTransaction<'guard> for &'tx mut Asynchronous {
        type Answer = BoxFuture<'tx, Result<Fence<'guard>>>;

        fn fence(self, guard: &'guard Guard) -> Self::Answer {
            Box::pin(async move {
                guard.check_still_valid()?;
                self.asked += 1;
                Ok(Fence(PhantomData))
            })
        }

        fn complete(self, guard: &'guard Guard) -> Self::Answer {
            Box::pin(async move {
                guard.tick_to_complete()?;
                guard.begins_to_complete();
                self.fence(guard).await
            })
        }
    }

    impl sealed::Sealed for &mut Asynchronous {}

    #[tokio::test]
    async fn an_asynchronous_client_fits_the_same_method() {
        let lock = Locks::over(Arc::new(Memory::default())).lock("job");
        let guard = lock.try_acquire().await.unwrap().guard().unwrap();
        let mut tx = Asynchronous::default();
        let Fence(_) = guard.fence(&mut tx).await.unwrap();
        assert_eq!(tx.asked, 1, "it can be committed: the fence keeps the guard, not the transaction");
        guard.release().await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_for_no_tick_has_nothing_to_complete() {
        let locks = Locks::over(Arc::new(Memory::default()));
        let guard = locks.lock("job").try_acquire().await.unwrap().guard().unwrap();
        let error = guard.complete_in(&mut Asynchronous::default()).await.map(|_| ()).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("Lock::tick"), "{error}");
        assert!(!guard.may_be_complete());
        let guard =
            locks.once("invoice-1", std::time::Duration::from_secs(3600)).try_acquire().await.unwrap().guard().unwrap();
        let Fence(_) = guard.complete_in(&mut Asynchronous::default()).await.unwrap();
        assert!(guard.may_be_complete());
    }
}
