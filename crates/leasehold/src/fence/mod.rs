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

#[cfg(feature = "fence-rusqlite")]
pub mod rusqlite;
#[cfg(feature = "fence-sqlx-mysql")]
pub mod sqlx_mysql;
#[cfg(feature = "fence-tokio-postgres")]
pub mod tokio_postgres;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::guard::Guard;
use crate::hold::LossReason;

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
        Error::new(ErrorKind::Stale, message)
    }

    fn stale(&self, reason: &LossReason) -> Error {
        let message = format!("the lock {} is ours no longer ({reason}): roll the transaction back", self.name());
        Error::new(ErrorKind::Stale, message)
    }
}

/// A transaction, open in one of the clients that fences are made for: what [`Guard::fence`] takes. Implemented here
/// only.
pub trait OpenTransaction<'guard>: sealed::Sealed {
    /// `Result<Fence<'guard>>`, or a future of that where the client is asynchronous.
    type Answer;

    /// Puts the fence into it.
    #[doc(hidden)]
    fn fence(self, guard: &'guard Guard) -> Self::Answer;
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
}
