//! Fences in transactions of [`rusqlite`].
//!
//! # With the locks in a SQLite file too
//!
//! The file of the locks is *attached* to the job's connection, under any name, or it has the job's tables in it. Then
//! [`Guard::fence`](crate::Guard::fence) comes **last**, and the commit right after it:
//!
//! ```
//! # use leasehold::{Locks, Outcome};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = |name: &str| dir.path().join(name).display().to_string();
//! # let (locks_db, jobs_db) = (path("locks.db"), path("jobs.db"));
//! let locks = Locks::connect(&format!("sqlite:{locks_db}")).await?;
//! let mut jobs = rusqlite::Connection::open(jobs_db)?;
//! jobs.execute("attach database ?1 as locks", [locks_db])?;
//! # jobs.execute_batch("create table report(day, total)")?;
//!
//! let Outcome::Acquired(guard) = locks.lock("nightly-report").try_acquire().await? else { return Ok(()) };
//! let tx = jobs.transaction()?;
//! tx.execute("insert into report values('2026-11-01', 42)", [])?; // … the long part …
//! guard.fence(&tx)?.commit(tx)?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! From the fence to the commit, the fence has the write lock of the locks' file: **every** other acquisition, renewal
//! and release in that file waits. Two syncs of the disk are fine, a computation is not. Before the fence nothing is
//! held up, *if* the transaction is a deferred one, as [`transaction`](::rusqlite::Connection::transaction) begins it:
//! an `IMMEDIATE` one takes the write locks of all attached files from its start. Where it must be immediate, attach
//! the file after it has begun.
//!
//! Job's tables in the locks' own file are for short transactions: each write there holds up the locks until its
//! commit. Begin these with `IMMEDIATE`; a deferred one that has read is refused at its first write if a lock was
//! renewed in between.
//!
//! # Exactly once
//!
//! [`Guard::complete_in`](crate::Guard::complete_in) is a fence that closes the tick, too, and comes last as well. The job's tables have
//! to be in the locks' own file: with write-ahead logs SQLite commits to several files one after the other, and a process that
//! is killed in between leaves the work done and its tick open. So other files must not be among the connection's databases, unless they were opened
//! read-only.
//!
//! ```
//! # use leasehold::{Locks, Outcome, Tick};
//! # use rusqlite::{Connection, TransactionBehavior};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let locks_db = dir.path().join("locks.db").display().to_string();
//! # let locks = Locks::connect(&format!("sqlite:{locks_db}")).await?;
//! # let tonight = Tick::from_unix_millis(locks.time().await?.as_millis() as i64).unwrap();
//! let lock = locks.lock("billing").tick(tonight).retry_failed(true);
//! let Outcome::Acquired(guard) = lock.try_acquire().await? else { return Ok(()) };
//! let mut jobs = Connection::open(locks_db)?;
//! # jobs.execute_batch("create table invoice(day, total)")?;
//! let tx = jobs.transaction_with_behavior(TransactionBehavior::Immediate)?;
//! tx.execute("insert into invoice values('2026-11-30', 42)", [])?; // … all of them …
//! guard.complete_in(&tx)?.commit(tx)?; // From here on nobody does it again.
//! guard.release().await?;
//! # let Outcome::NotDue(_) = lock.try_acquire().await? else { panic!("it is done") };
//! # Ok(()) }
//! ```
//!
//! # With the locks anywhere else
//!
//! ```
//! use leasehold::ErrorKind;
//! use leasehold::fence::rusqlite::{fenced, register_fence};
//! # use leasehold::FencingToken;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut jobs = rusqlite::Connection::open_in_memory()?;
//! # jobs.execute_batch("create table report(day, total)")?;
//! # let (ours, newer) = (FencingToken::new(41), FencingToken::new(42));
//! // First of all, with the guard's token: from here on no earlier holder gets through.
//! register_fence(&jobs, "report", ours)?;
//!
//! // In each transaction that writes:
//! let tx = jobs.transaction()?;
//! fenced(&tx, "report", ours)?;
//! tx.execute("insert into report values('2026-11-01', 42)", [])?;
//! tx.commit()?;
//! # register_fence(&jobs, "report", newer)?;
//! # let tx = jobs.transaction()?;
//! # assert_eq!(fenced(&tx, "report", ours).unwrap_err().kind(), ErrorKind::Stale);
//! # Ok(()) }
//! ```

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Savepoint, Transaction, params};

use super::OpenTransaction;
use super::sealed::Sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::lease::FencingToken;
use crate::name::Namespace;
use crate::store::{Database, Tables};
use crate::stores::sqlite::fence as lease;

/// Makes the table of the largest tokens, for those who write to it without this library.
pub const CREATE_FENCES: &str = "\
create table if not exists main.leasehold_fences(
    resource text primary key not null,
    token integer not null)";

/// Raises the largest token of the resource `?1` to `?2`, and is the comparison too: **no row changed** says that a
/// newer holder has been there. In one statement, so that the answer holds until the transaction ends. Both
/// [`register_fence`] and [`fenced`] are this.
pub const RAISE_FENCE: &str = "\
insert into main.leasehold_fences(resource, token) values(?1, ?2)
on conflict(resource) do update set token = excluded.token where leasehold_fences.token <= excluded.token";

/// A transaction that is the holder's alone until it ends. Made by [`Guard::fence`](crate::Guard::fence) and
/// [`Guard::complete_in`](crate::Guard::complete_in).
///
/// It borrows the guard: releasing it while the transaction is open doesn't compile.
///
/// ```compile_fail,E0505
/// # async fn job(guard: leasehold::Guard, tx: rusqlite::Transaction<'_>) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = guard.fence(&tx)?;
/// guard.release().await?; // error[E0505]: cannot move out of `guard` because it is borrowed
/// fence.commit(tx)?;
/// # Ok(()) }
/// ```
///
/// # On drop
/// Nothing happens: it is the transaction that stands, dropped fence or not, until it is committed or rolled back. A
/// guard that is released before that, on the same thread, waits for a transaction that waits for it: the release fails
/// after 5 s, goes on being tried in the background, and succeeds once the transaction has ended.
#[derive(Debug)]
#[must_use = "it is the transaction's end that ends it: commit through it, or keep it until then"]
pub struct Fence<'guard> {
    _guard: PhantomData<&'guard Guard>,
}

impl Fence<'_> {
    /// Commits the fenced transaction; nothing should come between the two.
    ///
    /// # Errors
    /// What SQLite says. As after any failed commit, it may have been committed all the same.
    pub fn commit(self, tx: Transaction<'_>) -> ::rusqlite::Result<()> {
        tx.commit()
    }
}

impl Drop for Fence<'_> {
    /// Nothing is to be done; but without this the guard would be borrowed to the last use only, not to the end.
    fn drop(&mut self) {}
}

impl<'guard> OpenTransaction<'guard> for &Transaction<'_> {
    type Answer = Result<Fence<'guard>>;

    fn fence(self, guard: &'guard Guard) -> Self::Answer {
        fence(self, guard)
    }

    fn complete(self, guard: &'guard Guard) -> Self::Answer {
        complete(self, guard)
    }
}

/// The fence is the whole transaction's: it stands even if the savepoint is rolled back. What was completed is open again then.
impl<'guard> OpenTransaction<'guard> for &Savepoint<'_> {
    type Answer = Result<Fence<'guard>>;

    fn fence(self, guard: &'guard Guard) -> Self::Answer {
        fence(self, guard)
    }

    fn complete(self, guard: &'guard Guard) -> Self::Answer {
        complete(self, guard)
    }
}

/// For transactions that were begun by hand.
impl<'guard> OpenTransaction<'guard> for &Connection {
    type Answer = Result<Fence<'guard>>;

    fn fence(self, guard: &'guard Guard) -> Self::Answer {
        fence(self, guard)
    }

    fn complete(self, guard: &'guard Guard) -> Self::Answer {
        complete(self, guard)
    }
}

impl Sealed for &Transaction<'_> {}
impl Sealed for &Savepoint<'_> {}
impl Sealed for &Connection {}

/// Where the guard's lease is.
fn tables(guard: &Guard) -> Result<(PathBuf, Namespace)> {
    let Some(Tables { database: Database::SqliteFile(file), namespace }) = guard.client.store.tables() else {
        return Err(Error::invalid(
            "the lock is in a store that a SQLite transaction can't look into; call fence::rusqlite::register_fence \
             before the job starts and fence::rusqlite::fenced in its transactions",
        ));
    };
    Ok((file, namespace))
}

fn fence<'guard>(db: &Connection, guard: &'guard Guard) -> Result<Fence<'guard>> {
    check_begun(db)?;
    let (file, namespace) = tables(guard)?;
    guard.check_still_valid()?;
    if !lease::holds(db, &file, &namespace, &guard.hold.key, guard.token())? {
        return Err(guard.found_gone());
    }
    Ok(Fence { _guard: PhantomData })
}

fn complete<'guard>(db: &Connection, guard: &'guard Guard) -> Result<Fence<'guard>> {
    let tick = guard.tick_to_complete()?;
    let (file, namespace) = tables(guard)?;
    lease::check_alone(db, &file)?;
    let fence = fence(db, guard)?;
    guard.begins_to_complete();
    if !lease::closes(db, &file, &namespace, &guard.hold.key, tick)? {
        return Err(guard.not_open(tick));
    }
    Ok(fence)
}

/// Says who may write to `resource` from now on: the holder with this token, and later ones. To be called before the
/// job starts, so that no earlier holder writes any more once it has begun to read.
///
/// In a transaction if one is open, else committed by itself. Makes the table `leasehold_fences` in the connection's
/// main database if it isn't there. A resource is what the jobs write to, by any name that they agree on; if several
/// locks guard it, their tokens don't compare.
///
/// # Errors
/// - `Stale`: a holder with a larger token has registered.
/// - `Invalid`: the token needs more than 63 bits.
/// - What SQLite says; transient if it was busy.
pub fn register_fence(db: &Connection, resource: &str, token: FencingToken) -> Result<()> {
    db.execute_batch(CREATE_FENCES).map_err(|error| failed(db, error))?;
    raise(db, resource, token)
}

/// Lets the open transaction `tx` go on only if nobody with a larger token has registered for `resource`, and nobody
/// can until it ends. It may come first or last in the transaction, and again and again with the same token.
///
/// # Errors
/// - `Stale`: a holder with a larger token has registered. The transaction must be rolled back, which dropping it does.
/// - `Invalid`: no transaction is open, or the token needs more than 63 bits.
/// - `Misconfigured`: there is no table; nobody has registered.
/// - What SQLite says; transient if it was busy: roll back, and do the whole transaction again.
pub fn fenced(tx: &Connection, resource: &str, token: FencingToken) -> Result<()> {
    check_begun(tx)?;
    raise(tx, resource, token)
}

fn check_begun(db: &Connection) -> Result<()> {
    if db.is_autocommit() {
        return Err(Error::invalid(
            "no transaction is open on this connection, and a fence stands until the transaction ends: begin one",
        ));
    }
    Ok(())
}

fn raise(db: &Connection, resource: &str, token: FencingToken) -> Result<()> {
    let number = i64::try_from(token.number())
        .map_err(|_| Error::invalid(format!("the token {token} needs more than 63 bits; hand on a guard's own")))?;
    let raised = db.execute(RAISE_FENCE, params![resource, number]).map_err(|error| failed(db, error))?;
    if raised > 0 {
        return Ok(());
    }
    let newest = "select token from main.leasehold_fences where resource = ?1";
    let newest: Option<i64> =
        db.query_row(newest, [resource], |row| row.get(0)).optional().map_err(|error| failed(db, error))?;
    let newest = newest.map_or_else(String::new, |newest| format!(", {newest},"));
    Err(Error::new(
        ErrorKind::Stale,
        format!(
            "a newer holder's token{newest} stands at {resource:?}, and ours is {token}: roll the transaction back"
        ),
    ))
}

fn failed(db: &Connection, error: ::rusqlite::Error) -> Error {
    let no_table = error.sqlite_error_code() == Some(ErrorCode::Unknown)
        && matches!(db.table_exists(Some("main"), "leasehold_fences"), Ok(false));
    if no_table {
        let message = "there is no table leasehold_fences: call register_fence before the job starts, which makes it";
        return Error::new(ErrorKind::Misconfigured, message).with_source(error);
    }
    lease::failed(error, Path::new(db.path().unwrap_or("the database")))
}
