//! Fences in transactions of [`sqlx`], in MySQL and MariaDB.
//!
//! # With the locks on the same server
//!
//! [`Guard::fence`](crate::Guard::fence) comes **first**, so that a holder which is one no longer does nothing in vain:
//!
//! ```no_run
//! # use leasehold::{Locks, Outcome};
//! # use sqlx::Connection;
//! # async fn job(mut jobs: sqlx::MySqlConnection) -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::connect("mysql://jobs@db/app").await?;
//!
//! let Outcome::Acquired(guard) = locks.lock("nightly-report").try_acquire().await? else { return Ok(()) };
//! let mut tx = jobs.begin().await?;
//! let fence = guard.fence(&mut tx).await?;
//! sqlx::query("insert into report values('2026-11-01', 42)").execute(&mut *tx).await?; // … the long part …
//! fence.commit(tx).await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! From the fence to the end of the transaction nobody is granted the lock, however long this process is paused.
//! Renewals go on, and so does every other lock. The fence waits for nobody, but for a grant that is being made at that
//! instant. A transaction that stays open keeps the lock from everybody: `wait_timeout` ends those of machines that are
//! gone. It lets through whoever was granted the lock last: also a holder whose lease is over, or was cut by an operator,
//! as long as nobody else has been granted it.
//!
//! Where several permits are given out, and the isolation is `REPEATABLE READ` or `SERIALIZABLE`, the fence of one holder
//! keeps the other permits from being granted anew, too.
//!
//! # Exactly once
//!
//! [`Guard::complete_in`](crate::Guard::complete_in) is a fence that closes the tick, too, so it comes first as well:
//!
//! ```no_run
//! # use leasehold::{Locks, Outcome, Tick};
//! # use sqlx::Connection;
//! # async fn job(mut jobs: sqlx::MySqlConnection, locks: Locks, tonight: Tick) -> Result<(), Box<dyn std::error::Error>> {
//! let lock = locks.lock("billing").tick(tonight).retry_failed(true);
//! let Outcome::Acquired(guard) = lock.try_acquire().await? else { return Ok(()) };
//! let mut tx = jobs.begin().await?;
//! let completed = guard.complete_in(&mut tx).await?;
//! sqlx::query("insert into invoice values('2026-11-30', 42)").execute(&mut *tx).await?; // … all of them …
//! completed.commit(tx).await?; // From here on nobody does it again.
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! Another transaction that completes the same tick waits for this one, for `innodb_lock_wait_timeout` at most. The user needs `select` and
//! `delete` on `leasehold_ticks`, too. For another client the statement is [`COMPLETE`], after [`FENCE`].
//!
//! A transaction of `sqlx` that is dropped is rolled back when its connection is used next, or goes back to its pool. Until then its fence
//! stands, and nobody is told that the tick is done: roll back by [`rollback`](sqlx::Transaction::rollback), or close the connection.
//!
//! # For other clients
//!
//! The fence's statement is [`FENCE`]. On a Galera cluster a fence does not reach the other nodes: locks and
//! fenced transactions must go to the same one.
//!
//! # With the locks anywhere else
//!
//! [`register_fence`] before the job starts, and [`fenced`] in its transactions: the largest token stands in a table of
//! the job's database, and smaller ones are refused.
//!
//! ```no_run
//! use leasehold::fence::sqlx_mysql::{fenced, register_fence};
//! # use leasehold::Guard;
//! # use sqlx::Connection;
//!
//! # async fn job(guard: Guard, mut jobs: sqlx::MySqlConnection) -> Result<(), Box<dyn std::error::Error>> {
//! register_fence(&mut jobs, "report", guard.token()).await?;
//!
//! let mut tx = jobs.begin().await?;
//! fenced(&mut tx, "report", guard.token()).await?;
//! sqlx::query("insert into report values('2026-11-01', 42)").execute(&mut *tx).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```

use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, MySql, Row, Transaction};

use super::OpenTransaction;
use super::sealed::Sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::lease::FencingToken;
use crate::name::Namespace;
use crate::store::{Database, Tables};

/// The guard's fence, for clients that this library doesn't know: the namespace, the lock's name and the token. **No
/// row** says that the lock is this holder's no longer. For the tables of another database that one's name stands before
/// theirs. Of a lock with several permits no row says nothing yet: then ask [`FENCE_OF_PERMITS`].
pub const FENCE: &str =
    "select 1 from leasehold_fence where ns = ? and name = ? and slot = 0 and token = ? lock in share mode";

/// The same for any of several permits. At `REPEATABLE READ` this locks what is beside it, too, so that names that have
/// never been used may have to wait for the transaction: only where the first one finds nothing.
pub const FENCE_OF_PERMITS: &str =
    "select 1 from leasehold_fence where ns = ? and name = ? and token = ? lock in share mode";

/// Closes the guard's tick, for clients that this library doesn't know, in the transaction that has asked [`FENCE`] before: the
/// namespace, the lock's name, the tick in milliseconds since 1970 (0 for a key), and the holder, 32 digits. For the tables of
/// another database that one's name stands before theirs. **No row deleted**, or the error 1020, says that it is not open for this holder any
/// more: roll back at once, since at `REPEATABLE READ` the place where the row would be is locked now.
pub const COMPLETE: &str = "delete from leasehold_ticks where ns = ? and name = ? and tick = ? and holder = ?";

/// Looks before, and locks nothing.
const IS_OPEN: &str = "select 1 from leasehold_ticks where ns = ? and name = ? and tick = ? and holder = ?";

/// Makes the table of the largest tokens, for those who write to it without this library.
pub const CREATE_FENCES: &str = "\
create table if not exists leasehold_fences(
    resource varbinary(255) not null primary key,
    token bigint not null) engine = innodb";

/// Raises the largest token of a resource, and is the comparison too: if the insert id that comes with the answer
/// (`last_insert_id()`) is **not the token**, a newer holder has been there. The resource, and the token twice. In one
/// statement, so that the answer holds until the transaction ends. Both [`register_fence`] and [`fenced`] are this.
pub const RAISE_FENCE: &str = "\
insert into leasehold_fences(resource, token) values(?, last_insert_id(?))
on duplicate key update token = last_insert_id(greatest(token, ?))";

/// A transaction that is the holder's alone until it ends. Made by [`Guard::fence`](crate::Guard::fence) and
/// [`Guard::complete_in`](crate::Guard::complete_in).
///
/// It borrows the guard: releasing it while the transaction is open doesn't compile.
///
/// ```compile_fail,E0505
/// # async fn job(guard: leasehold::Guard, mut tx: sqlx::Transaction<'_, sqlx::MySql>) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = guard.fence(&mut tx).await?;
/// guard.release().await?; // error[E0505]: cannot move out of `guard` because it is borrowed
/// fence.commit(tx).await?;
/// # Ok(()) }
/// ```
///
/// # On drop
/// Nothing happens: it is the transaction that stands, dropped fence or not, until it is committed or rolled back. A
/// guard that is released before that is released, and nobody is granted the lock before the transaction has ended. If its tick was
/// completed in it, and its release says the same, the release fails, and is made in the background after that.
#[derive(Debug)]
#[must_use = "it is the transaction's end that ends it: commit through it, or keep it until then"]
pub struct Fence<'guard> {
    _guard: PhantomData<&'guard Guard>,
}

impl Fence<'_> {
    /// Commits the fenced transaction.
    ///
    /// # Errors
    /// What the server says. As after any failed commit, it may have been committed all the same.
    ///
    /// # Cancel safety
    /// Not cancel safe: dropped, the transaction may have been committed or not.
    pub async fn commit(self, tx: Transaction<'_, MySql>) -> sqlx::Result<()> {
        tx.commit().await
    }
}

impl Drop for Fence<'_> {
    /// Nothing is to be done; but without this the guard would be borrowed to the last use only, not to the end.
    fn drop(&mut self) {}
}

impl<'guard: 'tx, 'tx, 'db: 'tx> OpenTransaction<'guard> for &'tx mut Transaction<'db, MySql> {
    type Answer = BoxFuture<'tx, Result<Fence<'guard>>>;

    fn fence(self, guard: &'guard Guard) -> Self::Answer {
        Box::pin(fence(self, guard))
    }

    fn complete(self, guard: &'guard Guard) -> Self::Answer {
        Box::pin(complete(self, guard))
    }
}

impl Sealed for &mut Transaction<'_, MySql> {}

/// Where the guard's lease is: the database, what stands in it, and the namespace.
fn tables(guard: &Guard) -> Result<(String, String, Namespace)> {
    let Some(Tables { database: Database::MySql { database, home }, namespace }) = guard.client.store.tables() else {
        return Err(Error::invalid(
            "the lock is in a store that a transaction of MySQL can't look into; call fence::sqlx_mysql::register_fence \
             before the job starts and fence::sqlx_mysql::fenced in its transactions",
        ));
    };
    Ok((database, home, namespace))
}

async fn fence<'guard>(tx: &mut MySqlConnection, guard: &'guard Guard) -> Result<Fence<'guard>> {
    let (database, home, namespace) = tables(guard)?;
    guard.check_still_valid()?;
    let token = signed(guard.token())?;
    for statement in [FENCE, FENCE_OF_PERMITS] {
        let statement = statement.replace("leasehold_fence", &format!("`{database}`.leasehold_fence"));
        let look = sqlx::query(AssertSqlSafe(statement))
            .bind(namespace.as_str().as_bytes())
            .bind(guard.name().as_str().as_bytes())
            .bind(token);
        match look.fetch_all(&mut *tx).await {
            Ok(rows) if !rows.is_empty() => return Ok(Fence { _guard: PhantomData }),
            Ok(_) => {}
            Err(error) if number(&error) == Some(CHANGED) => return Err(guard.not_seen_as_ours()),
            Err(error) if number(&error) == Some(NO_SUCH_TABLE) => return Err(elsewhere()),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(if is_home(tx, &database, &home).await? { guard.found_gone() } else { elsewhere() })
}

async fn complete<'guard>(tx: &mut MySqlConnection, guard: &'guard Guard) -> Result<Fence<'guard>> {
    let tick = guard.tick_to_complete()?;
    let fence = fence(&mut *tx, guard).await?;
    let (database, _, namespace) = tables(guard)?;
    let holder = guard.holder().to_string();
    let about_it = |statement: &str| {
        let statement = statement.replace("leasehold_ticks", &format!("`{database}`.leasehold_ticks"));
        sqlx::query(AssertSqlSafe(statement))
            .bind(namespace.as_str().as_bytes().to_owned())
            .bind(guard.name().as_str().as_bytes().to_owned())
            .bind(tick.as_unix_millis())
            .bind(holder.clone().into_bytes())
    };
    // A row that may be missing is not locked: at REPEATABLE READ others would wait for the place where it would be.
    if about_it(IS_OPEN).fetch_all(&mut *tx).await.map_err(failed)?.is_empty() {
        return Err(guard.not_open(tick));
    }
    guard.begins_to_complete();
    match about_it(COMPLETE).execute(tx).await {
        Ok(done) if done.rows_affected() > 0 => Ok(fence),
        Ok(_) => Err(guard.not_open(tick)),
        Err(error) if number(&error) == Some(CHANGED) => Err(guard.not_open(tick)),
        Err(error) => Err(failed(error)),
    }
}

/// The row was granted anew, or changed, since the transaction began to look (MariaDB's `innodb_snapshot_isolation`).
const CHANGED: u16 = 1020;

const NO_SUCH_TABLE: u16 = 1146;

/// Whether the tables that the transaction sees are the ones with the lock.
async fn is_home(tx: &mut MySqlConnection, database: &str, home: &str) -> Result<bool> {
    let statement = format!("select home from `{database}`.leasehold_schema");
    let rows = sqlx::query(AssertSqlSafe(statement)).fetch_all(tx).await.map_err(failed)?;
    Ok(rows.iter().any(|row| row.try_get::<String, _>(0).is_ok_and(|found| found == home)))
}

fn elsewhere() -> Error {
    Error::invalid(
        "the lock is on another server than this transaction; use fence::sqlx_mysql::fenced, which needs no such tables",
    )
}

/// Says who may write to `resource` from now on: the holder with this token, and later ones. To be called before the
/// job starts, so that no earlier holder writes any more once it has begun to read.
///
/// Not in a transaction: it makes the table `leasehold_fences` in the connection's database if it isn't there, and that
/// commits whatever is open. A resource is what the jobs write to, by any name of at most 255 bytes that they agree on;
/// if several locks guard it, their tokens don't compare. Waits for transactions that are [`fenced`] for the same
/// resource.
///
/// # Errors
/// - `Stale`: a holder with a larger token has registered.
/// - `Invalid`: the token needs more than 63 bits.
/// - What the server says; transient if it may go well another time.
///
/// # Cancel safety
/// As with all of `sqlx`: the connection must not be used any more.
pub async fn register_fence(db: &mut MySqlConnection, resource: &str, token: FencingToken) -> Result<()> {
    match raise(db, resource, token).await {
        Err(error) if error.kind() == ErrorKind::Misconfigured => {
            sqlx::query(CREATE_FENCES).execute(&mut *db).await.map_err(failed)?;
            raise(db, resource, token).await
        }
        raised => raised,
    }
}

/// Lets the open transaction `tx` go on only if nobody with a larger token has registered for `resource`, and nobody
/// can until it ends. It may come first or last in the transaction, and again and again with the same token.
///
/// # Errors
/// - `Stale`: a holder with a larger token has registered. The transaction must be rolled back, which dropping it does.
/// - `Invalid`: the token needs more than 63 bits.
/// - `Misconfigured`: there is no table; nobody has registered.
/// - What the server says; transient if it may go well another time: roll back, and do the whole transaction again.
///
/// # Cancel safety
/// As with all of `sqlx`: the connection must not be used any more.
pub async fn fenced(tx: &mut Transaction<'_, MySql>, resource: &str, token: FencingToken) -> Result<()> {
    raise(tx, resource, token).await
}

async fn raise(db: &mut MySqlConnection, resource: &str, token: FencingToken) -> Result<()> {
    let number = signed(token)?;
    let raise = sqlx::query(RAISE_FENCE).bind(resource.as_bytes()).bind(number).bind(number);
    let stands = raise.execute(db).await.map_err(failed)?.last_insert_id();
    if stands == token.number() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Stale,
        format!(
            "a newer holder's token, {stands}, stands at {resource:?}, and ours is {token}: roll the transaction back"
        ),
    ))
}

fn signed(token: FencingToken) -> Result<i64> {
    i64::try_from(token.number())
        .map_err(|_| Error::invalid(format!("the token {token} needs more than 63 bits; hand on a guard's own")))
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?;
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn failed(error: sqlx::Error) -> Error {
    let told = match number(&error) {
        Some(NO_SUCH_TABLE) if !error.to_string().contains("leasehold_fences") => Error::new(
            ErrorKind::Misconfigured,
            format!("a table of Leasehold's is missing ({error}); run `leasehold migrate`"),
        ),
        Some(NO_SUCH_TABLE) => Error::new(
            ErrorKind::Misconfigured,
            "there is no table leasehold_fences: call register_fence before the job starts, which makes it",
        ),
        Some(1044 | 1142 | 1143) => {
            Error::new(ErrorKind::AccessDenied, format!("this user may not do what the fence needs ({error})"))
        }
        Some(1205 | 1213 | 1317 | 1927) | None => Error::new(
            ErrorKind::Unavailable,
            format!("the fence could not be put up ({error}); roll back and do the transaction again"),
        ),
        Some(_) => Error::new(ErrorKind::Internal, format!("the fence could not be put up ({error})")),
    };
    told.maybe_applied().with_source(error)
}
