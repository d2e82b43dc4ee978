//! Which ticks of a name were claimed: the mark beside its lock, and the table of those that are not finished.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::hex::Hex;
use crate::lease::{HolderId, LeaseKey};
use crate::name::LockName;
use crate::store::OPEN_TICKS;
use crate::tick::{Due, OpenTick, Standing, Tick, Verdict};

/// How many names are forgotten at one claim: a few more than one claim can bring.
const FORGOTTEN_AT_ONCE: usize = 8;

/// How `due` stands, if `is_alive` says who still has a lease. No key is forgotten where somebody else's lease `is_in_the_way`.
pub(super) fn standing(
    writing: &Writing<'_>,
    name: &LockName,
    due: Due,
    is_in_the_way: bool,
    is_alive: impl Fn(HolderId) -> bool,
) -> Result<Standing, Fault> {
    if let Err(why) = due.tick.window(writing.utc(), due.keep) {
        return Ok(Standing::Over(why));
    }
    let open = open(writing, name, due.tick)?;
    let is_running = open.and_then(|open| open.holder).is_some_and(&is_alive);
    if !is_running && !is_in_the_way && forget_what_is_over(writing, name)? {
        return Ok(Standing::ForClaim);
    }
    Ok(due.standing(newest(writing, name)?, open.as_ref(), is_alive))
}

/// Claims the tick for who has the lock. Answers how often it has been now, and which one was given up.
pub(super) fn claim(writing: &Writing<'_>, lease: &LeaseKey, due: Due) -> Result<(u32, Option<Tick>), Fault> {
    let LeaseKey { name, holder } = lease;
    forget_old_names(writing)?;
    set_mark(writing, name, due)?;
    let known = open(writing, name, due.tick)?;
    let open = known.map_or_else(|| OpenTick::new(*holder, due), |open| open.again(*holder, due));
    set_open(writing, name, due.tick, open)?;
    let gave_up = if known.is_none() { give_up_oldest(writing, name)? } else { None };
    Ok((open.attempts, gave_up))
}

/// How often the tick that `holder` has was claimed; 0 if it has none.
pub(super) fn attempts(writing: &Writing<'_>, name: &LockName, holder: HolderId) -> Result<u32, Fault> {
    let mut statement = writing
        .db
        .prepare_cached("select attempts from leasehold_ticks where ns = ?1 and name = ?2 and holder = ?3")?;
    let holder = Hex::of(holder);
    let mine = params![writing.namespace(), name.as_str(), holder.as_str()];
    Ok(statement.query_row(mine, |row| row.get(0)).optional()?.unwrap_or(0))
}

/// What a holder says at its end.
pub(super) fn judge(writing: &Writing<'_>, lease: &LeaseKey, verdict: Verdict) -> Result<(), Fault> {
    let (namespace, name, holder) = (writing.namespace(), lease.name.as_str(), Hex::of(lease.holder));
    let told = match verdict {
        Verdict::Done(tick) => {
            let mut statement =
                writing.db.prepare_cached("delete from leasehold_ticks where ns = ?1 and name = ?2 and tick = ?3")?;
            statement.execute(params![namespace, name, tick.as_unix_millis()])?
        }
        Verdict::Failed => {
            let mut statement = writing.db.prepare_cached(
                "delete from leasehold_ticks where ns = ?1 and name = ?2 and holder = ?3 and once = 1",
            )?;
            statement.execute(params![namespace, name, holder.as_str()])?
        }
        Verdict::NotStarted => {
            let mut statement = writing.db.prepare_cached(
                "update leasehold_ticks set holder = null, attempts = max(attempts - 1, 0)
                 where ns = ?1 and name = ?2 and holder = ?3",
            )?;
            statement.execute(params![namespace, name, holder.as_str()])?
        }
    };
    // What is remembered for a while is so from its end on. Who only leaves ends nothing.
    if verdict == Verdict::NotStarted && told == 0 {
        return Ok(());
    }
    let mut statement = writing.db.prepare_cached(
        "update leasehold_locks set forget_at = ?3 + keep
         where ns = ?1 and name = ?2 and slot = 0 and forget_at is not null",
    )?;
    statement.execute(params![namespace, name, millis(writing.utc())])?;
    Ok(())
}

/// Forgets all that is known of a name's ticks; whether there was a mark.
pub(super) fn reset(connection: &mut Connection, name: &LockName) -> Result<bool, Fault> {
    connection.write_durably(|writing| {
        let known = params![writing.namespace(), name.as_str()];
        let mut forget = writing.db.prepare_cached(
            "update leasehold_locks set mark = null, keep = null, forget_at = null
             where ns = ?1 and name = ?2 and slot = 0 and mark is not null",
        )?;
        let had_a_mark = forget.execute(known)? > 0;
        writing.db.prepare_cached("delete from leasehold_ticks where ns = ?1 and name = ?2")?.execute(known)?;
        Ok(had_a_mark)
    })
}

fn newest(writing: &Writing<'_>, name: &LockName) -> Result<Option<Tick>, Fault> {
    let mut statement =
        writing.db.prepare_cached("select mark from leasehold_locks where ns = ?1 and name = ?2 and slot = 0")?;
    let mark: Option<Option<i64>> =
        statement.query_row(params![writing.namespace(), name.as_str()], |row| row.get(0)).optional()?;
    Ok(mark.flatten().map(tick))
}

/// A key is remembered for a while, a job's mark for ever: there are few jobs, and many keys. Where the lease is in another
/// store, the name may have no row yet.
fn set_mark(writing: &Writing<'_>, name: &LockName, due: Due) -> Result<(), Fault> {
    let keep = (due.tick == Tick::ONLY).then(|| millis(due.keep));
    let mut statement = writing.db.prepare_cached(
        "insert into leasehold_locks(
            ns, name, slot, holder, label, token, granted, expires, revoked, mark, keep, forget_at)
         values(?1, ?2, 0, null, '',
            coalesce((select token from leasehold_locks where ns = '' and name = '' and slot = 0), 0),
            0, 0, 0, ?3, ?4, ?5 + ?4)
         on conflict(ns, name, slot) do update set
            mark = max(coalesce(mark, ?3), ?3), keep = ?4, forget_at = ?5 + ?4",
    )?;
    let now = millis(writing.utc());
    statement.execute(params![writing.namespace(), name.as_str(), due.tick.as_unix_millis(), keep, now])?;
    Ok(())
}

/// What stands open of a tick.
pub(super) fn open(writing: &Writing<'_>, name: &LockName, tick: Tick) -> Result<Option<OpenTick>, Fault> {
    let mut statement = writing.db.prepare_cached(
        "select holder, attempts, once from leasehold_ticks where ns = ?1 and name = ?2 and tick = ?3",
    )?;
    let read = |row: &Row<'_>| {
        let holder = row.get_ref(0)?.as_str_or_null()?.and_then(HolderId::parse);
        Ok(OpenTick { holder, attempts: row.get(1)?, once: row.get(2)? })
    };
    Ok(statement.query_row(params![writing.namespace(), name.as_str(), tick.as_unix_millis()], read).optional()?)
}

fn set_open(writing: &Writing<'_>, name: &LockName, tick: Tick, open: OpenTick) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "insert or replace into leasehold_ticks(ns, name, tick, holder, attempts, once)
         values(?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let holder = open.holder.map(Hex::of);
    let holder = holder.as_ref().map(Hex::as_str);
    let (namespace, tick) = (writing.namespace(), tick.as_unix_millis());
    statement.execute(params![namespace, name.as_str(), tick, holder, open.attempts, open.once])?;
    Ok(())
}

/// Too many are open: the oldest one is not to be tried again.
fn give_up_oldest(writing: &Writing<'_>, name: &LockName) -> Result<Option<Tick>, Fault> {
    let mut statement = writing.db.prepare_cached(
        "delete from leasehold_ticks where ns = ?1 and name = ?2 and tick = (
            select tick from leasehold_ticks where ns = ?1 and name = ?2 order by tick desc limit 1 offset ?3)
         returning tick",
    )?;
    let gave_up: Option<i64> = statement
        .query_row(params![writing.namespace(), name.as_str(), OPEN_TICKS as i64], |row| row.get(0))
        .optional()?;
    Ok(gave_up.map(tick))
}

/// Forgets this key, if its time is over; answers whether it did. Its counter stays.
fn forget_what_is_over(writing: &Writing<'_>, name: &LockName) -> Result<bool, Fault> {
    let mut statement = writing.db.prepare_cached(
        "update leasehold_locks set mark = null, keep = null, forget_at = null
         where ns = ?1 and name = ?2 and slot = 0 and forget_at <= ?3",
    )?;
    let (namespace, name) = (writing.namespace(), name.as_str());
    let is_over = statement.execute(params![namespace, name, millis(writing.utc())])? > 0;
    if is_over {
        let mut statement = writing.db.prepare_cached("delete from leasehold_ticks where ns = ?1 and name = ?2")?;
        statement.execute(params![namespace, name])?;
    }
    Ok(is_over)
}

/// Keys whose time to be remembered is over, unless somebody has them.
fn forget_old_names(writing: &Writing<'_>) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "select ns, name from leasehold_locks l where forget_at <= ?1 and not exists (
            select 1 from leasehold_locks o where o.ns = l.ns and o.name = l.name and o.expires > ?2) limit ?3",
    )?;
    let old = statement.query_map(params![millis(writing.utc()), writing.now, FORGOTTEN_AT_ONCE as i64], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    // No name is empty: the row of the empty one says how far the forgotten ones had counted, without their epochs. Not even
    // a wall clock that is set back may bring their tokens again.
    let mut counted = writing.db.prepare_cached(
        "insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked)
         select '', '', 0, null, '', max(token & 0x3fffffffffff), 0, 0, 0 from leasehold_locks
         where ns = ?1 and name = ?2
         on conflict(ns, name, slot) do update set token = max(token, excluded.token)",
    )?;
    for forgotten in old.collect::<rusqlite::Result<Vec<_>>>()? {
        counted.execute(params![forgotten.0, forgotten.1])?;
        for table in ["leasehold_locks", "leasehold_ticks"] {
            let mut statement =
                writing.db.prepare_cached(&format!("delete from {table} where ns = ?1 and name = ?2"))?;
            statement.execute(params![forgotten.0, forgotten.1])?;
        }
    }
    Ok(())
}

/// The largest token of all names that were forgotten: a name that is new may be one of them.
pub(super) fn last_forgotten_token(writing: &Writing<'_>) -> Result<Option<i64>, Fault> {
    let mut statement =
        writing.db.prepare_cached("select token from leasehold_locks where ns = '' and name = '' and slot = 0")?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

/// A tick as it was stored.
fn tick(millis: i64) -> Tick {
    Tick::from_unix_millis(millis).unwrap_or(Tick::ONLY)
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
