//! The lease algorithm: what each operation does to the tables.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::hex::Hex;
use super::queue::{self, ENTRY_NANOS};
use crate::error::{Error, ErrorKind};
use crate::lease::{Attempt, Claim, Ended, FencingToken, Grant, HolderId, Holding, LeaseKey, Release, Renewal, Revoke};
use crate::name::LockName;

/// 1 November 2026, in milliseconds since 2020: no wall clock that is right shows less. Raised now and then.
const BUILT_MS: i64 = 215_654_400_000;

/// The first milliseconds since 2020 that would need more than 42 bits: the year 2159.
const LAST_MS: i64 = 1 << 42;

/// The whole of an acquire when nobody is in the way: one statement that takes the write lock, decides and
/// commits. No row: somebody is, and `decide` finds out who. In the order of the contract: the same holder alive
/// keeps its grant; then the queue; then the lease.
const GRANT_AT_ONCE: &str = "
    insert into leasehold_locks(ns, name, holder, label, token, granted, expires, revoked)
    values(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)
    on conflict(ns, name) do update set
        token = case when holder = ?3 and expires > ?6 then token else max(token + 1, ?5) end,
        granted = case when holder = ?3 and expires > ?6 then granted else ?6 end,
        expires = case when holder = ?3 and expires > ?6 then max(expires, ?7) else ?7 end,
        holder = ?3, label = ?4, revoked = 0
    where (holder = ?3 and expires > ?6 and revoked = 0)
        or (expires <= ?6 and not exists (
            select 1 from leasehold_waiters w where w.ns = ?1 and w.name = ?2 and w.seen > ?6 - 1000000000))
    returning token";

const _: () = assert!(ENTRY_NANOS == 1_000_000_000, "as GRANT_AT_ONCE and SHOWN say");

/// Asks for a lease.
pub(super) fn acquire(connection: &mut Connection, claim: &Claim) -> Result<Attempt, Fault> {
    // Where waiting for the write lock is possible, time may pass; `decide` reads the clock after it.
    // A claimant with a ticket stands in the queue, and its entry has to be taken out too.
    let has_ticket = claim.queue.is_some_and(|place| place.ticket.is_some());
    let floor = token_floor(connection.database.machine.wall_ms());
    if let Some(floor) = floor
        && !connection.is_patient()
        && !has_ticket
        && let Some(grant) = grant_at_once(connection, claim, floor)?
    {
        return Ok(Attempt::Granted(grant));
    }
    connection.write(|writing| decide(writing, claim, floor))
}

fn grant_at_once(connection: &Connection, claim: &Claim, floor: i64) -> Result<Option<Grant>, Fault> {
    let now = connection.now();
    let holder = Hex::of(claim.holder);
    let mut statement = connection.db.prepare_cached(GRANT_AT_ONCE)?;
    let end = after(now, claim.ttl);
    let claimed = params![connection.namespace(), claim.name.as_str(), holder.as_str(), &*claim.label, floor, now, end];
    let mut rows = statement.query(claimed)?;
    let token = rows.next()?.map(|row| row.get::<_, i64>(0)).transpose()?;
    // The statement commits at its end, so that is where a full disk is told; merely dropping it would hide that.
    if rows.next().map_err(Fault::at_commit)?.is_some() {
        return Err(Error::new(ErrorKind::Internal, "one lock has two rows").into());
    }
    Ok(token.map(grant))
}

/// The careful way: as [`GRANT_AT_ONCE`], and the queue with it.
fn decide(writing: &Writing<'_>, claim: &Claim, floor: Option<i64>) -> Result<Attempt, Fault> {
    let row = Lease::find(writing, &claim.name)?;
    if let Some(lease) = row.as_ref().filter(|lease| lease.is_of(claim.holder, writing.now) && !lease.revoked) {
        let end = lease.expires.max(after(writing.now, claim.ttl));
        set_end(writing, &claim.name, end)?;
        queue::forget(writing, &claim.name, claim.holder)?;
        return Ok(Attempt::Granted(grant(lease.token)));
    }
    let place = queue::place(writing, claim)?;
    let ahead = queue::ahead(writing, claim, place)?;
    let is_free = row.as_ref().is_none_or(|lease| lease.is_free(writing.now));
    if is_free && ahead == 0 {
        let token = next_token(row.as_ref(), floor)?;
        grant_to(writing, claim, token)?;
        queue::forget(writing, &claim.name, claim.holder)?;
        return Ok(Attempt::Granted(grant(token)));
    }
    if let Some(ticket) = place {
        queue::enter(writing, claim, ticket)?;
    }
    let lease = row.unwrap_or_default();
    let ticket = place.map(i64::cast_unsigned);
    Ok(Attempt::Held(lease.holding(claim.name.clone(), writing.now, ahead.cast_unsigned(), ticket)))
}

/// Renews leases, all in one transaction.
pub(super) fn renew(connection: &mut Connection, leases: &[(LeaseKey, Duration)]) -> Result<Vec<Renewal>, Fault> {
    connection.write(|writing| leases.iter().map(|(lease, ttl)| renew_one(writing, lease, *ttl)).collect())
}

fn renew_one(writing: &Writing<'_>, lease: &LeaseKey, ttl: Duration) -> Result<Renewal, Fault> {
    // Never back: an overtaken renewal must not cut what a later one has promised.
    let mut statement = writing.db.prepare_cached(
        "update leasehold_locks set expires = max(expires, ?5)
         where ns = ?1 and name = ?2 and holder = ?3 and expires > ?4 and revoked = 0",
    )?;
    let holder = Hex::of(lease.holder);
    let name = lease.name.as_str();
    let end = after(writing.now, ttl);
    if statement.execute(params![writing.namespace(), name, holder.as_str(), writing.now, end])? == 1 {
        return Ok(Renewal::Renewed);
    }
    let found = Lease::find(writing, &lease.name)?;
    let revoked = found.is_some_and(|found| found.is_of(lease.holder, writing.now));
    Ok(if revoked { Renewal::Revoked } else { Renewal::Gone })
}

/// Ends a lease.
pub(super) fn release(connection: &mut Connection, lease: &LeaseKey, how: Ended) -> Result<Release, Fault> {
    let freed = if connection.is_patient() {
        connection.write(|writing| free(&writing.db, writing.namespace(), writing.now, lease, how.keep_for))?
    } else {
        free(&connection.db, connection.namespace(), connection.now(), lease, how.keep_for)?
    };
    Ok(if freed { Release::Released } else { Release::NotHeld })
}

fn free(
    db: &rusqlite::Connection,
    namespace: &str,
    now: i64,
    lease: &LeaseKey,
    keep_for: Duration,
) -> Result<bool, Fault> {
    let mut statement = db.prepare_cached(
        "update leasehold_locks set holder = null, expires = ?5, revoked = 0
         where ns = ?1 and name = ?2 and holder = ?3 and expires > ?4",
    )?;
    let holder = Hex::of(lease.holder);
    let freed = params![namespace, lease.name.as_str(), holder.as_str(), now, after(now, keep_for)];
    Ok(statement.execute(freed).map_err(Fault::at_commit)? == 1)
}

/// Leaves the queue, and ends the lease if it was granted meanwhile.
pub(super) fn leave(connection: &mut Connection, waiter: &LeaseKey) -> Result<(), Fault> {
    connection.write(|writing| {
        queue::forget(writing, &waiter.name, waiter.holder)?;
        free(&writing.db, writing.namespace(), writing.now, waiter, Duration::ZERO).map(drop)
    })
}

/// Ends somebody else's hold; answers what it was.
pub(super) fn revoke(connection: &mut Connection, name: &LockName, how: Revoke) -> Result<Option<Holding>, Fault> {
    connection.write(|writing| {
        let Some(lease) = Lease::find(writing, name)?.filter(|lease| !lease.is_free(writing.now)) else {
            return Ok(None);
        };
        let sql = match how {
            Revoke::Gently => "update leasehold_locks set revoked = 1 where ns = ?1 and name = ?2",
            Revoke::Now => {
                "update leasehold_locks set holder = null, expires = 0, revoked = 0 where ns = ?1 and name = ?2"
            }
        };
        writing.db.execute(sql, params![writing.namespace(), name.as_str()])?;
        let waiting = queue::count(writing, name)?;
        Ok(Some(lease.holding(name.clone(), writing.now, waiting, None)))
    })
}

/// What is shown of a name that is held, kept or waited for.
const SHOWN: &str = "
    select l.holder, l.label, l.token, l.granted, l.expires, l.revoked, l.name,
        (select count(*) from leasehold_waiters w
         where w.ns = l.ns and w.name = l.name and w.seen > ?2 - 1000000000) as waiting
    from leasehold_locks l where l.ns = ?1 and (l.expires > ?2 or waiting > 0)";

/// Who holds a name.
pub(super) fn inspect(connection: &Connection, name: &LockName) -> Result<Option<Holding>, Fault> {
    let now = connection.now();
    let mut statement = connection.db.prepare_cached(&format!("{SHOWN} and l.name = ?3"))?;
    let found = statement.query_row(params![connection.namespace(), now, name.as_str()], |row| shown(row, now));
    Ok(found.optional()?.transpose()?)
}

/// Every name that is held, kept or waited for, in order.
pub(super) fn list(connection: &Connection) -> Result<Vec<Holding>, Fault> {
    let now = connection.now();
    let mut statement = connection.db.prepare_cached(&format!("{SHOWN} order by l.name"))?;
    let found = statement.query_map(params![connection.namespace(), now], |row| shown(row, now))?;
    found.map(|row| Ok(row??)).collect()
}

fn shown(row: &Row<'_>, now: i64) -> rusqlite::Result<Result<Holding, Error>> {
    let lease = Lease::read(row)?;
    let waiting: i64 = row.get(7)?;
    let name = LockName::new(row.get_ref(6)?.as_str()?);
    Ok(name.map(|name| lease.holding(name, now, waiting.cast_unsigned(), None)))
}

/// A row of the table of locks.
#[derive(Debug, Default)]
struct Lease {
    holder: Option<HolderId>,
    label: String,
    token: i64,
    granted: i64,
    expires: i64,
    revoked: bool,
}

impl Lease {
    fn find(writing: &Writing<'_>, name: &LockName) -> Result<Option<Self>, Fault> {
        let mut statement = writing.db.prepare_cached(
            "select holder, label, token, granted, expires, revoked from leasehold_locks where ns = ?1 and name = ?2",
        )?;
        Ok(statement.query_row(params![writing.namespace(), name.as_str()], Self::read).optional()?)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            holder: row.get_ref(0)?.as_str_or_null()?.and_then(HolderId::parse),
            label: row.get(1)?,
            token: row.get(2)?,
            granted: row.get(3)?,
            expires: row.get(4)?,
            revoked: row.get(5)?,
        })
    }

    fn is_free(&self, now: i64) -> bool {
        self.expires <= now
    }

    fn is_of(&self, holder: HolderId, now: i64) -> bool {
        self.holder == Some(holder) && !self.is_free(now)
    }

    fn holding(self, name: LockName, now: i64, waiting: u64, ticket: Option<u64>) -> Holding {
        let is_free = self.is_free(now);
        Holding {
            name,
            holder: self.holder.filter(|_| !is_free),
            label: self.label,
            token: FencingToken::new(self.token.cast_unsigned()),
            held_for: between(self.granted, now),
            remaining: between(now, self.expires),
            revoked: self.revoked && !is_free,
            waiting,
            ticket,
        }
    }
}

fn grant_to(writing: &Writing<'_>, claim: &Claim, token: i64) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "insert or replace into leasehold_locks(ns, name, holder, label, token, granted, expires, revoked)
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)",
    )?;
    let holder = Hex::of(claim.holder);
    let end = after(writing.now, claim.ttl);
    let name = claim.name.as_str();
    let granted = params![writing.namespace(), name, holder.as_str(), &*claim.label, token, writing.now, end];
    statement.execute(granted)?;
    Ok(())
}

fn set_end(writing: &Writing<'_>, name: &LockName, end: i64) -> Result<(), Fault> {
    let mut statement =
        writing.db.prepare_cached("update leasehold_locks set expires = ?3 where ns = ?1 and name = ?2")?;
    statement.execute(params![writing.namespace(), name.as_str(), end])?;
    Ok(())
}

/// What the wall clock makes of a token: larger than all that a lost file gave out. None if it can't be right.
fn token_floor(wall_ms: i64) -> Option<i64> {
    (BUILT_MS..LAST_MS).contains(&wall_ms).then_some(wall_ms << 4)
}

/// A counter that is there just goes on, whatever the wall clock shows; a new one needs it.
fn next_token(last: Option<&Lease>, floor: Option<i64>) -> Result<i64, Error> {
    match (last, floor) {
        (Some(last), floor) => Ok((last.token + 1).max(floor.unwrap_or(0))),
        (None, Some(floor)) => Ok(floor),
        (None, None) => Err(Error::new(
            ErrorKind::Misconfigured,
            "the wall clock is before this program was built or after 2158; fencing tokens start from it, so set it",
        )),
    }
}

fn grant(token: i64) -> Grant {
    Grant { token: FencingToken::new(token.cast_unsigned()) }
}

fn after(now: i64, span: Duration) -> i64 {
    now.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_nanos(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}
