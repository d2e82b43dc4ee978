//! Fences in transactions of [`tokio_postgres`].
//!
//! # With the locks in the same database
//!
//! [`Guard::fence`](crate::Guard::fence) comes **first**, so that a holder which is one no longer does nothing in vain:
//!
//! ```no_run
//! # use leasehold::{Locks, Outcome};
//! # async fn job(mut jobs: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::connect("postgres://jobs@db/jobs").await?;
//!
//! let Outcome::Acquired(guard) = locks.lock("nightly-report").try_acquire().await? else { return Ok(()) };
//! let tx = jobs.transaction().await?;
//! let fence = guard.fence(&tx).await?;
//! tx.execute("insert into report values('2026-11-01', 42)", &[]).await?; // … the long part …
//! fence.commit(tx).await?;
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! From the fence to the end of the transaction nobody is granted the lock, however long this process is paused. Renewals
//! go on, and so does every other lock. The fence waits for nobody, but for a grant that is being made at that instant.
//! A transaction that stays open keeps the lock from everybody: `idle_in_transaction_session_timeout` ends those of
//! machines that are gone. The job's role needs `select` and the right to `update` one column of `leasehold_locks`.
//!
//! For another client the statement is [`FENCE`].
//!
//! # Exactly once
//!
//! [`Guard::complete_in`](crate::Guard::complete_in) is a fence that closes the tick, too, so it comes first as well:
//!
//! ```no_run
//! # use leasehold::{Locks, Outcome, Tick};
//! # async fn job(mut jobs: tokio_postgres::Client, locks: Locks, tonight: Tick) -> Result<(), Box<dyn std::error::Error>> {
//! let lock = locks.lock("billing").tick(tonight).retry_failed(true);
//! let Outcome::Acquired(guard) = lock.try_acquire().await? else { return Ok(()) };
//! let tx = jobs.transaction().await?;
//! let completed = guard.complete_in(&tx).await?;
//! tx.execute("insert into invoice values('2026-11-30', 42)", &[]).await?; // … all of them …
//! completed.commit(tx).await?; // From here on nobody does it again.
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! Another transaction that completes the same tick waits for this one. The job's role needs `select` and `delete` on
//! `leasehold_ticks`, too. For another client the statement is [`COMPLETE`], after [`FENCE`].
//!
//! # With the locks anywhere else
//!
//! [`register_fence`] before the job starts, and [`fenced`] in its transactions: the largest token stands in a table of
//! the job's database, and smaller ones are refused.
//!
//! ```no_run
//! use leasehold::fence::tokio_postgres::{fenced, register_fence};
//! # use leasehold::Guard;
//!
//! # async fn job(guard: Guard, mut jobs: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! register_fence(&jobs, "report", guard.token()).await?;
//!
//! let tx = jobs.transaction().await?;
//! fenced(&tx, "report", guard.token()).await?;
//! tx.execute("insert into report values('2026-11-01', 42)", &[]).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```

use std::marker::PhantomData;

use ::tokio_postgres::error::{DbError, SqlState};
use ::tokio_postgres::types::Type;
use ::tokio_postgres::{Error as Failure, GenericClient, Transaction};
use futures_util::future::BoxFuture;

use super::OpenTransaction;
use super::sealed::Sealed;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::lease::FencingToken;
use crate::name::Namespace;
use crate::store::{Database, Tables};

/// The guard's fence, for clients that this library doesn't know: `$1` is the namespace, `$2` the lock's name, `$3` the
/// token. **No row**, or an error of the class `40001`, says that the lock is this holder's no longer. Tables in another
/// schema than `public` have that one's name before theirs.
pub const FENCE: &str = "\
select 1 from public.leasehold_locks \
where ns = $1 and name = $2 and token = $3 and holder is not null \
for key share";

/// Closes the guard's tick, for clients that this library doesn't know, in the transaction that has asked [`FENCE`] before: `$1` is the
/// namespace, `$2` the lock's name, `$3` the tick in milliseconds since 1970 (0 for a key), `$4` the holder, 32 digits. **No row
/// deleted**, or an error of the class `40001`, says that it is not open for this holder any more: roll back.
pub const COMPLETE: &str = "\
delete from public.leasehold_ticks \
where ns = $1 and name = $2 and tick = $3 and holder = $4";

/// Makes the table of the largest tokens, for those who write to it without this library.
pub const CREATE_FENCES: &str = "\
create table if not exists leasehold_fences(
    resource text collate \"C\" primary key,
    token bigint not null)";

/// What two make at the same moment fails for one of them, whatever `if not exists` says. It ends with the transaction that
/// makes the table.
const ONE_AT_A_TIME: &str = "select pg_advisory_xact_lock(1872401502601617660)";

/// Raises the largest token of the resource `$1` to `$2`, and is the comparison too: **no row changed** says that a
/// newer holder has been there. In one statement, so that the answer holds until the transaction ends. Both
/// [`register_fence`] and [`fenced`] are this.
pub const RAISE_FENCE: &str = "\
insert into leasehold_fences(resource, token) values($1, $2)
on conflict(resource) do update set token = excluded.token where leasehold_fences.token <= excluded.token";

/// A transaction that is the holder's alone until it ends. Made by [`Guard::fence`](crate::Guard::fence) and
/// [`Guard::complete_in`](crate::Guard::complete_in).
///
/// It borrows the guard: releasing it while the transaction is open doesn't compile.
///
/// ```compile_fail,E0505
/// # async fn job(guard: leasehold::Guard, tx: tokio_postgres::Transaction<'_>) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = guard.fence(&tx).await?;
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
    pub async fn commit(self, tx: Transaction<'_>) -> Result<(), Failure> {
        tx.commit().await
    }
}

impl Drop for Fence<'_> {
    /// Nothing is to be done; but without this the guard would be borrowed to the last use only, not to the end.
    fn drop(&mut self) {}
}

impl<'guard: 'tx, 'tx> OpenTransaction<'guard> for &'tx Transaction<'_> {
    type Answer = BoxFuture<'tx, Result<Fence<'guard>>>;

    fn fence(self, guard: &'guard Guard) -> Self::Answer {
        Box::pin(fence(self, guard))
    }

    fn complete(self, guard: &'guard Guard) -> Self::Answer {
        Box::pin(complete(self, guard))
    }
}

impl Sealed for &Transaction<'_> {}

/// Where the guard's lease is: the schema, what stands in it, and the namespace.
fn tables(guard: &Guard) -> Result<(String, String, Namespace)> {
    let Some(Tables { database: Database::Postgres { schema, home }, namespace }) = guard.client.store.tables() else {
        return Err(Error::invalid(
            "the lock is in a store that a transaction of PostgreSQL can't look into; call \
             fence::tokio_postgres::register_fence before the job starts and fence::tokio_postgres::fenced in its \
             transactions",
        ));
    };
    Ok((schema, home, namespace))
}

async fn fence<'guard>(tx: &Transaction<'_>, guard: &'guard Guard) -> Result<Fence<'guard>> {
    let (schema, home, namespace) = tables(guard)?;
    guard.check_still_valid()?;
    let statement = FENCE.replace("public.", &format!("{schema}."));
    let token = signed(guard.token())?;
    let given =
        [(&namespace.as_str() as _, Type::TEXT), (&guard.name().as_str() as _, Type::TEXT), (&token as _, Type::INT8)];
    match tx.query_typed(&statement, &given).await {
        Ok(rows) if !rows.is_empty() => Ok(Fence { _guard: PhantomData }),
        Ok(_) => Err(match isolation_at_home(tx, &schema, &home).await?.as_deref() {
            None => elsewhere(),
            Some("read committed") => guard.found_gone(),
            Some(_) => guard.not_seen_as_ours(),
        }),
        Err(error) if was_changed_since(&error, "ExecLockRows") => Err(guard.not_seen_as_ours()),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Err(elsewhere()),
        Err(error) => Err(failed(error)),
    }
}

async fn complete<'guard>(tx: &Transaction<'_>, guard: &'guard Guard) -> Result<Fence<'guard>> {
    let tick = guard.tick_to_complete()?;
    let fence = fence(tx, guard).await?;
    let (schema, _, namespace) = tables(guard)?;
    let statement = COMPLETE.replace("public.", &format!("{schema}."));
    let (millis, holder) = (tick.as_unix_millis(), guard.holder().to_string());
    let given = [
        (&namespace.as_str() as _, Type::TEXT),
        (&guard.name().as_str() as _, Type::TEXT),
        (&millis as _, Type::INT8),
        (&holder as _, Type::TEXT),
    ];
    guard.begins_to_complete();
    match tx.execute_typed(&statement, &given).await {
        Ok(0) => Err(guard.not_open(tick)),
        Ok(_) => Ok(fence),
        Err(error) if was_changed_since(&error, "ExecDelete") => Err(guard.not_open(tick)),
        Err(error) => Err(failed(error)),
    }
}

/// Whether the row that was to be had was changed since the transaction began to look. A transaction that is serializable
/// may fail so for other reasons too, and from another place.
fn was_changed_since(error: &Failure, place: &str) -> bool {
    let is_of_the_row = |said: &DbError| said.routine() == Some(place);
    error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) && error.as_db_error().is_some_and(is_of_the_row)
}

/// How the transaction is isolated, if the tables that it sees are the ones with the lock.
async fn isolation_at_home(tx: &Transaction<'_>, schema: &str, home: &str) -> Result<Option<String>> {
    let statement = format!("select home, current_setting('transaction_isolation') from {schema}.leasehold_schema");
    let Some(row) = tx.query_typed_opt(&statement, &[]).await.map_err(failed)? else { return Ok(None) };
    let is_home = row.try_get::<_, String>(0).is_ok_and(|found| found == home);
    Ok(row.try_get(1).ok().filter(|_| is_home))
}

fn elsewhere() -> Error {
    Error::invalid(
        "the lock is in another database than this transaction; use fence::tokio_postgres::fenced, which needs no such \
         tables",
    )
}

/// Says who may write to `resource` from now on: the holder with this token, and later ones. To be called before the
/// job starts, so that no earlier holder writes any more once it has begun to read.
///
/// In a transaction if one is open, else committed by itself. Makes the table `leasehold_fences` if it isn't there, in the
/// first schema of the search path. A resource is what the jobs write to, by any name that they agree on; if several
/// locks guard it, their tokens don't compare. Waits for transactions that are [`fenced`] for the same resource.
///
/// # Errors
/// - `Stale`: a holder with a larger token has registered.
/// - `Invalid`: the token needs more than 63 bits.
/// - What the server says; transient if it may go well another time.
///
/// # Cancel safety
/// Cancel safe: it may be registered or not, and may be registered again.
pub async fn register_fence(db: &impl GenericClient, resource: &str, token: FencingToken) -> Result<()> {
    let there = "select to_regclass('leasehold_fences') is not null";
    let is_there = db.query_typed(there, &[]).await.map_err(failed)?;
    if !is_there.first().is_some_and(|row| row.try_get(0).unwrap_or(false)) {
        db.batch_execute(&format!("{ONE_AT_A_TIME}; {CREATE_FENCES}")).await.map_err(failed)?;
    }
    raise(db, resource, token).await
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
/// Cancel safe, if the transaction is rolled back then.
pub async fn fenced(tx: &Transaction<'_>, resource: &str, token: FencingToken) -> Result<()> {
    raise(tx, resource, token).await
}

async fn raise(db: &impl GenericClient, resource: &str, token: FencingToken) -> Result<()> {
    let number = signed(token)?;
    let given = [(&resource as _, Type::TEXT), (&number as _, Type::INT8)];
    let raised = db.execute_typed(RAISE_FENCE, &given).await.map_err(failed)?;
    if raised > 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Stale,
        format!("a newer holder's token stands at {resource:?}, and ours is {token}: roll the transaction back"),
    ))
}

fn signed(token: FencingToken) -> Result<i64> {
    i64::try_from(token.number())
        .map_err(|_| Error::invalid(format!("the token {token} needs more than 63 bits; hand on a guard's own")))
}

fn failed(error: Failure) -> Error {
    let said = error.as_db_error().map(|said| (said.code().code().to_owned(), said.message().to_owned()));
    let told = match &said {
        Some((code, why)) if code == "42P01" && !why.contains("leasehold_fences") => Error::new(
            ErrorKind::Misconfigured,
            format!("a table of Leasehold's is missing ({why}); run `leasehold migrate`"),
        ),
        Some((code, _)) if code == "42P01" => Error::new(
            ErrorKind::Misconfigured,
            "there is no table leasehold_fences: call register_fence before the job starts, which makes it",
        ),
        Some((code, why)) if code == "42501" => {
            Error::new(ErrorKind::AccessDenied, format!("this role may not do what the fence needs ({why})"))
        }
        Some((code, why)) if ["40", "53", "55", "57"].contains(&&code[..2]) => Error::new(
            ErrorKind::Unavailable,
            format!("the fence could not be put up ({why}); roll back and try again"),
        ),
        Some((code, why)) => Error::new(ErrorKind::Internal, format!("the fence could not be put up ({code}: {why})")),
        None => Error::new(ErrorKind::Unavailable, format!("the connection of the transaction broke ({error})")),
    };
    told.maybe_applied().with_source(error)
}
