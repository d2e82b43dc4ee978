//! The lease algorithm: what each operation does to the tables.

use std::num::NonZeroU32;
use std::time::Duration;

use rusqlite::{Row, Rows, params};

use super::connection::{Connection, Writing};
use super::fault::Fault;
use super::hex::Hex;
use super::queue::{self, ENTRY_NANOS};
use super::ticks;
use crate::error::{Error, ErrorKind};
use crate::lease::{
    Attempt, Claim, Ended, FencingToken, Grant, Holder, HolderId, Holding, LeaseKey, Release, Renewal, Revoke,
    disagreement,
};
use crate::name::LockName;
use crate::store::Epoch;
use crate::tick::{Standing, Tick, Verdict};

/// Wall-clock milliseconds from 1970 to 2020, where tokens begin to count.
const EPOCH_2020_MS: i64 = 1_577_836_800_000;

/// The first milliseconds since 2020 that would need more than 42 bits: the year 2159.
const LAST_MS: i64 = 1 << 42;

/// The whole of an acquire of a plain lock when nobody is in the way: one statement that takes the write lock, decides
/// and commits. No row: somebody is, and `decide` finds out who. In the order of the contract: the same holder alive
/// keeps its grant; then the queue; then the lease.
const GRANT_AT_ONCE: &str = "
    insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked)
    values(?1, ?2, 0, ?3, ?4,
        max(?5, 1 + coalesce((select token from leasehold_locks where ns = '' and name = '' and slot = 0), 0)),
        ?6, ?7, 0)
    on conflict(ns, name, slot) do update set
        tag = case when holder = ?3 and expires > ?6 then tag end,
        token = case when holder = ?3 and expires > ?6 then token else max(token + 1, ?5) end,
        granted = case when holder = ?3 and expires > ?6 then granted else ?6 end,
        expires = case when holder = ?3 and expires > ?6 then max(expires, ?7) else ?7 end,
        holder = ?3, label = ?4, revoked = 0
    where permits = 1 and (
        (holder = ?3 and expires > ?6 and revoked = 0)
        or (expires <= ?6 and not exists (
            select 1 from leasehold_waiters w where w.ns = ?1 and w.name = ?2 and w.seen > ?6 - 1000000000)))
    returning token";

const _: () = assert!(ENTRY_NANOS == 1_000_000_000, "as GRANT_AT_ONCE and SHOWN say");

/// Asks for a lease.
pub(super) fn acquire(connection: &mut Connection, claim: &Claim) -> Result<Attempt, Fault> {
    // Where waiting for the write lock is possible, time may pass; `decide` reads the clock after it.
    // A claimant with a ticket stands in the queue, and its entry has to be taken out too.
    let has_ticket = claim.queue.is_some_and(|place| place.ticket.is_some());
    let is_plain = claim.permits == NonZeroU32::MIN && claim.due.is_none();
    let floor = token_floor(connection.database.machine.wall_ms());
    if let Some(floor) = floor
        && is_plain
        && !connection.is_patient()
        && !has_ticket
        && let Some(grant) = grant_at_once(connection, claim, floor)?
    {
        return Ok(Attempt::Granted(grant));
    }
    if claim.due.is_some() {
        // A claim with a tick has to survive a power failure: the tick would run once more.
        return connection.write_durably(|writing| decide(writing, claim, None, floor));
    }
    connection.write(|writing| decide(writing, claim, None, floor))
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
    Ok(token.map(|token| grant(token, 0, None)))
}

/// The careful way: as [`GRANT_AT_ONCE`], and the tick, the permits and the queue with it. What is granted has this tag.
pub(super) fn decide(
    writing: &Writing<'_>,
    claim: &Claim,
    tag: Option<Epoch>,
    floor: Option<i64>,
) -> Result<Attempt, Fault> {
    let leases = Leases::find(writing, &claim.name)?;
    if let Some(lease) = leases.of(claim.holder, writing.now).filter(|lease| !lease.revoked) {
        let end = lease.expires.max(after(writing.now, claim.ttl));
        set_end(writing, &claim.name, lease.slot, end)?;
        queue::forget(writing, &claim.name, claim.holder)?;
        let attempts = ticks::attempts(writing, &claim.name, claim.holder)?;
        return Ok(Attempt::Granted(grant(lease.token, attempts, None)));
    }
    if leases.held(writing.now).next().is_some() && leases.permits != i64::from(claim.permits.get()) {
        return Err(disagreement(claim, u32::try_from(leases.permits).unwrap_or(1)).into());
    }
    if let Some(due) = claim.due {
        let is_held = leases.live(writing.now).next().is_some();
        match ticks::standing(writing, &claim.name, due, is_held, |holder| leases.of(holder, writing.now).is_some())? {
            Standing::ForClaim => {}
            Standing::Running => {
                queue::forget(writing, &claim.name, claim.holder)?;
                let waiting = queue::count(writing, &claim.name)?;
                return Ok(Attempt::Held(leases.holding(claim.name.clone(), writing.now, waiting, None)));
            }
            Standing::Over(why) => {
                queue::forget(writing, &claim.name, claim.holder)?;
                return Ok(Attempt::NotDue(why));
            }
        }
    }
    let place = queue::place(writing, claim)?;
    let ahead = queue::ahead(writing, claim, place)?;
    let taken = leases.live(writing.now).count();
    let free = i64::from(claim.permits.get()).saturating_sub(i64::try_from(taken).unwrap_or(i64::MAX));
    // One that was revoked has its permit still, and is to have no other.
    let is_revoked = leases.of(claim.holder, writing.now).is_some();
    if !is_revoked && free > ahead {
        let granted = grant_to(writing, claim, &leases, tag, floor)?;
        queue::forget(writing, &claim.name, claim.holder)?;
        return Ok(Attempt::Granted(granted));
    }
    if let Some(ticket) = place {
        queue::enter(writing, claim, ticket)?;
    }
    let ticket = place.map(i64::cast_unsigned);
    Ok(Attempt::Held(leases.holding(claim.name.clone(), writing.now, ahead.cast_unsigned(), ticket)))
}

/// Renews leases, all in one transaction; with a tag, only those that have it.
pub(super) fn renew(
    connection: &mut Connection,
    leases: &[(LeaseKey, Duration)],
    tag: Option<Epoch>,
) -> Result<Vec<Renewal>, Fault> {
    connection.write(|writing| leases.iter().map(|(lease, ttl)| renew_one(writing, lease, *ttl, tag)).collect())
}

fn renew_one(writing: &Writing<'_>, lease: &LeaseKey, ttl: Duration, tag: Option<Epoch>) -> Result<Renewal, Fault> {
    // Never back: an overtaken renewal must not cut what a later one has promised.
    let mut statement = writing.db.prepare_cached(
        "update leasehold_locks set expires = max(expires, ?5)
         where ns = ?1 and name = ?2 and holder = ?3 and expires > ?4 and revoked = 0 and (?6 is null or tag = ?6)",
    )?;
    let holder = Hex::of(lease.holder);
    let name = lease.name.as_str();
    let (end, number) = (after(writing.now, ttl), tag.map(number));
    if statement.execute(params![writing.namespace(), name, holder.as_str(), writing.now, end, number])? == 1 {
        return Ok(Renewal::Renewed);
    }
    let leases = Leases::find(writing, &lease.name)?;
    let alive = leases.of(lease.holder, writing.now).filter(|alive| tag.is_none() || alive.tag == tag);
    Ok(if alive.is_some() { Renewal::Revoked } else { Renewal::Gone })
}

/// Ends a lease, and says what became of the work.
pub(super) fn release(connection: &mut Connection, lease: &LeaseKey, how: Ended) -> Result<Release, Fault> {
    let freed = match how.verdict {
        // That it is done has to survive as the claim has.
        Some(verdict) => connection.write_durably(|writing| {
            ticks::judge(writing, lease, verdict)?;
            free(&writing.db, writing.namespace(), writing.now, lease, how.keep_for)
        })?,
        None if connection.is_patient() => {
            connection.write(|writing| free(&writing.db, writing.namespace(), writing.now, lease, how.keep_for))?
        }
        None => free(&connection.db, connection.namespace(), connection.now(), lease, how.keep_for)?,
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

/// Leaves the queue, and ends the lease if it was granted meanwhile: its work was not begun.
pub(super) fn leave(connection: &mut Connection, waiter: &LeaseKey) -> Result<(), Fault> {
    connection.write(|writing| {
        queue::forget(writing, &waiter.name, waiter.holder)?;
        ticks::judge(writing, waiter, Verdict::NotStarted)?;
        free(&writing.db, writing.namespace(), writing.now, waiter, Duration::ZERO).map(drop)
    })
}

/// Ends somebody else's hold, or everybody's; answers what it was.
pub(super) fn revoke(
    connection: &mut Connection,
    name: &LockName,
    whose: Option<HolderId>,
    how: Revoke,
) -> Result<Option<Holding>, Fault> {
    connection.write(|writing| {
        let is_meant =
            |lease: &Lease| lease.expires > writing.now && whose.is_none_or(|holder| lease.holder == Some(holder));
        let mut leases = Leases::find(writing, name)?;
        leases.rows.retain(is_meant);
        if leases.rows.is_empty() {
            return Ok(None);
        }
        let mut statement = writing.db.prepare_cached(match how {
            Revoke::Gently => "update leasehold_locks set revoked = 1 where ns = ?1 and name = ?2 and slot = ?3",
            Revoke::Now => {
                "update leasehold_locks set holder = null, expires = 0, revoked = 0
                 where ns = ?1 and name = ?2 and slot = ?3"
            }
        })?;
        for lease in &leases.rows {
            statement.execute(params![writing.namespace(), name.as_str(), lease.slot])?;
        }
        let waiting = queue::count(writing, name)?;
        Ok(Some(leases.holding(name.clone(), writing.now, waiting, None)))
    })
}

/// What is shown of a name that is held, kept or waited for: all its leases, so many as wait beside each; and its first
/// slot, which says how many permits there are.
const SHOWN: &str = "
    select l.slot, l.holder, l.label, l.token, l.granted, l.expires, l.revoked, l.permits, l.name,
        (select count(*) from leasehold_waiters w
         where w.ns = l.ns and w.name = l.name and w.seen > ?2 - 1000000000)
    from leasehold_locks l where l.ns = ?1 and (l.slot = 0 or l.expires > ?2)";

/// Who holds a name.
pub(super) fn inspect(connection: &Connection, name: &LockName) -> Result<Option<Holding>, Fault> {
    let sql = format!("{SHOWN} and l.name = ?3 order by l.name, l.slot");
    let mut statement = connection.db.prepare_cached(&sql)?;
    let now = connection.now();
    let rows = statement.query(params![connection.namespace(), now, name.as_str()])?;
    let found = shown(rows, now)?.pop();
    Ok(found.filter(|found| !found.free_in().is_zero() || found.waiting > 0))
}

/// Every name that is held, kept or waited for, in order. Looks at all names, free ones included, but only once: keys
/// may be many.
pub(super) fn list(connection: &Connection) -> Result<Vec<Holding>, Fault> {
    let sql = format!(
        "{SHOWN} and l.name in (
            select name from leasehold_locks where ns = ?1 and expires > ?2
            union select name from leasehold_waiters where ns = ?1 and seen > ?2 - 1000000000)
         order by l.name, l.slot"
    );
    let mut statement = connection.db.prepare_cached(&sql)?;
    let now = connection.now();
    shown(statement.query(params![connection.namespace(), now])?, now)
}

/// One answer for each name: its rows follow one another, the first slot's first.
fn shown(mut rows: Rows<'_>, now: i64) -> Result<Vec<Holding>, Fault> {
    let mut names: Vec<(String, i64, Leases)> = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(8)?;
        if names.last().is_none_or(|(last, ..)| *last != name) {
            names.push((name, row.get(9)?, Leases::default()));
        }
        names.last_mut().expect("one was put there").2.push(row)?;
    }
    let told = names
        .into_iter()
        .map(|(name, waiting, leases)| Ok(leases.holding(LockName::new(&name)?, now, waiting.cast_unsigned(), None)));
    told.collect()
}

/// The rows of one name.
#[derive(Debug)]
pub(super) struct Leases {
    permits: i64,
    rows: Vec<Lease>,
}

/// A row of the table of locks.
#[derive(Debug, Default)]
pub(super) struct Lease {
    slot: i64,
    pub holder: Option<HolderId>,
    label: String,
    token: i64,
    granted: i64,
    pub expires: i64,
    pub revoked: bool,
    /// Under which route it was granted, if under one.
    pub tag: Option<Epoch>,
}

impl Default for Leases {
    fn default() -> Self {
        Self { permits: 1, rows: Vec::new() }
    }
}

impl Leases {
    pub fn find(writing: &Writing<'_>, name: &LockName) -> Result<Self, Fault> {
        let mut statement = writing.db.prepare_cached(
            "select slot, holder, label, token, granted, expires, revoked, permits, tag
             from leasehold_locks where ns = ?1 and name = ?2 order by slot",
        )?;
        let mut rows = statement.query(params![writing.namespace(), name.as_str()])?;
        let mut leases = Self::default();
        while let Some(row) = rows.next()? {
            leases.push(row)?;
            let tag: Option<i64> = row.get(8)?;
            leases.rows.last_mut().expect("one was put there").tag = tag.map(epoch);
        }
        Ok(leases)
    }

    fn push(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let lease = Lease {
            slot: row.get(0)?,
            holder: row.get_ref(1)?.as_str_or_null()?.and_then(HolderId::parse),
            label: row.get(2)?,
            token: row.get(3)?,
            granted: row.get(4)?,
            expires: row.get(5)?,
            revoked: row.get(6)?,
            tag: None,
        };
        if lease.slot == 0 {
            self.permits = row.get(7)?;
        }
        self.rows.push(lease);
        Ok(())
    }

    /// Those whose time is not over, tombstones of minimum holds included.
    pub fn live(&self, now: i64) -> impl Iterator<Item = &Lease> {
        self.rows.iter().filter(move |lease| lease.expires > now)
    }

    fn held(&self, now: i64) -> impl Iterator<Item = &Lease> {
        self.live(now).filter(|lease| lease.holder.is_some())
    }

    pub fn of(&self, holder: HolderId, now: i64) -> Option<&Lease> {
        self.held(now).find(|lease| lease.holder == Some(holder))
    }

    /// The first slot that nobody has. The rows are in order of slot.
    fn free_slot(&self, now: i64) -> i64 {
        self.live(now).fold(0, |free, lease| if lease.slot == free { free + 1 } else { free })
    }

    /// None if it was never granted.
    fn last_token(&self) -> Option<i64> {
        self.rows.iter().map(|lease| lease.token).max().filter(|token| *token > 0)
    }

    /// How it stands. Once nobody holds it, who held it last.
    fn holding(&self, name: LockName, now: i64, waiting: u64, ticket: Option<u64>) -> Holding {
        let mut holders: Vec<_> = self.live(now).map(|lease| lease.shown(now)).collect();
        if holders.is_empty() {
            holders.extend(self.rows.iter().max_by_key(|lease| lease.token).map(|lease| lease.shown(now)));
        }
        let permits = u32::try_from(self.permits).unwrap_or(1);
        Holding { waiting, ticket, ..Holding::of(name, permits, holders) }
    }
}

impl Lease {
    fn shown(&self, now: i64) -> Holder {
        let is_free = self.expires <= now;
        Holder {
            holder: self.holder.filter(|_| !is_free),
            label: self.label.clone(),
            library: None,
            token: FencingToken::new(self.token.cast_unsigned()),
            held_for: between(self.granted, now),
            remaining: between(now, self.expires),
            revoked: self.revoked && !is_free,
        }
    }
}

fn grant_to(
    writing: &Writing<'_>,
    claim: &Claim,
    leases: &Leases,
    tag: Option<Epoch>,
    floor: Option<i64>,
) -> Result<Grant, Fault> {
    let (namespace, name, now) = (writing.namespace(), claim.name.as_str(), writing.now);
    let last = leases.last_token().map_or_else(|| ticks::last_forgotten_token(writing), |last| Ok(Some(last)))?;
    let (slot, token) = (leases.free_slot(now), token_after(last, tag, floor)?);
    let mut statement = writing.db.prepare_cached(
        "insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked, tag)
         values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9)
         on conflict(ns, name, slot) do update set
            holder = ?4, label = ?5, token = ?6, granted = ?7, expires = ?8, revoked = 0, tag = ?9",
    )?;
    let holder = Hex::of(claim.holder);
    let (end, tag) = (after(now, claim.ttl), tag.map(number));
    statement.execute(params![namespace, name, slot, holder.as_str(), &*claim.label, token, now, end, tag])?;
    let permits = i64::from(claim.permits.get());
    if slot > 0 || leases.permits != permits {
        agree_on_permits(writing, &claim.name, permits, token)?;
    }
    let lease = LeaseKey { name: claim.name.clone(), holder: claim.holder };
    let (attempt, gave_up) = claim.due.map_or(Ok((0, None)), |due| ticks::claim(writing, &lease, due))?;
    Ok(grant(token, attempt, gave_up))
}

/// Writes down how many permits there are, and lets go of slots that are none any more. Their tokens are smaller than
/// `token`.
fn agree_on_permits(writing: &Writing<'_>, name: &LockName, permits: i64, token: i64) -> Result<(), Fault> {
    let mut statement = writing.db.prepare_cached(
        "insert into leasehold_locks(ns, name, slot, holder, label, token, granted, expires, revoked, permits)
         values(?1, ?2, 0, null, '', ?4, 0, 0, 0, ?3)
         on conflict(ns, name, slot) do update set permits = ?3",
    )?;
    statement.execute(params![writing.namespace(), name.as_str(), permits, token])?;
    let mut statement = writing
        .db
        .prepare_cached("delete from leasehold_locks where ns = ?1 and name = ?2 and slot >= ?3 and expires <= ?4")?;
    statement.execute(params![writing.namespace(), name.as_str(), permits, writing.now])?;
    Ok(())
}

fn set_end(writing: &Writing<'_>, name: &LockName, slot: i64, end: i64) -> Result<(), Fault> {
    let mut statement = writing
        .db
        .prepare_cached("update leasehold_locks set expires = ?4 where ns = ?1 and name = ?2 and slot = ?3")?;
    statement.execute(params![writing.namespace(), name.as_str(), slot, end])?;
    Ok(())
}

/// What the wall clock makes of a token: larger than all that a lost file gave out. None if it can't be right.
pub(super) fn token_floor(wall_ms: i64) -> Option<i64> {
    let since_2020 = wall_ms.saturating_sub(EPOCH_2020_MS);
    let built = i64::try_from(FencingToken::BUILT.as_millis()).unwrap_or(i64::MAX) - EPOCH_2020_MS;
    (built..LAST_MS).contains(&since_2020).then_some(since_2020 << 4)
}

/// A counter that is there just goes on, whatever the wall clock shows; a new one needs it.
fn next_token(last: Option<i64>, floor: Option<i64>) -> Result<i64, Error> {
    match (last, floor) {
        (Some(last), floor) => Ok((last + 1).max(floor.unwrap_or(0))),
        (None, Some(floor)) => Ok(floor),
        (None, None) => Err(Error::new(
            ErrorKind::Misconfigured,
            "the wall clock is before this program was built or after 2158; fencing tokens start from it, so set it",
        )),
    }
}

/// The token of the next grant under a tag. A counter goes on within its epoch, and so does one that has none: of a plain
/// grant, or of names that were forgotten. The next epoch's are larger anyway, and one that was carried here has another
/// store's counter.
fn token_after(last: Option<i64>, tag: Option<Epoch>, floor: Option<i64>) -> Result<i64, Error> {
    let Some(epoch) = tag else { return next_token(last, floor) };
    let none_left = || Error::new(ErrorKind::Misconfigured, format!("there is no token left in epoch {epoch}"));
    let first = number_of(epoch.token(0).ok_or_else(none_left)?);
    let has_epoch = |last: i64| Epoch::FIRST.token(0).is_some_and(|least| last >= number_of(least));
    let counter = last
        .map(|last| if has_epoch(last) { last - first } else { last })
        .filter(|counter| epoch.token(counter.cast_unsigned()).is_some());
    let next = next_token(counter, floor)?;
    epoch.token(next.cast_unsigned()).map(number_of).ok_or_else(none_left)
}

fn number_of(token: FencingToken) -> i64 {
    token.number().cast_signed()
}

/// As it is stored.
pub(super) fn number(epoch: Epoch) -> i64 {
    i64::try_from(epoch.number()).unwrap_or(i64::MAX)
}

/// As it was stored.
pub(super) fn epoch(number: i64) -> Epoch {
    Epoch::new(number.cast_unsigned())
}

fn grant(token: i64, attempt: u32, gave_up: Option<Tick>) -> Grant {
    Grant { attempt, gave_up, ..Grant::of(FencingToken::new(token.cast_unsigned())) }
}

pub(super) fn after(now: i64, span: Duration) -> i64 {
    now.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

pub(super) fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_nanos(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}
