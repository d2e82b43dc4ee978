//! Who waits for a name, in which order. An entry lives as long as its waiter keeps asking.

use rusqlite::{OptionalExtension, Row, params};

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::hex::Hex;
use super::leases::between;
use crate::lease::{Claim, HolderId, Waiter};
use crate::name::LockName;
use crate::store::QUEUE_ENTRY;

/// How long an entry counts after its waiter's last claim.
pub(super) const ENTRY_NANOS: i64 = QUEUE_ENTRY.as_nanos() as i64;

/// The claimant's place in the queue: the one it has, the one it had, or a new one behind all others. None if it
/// doesn't queue.
pub(super) fn place(writing: &Writing<'_>, claim: &Claim) -> Result<Option<i64>, Fault> {
    let Some(asked) = claim.queue else { return Ok(None) };
    let mut statement = writing
        .db
        .prepare_cached("select ticket from leasehold_waiters where ns = ?1 and name = ?2 and holder = ?3")?;
    let holder = Hex::of(claim.holder);
    let has = statement
        .query_row(params![writing.namespace(), claim.name.as_str(), holder.as_str()], |row| row.get(0))
        .optional()?;
    let had = asked.ticket.and_then(|ticket| i64::try_from(ticket).ok());
    if let Some(ticket) = has.or(had) {
        return Ok(Some(ticket));
    }
    let mut statement =
        writing.db.prepare_cached("select max(ticket) from leasehold_waiters where ns = ?1 and name = ?2")?;
    let last: Option<i64> = statement.query_row(params![writing.namespace(), claim.name.as_str()], |row| row.get(0))?;
    // From the clock, so that a queue whose entries were all pruned doesn't put newcomers before those who come back.
    Ok(Some(last.map_or(writing.now, |last| writing.now.max(last.saturating_add(1)))))
}

/// How many live waiters stand before the claimant; all of them if it doesn't queue.
pub(super) fn ahead(writing: &Writing<'_>, claim: &Claim, place: Option<i64>) -> Result<i64, Fault> {
    let mut statement = writing.db.prepare_cached(
        "select count(*) from leasehold_waiters
         where ns = ?1 and name = ?2 and seen > ?3 and holder <> ?4 and (ticket, holder) < (?5, ?4)",
    )?;
    let holder = Hex::of(claim.holder);
    let (name, since) = (claim.name.as_str(), writing.now - ENTRY_NANOS);
    let before = place.unwrap_or(i64::MAX);
    Ok(statement.query_row(params![writing.namespace(), name, since, holder.as_str(), before], |row| row.get(0))?)
}

/// Puts the claimant at its place, or says that it is still there; takes out those who are not.
pub(super) fn enter(writing: &Writing<'_>, claim: &Claim, ticket: i64) -> Result<(), Fault> {
    let name = claim.name.as_str();
    let mut statement =
        writing.db.prepare_cached("delete from leasehold_waiters where ns = ?1 and name = ?2 and seen <= ?3")?;
    statement.execute(params![writing.namespace(), name, writing.now - ENTRY_NANOS])?;
    let mut statement = writing.db.prepare_cached(
        "insert into leasehold_waiters(ns, name, holder, label, client, ticket, seen)
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7)
         on conflict(ns, name, holder) do update set client = ?5, seen = ?7",
    )?;
    let holder = Hex::of(claim.holder);
    let client = writing.database.client;
    let label = &*claim.label;
    statement.execute(params![writing.namespace(), name, holder.as_str(), label, client, ticket, writing.now])?;
    Ok(())
}

/// Takes a waiter out, if it is there.
pub(super) fn forget(writing: &Writing<'_>, name: &LockName, holder: HolderId) -> Result<(), Fault> {
    let mut statement =
        writing.db.prepare_cached("delete from leasehold_waiters where ns = ?1 and name = ?2 and holder = ?3")?;
    statement.execute(params![writing.namespace(), name.as_str(), Hex::of(holder).as_str()])?;
    Ok(())
}

/// How many live waiters there are.
pub(super) fn count(writing: &Writing<'_>, name: &LockName) -> Result<u64, Fault> {
    let mut statement = writing
        .db
        .prepare_cached("select count(*) from leasehold_waiters where ns = ?1 and name = ?2 and seen > ?3")?;
    let since = writing.now - ENTRY_NANOS;
    let count: i64 = statement.query_row(params![writing.namespace(), name.as_str(), since], |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// The live waiters of a name, in order. Tickets are of the clock: a place is as old as its ticket.
pub(super) fn waiters(connection: &Connection, name: &LockName) -> Result<Vec<Waiter>, Fault> {
    let mut statement = connection.db.prepare_cached(
        "select holder, label, ticket from leasehold_waiters
         where ns = ?1 and name = ?2 and seen > ?3 order by ticket, holder",
    )?;
    let now = connection.now();
    let waiter = |row: &Row<'_>| {
        let holder = row.get_ref(0)?.as_str()?;
        Ok(Waiter { holder: HolderId::parse(holder), label: row.get(1)?, waited: Some(between(row.get(2)?, now)) })
    };
    let rows = statement.query_map(params![connection.namespace(), name.as_str(), now - ENTRY_NANOS], waiter)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
