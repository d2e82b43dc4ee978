//! How answers are read.

use std::time::Duration;

use sqlx::Row;
use sqlx::mysql::MySqlRow;

use super::call::Rows;
use super::fault::Fault;
use crate::error::{Error, ErrorKind};
use crate::lease::{Attempt, Claim, FencingToken, Grant, Holder, HolderId, Holding, Renewal, disagreement};
use crate::name::LockName;
use crate::tick::{NotDue, Tick};

/// What came of asking for a lease.
pub(super) fn attempt(rows: &Rows, claim: &Claim) -> Result<Result<Attempt, Error>, Fault> {
    let (first, rest) = rows.split_first().ok_or_else(nothing)?;
    let outcome: i64 = first.try_get(0)?;
    Ok(Ok(match outcome {
        1 => Attempt::Granted(grant(first)?),
        2 => {
            let ticket: Option<i64> = first.try_get(2)?;
            let ticket = ticket.map(i64::cast_unsigned);
            Attempt::Held(Holding { ticket, ..holding(claim.name.clone(), first, rest)? })
        }
        3 => Attempt::NotDue(NotDue::Claimed { newest: tick(first.try_get(1)?), unfinished: flag(first, 2)? }),
        4 => Attempt::NotDue(NotDue::InFuture { ahead: millis(first, 1)? }),
        5 => Attempt::NotDue(NotDue::TooOld { behind: millis(first, 1)? }),
        6 => return Ok(Err(disagreement(claim, count(first, 1)?))),
        7 => return Ok(Err(clock_is_wrong())),
        _ => return Err(nothing()),
    }))
}

fn grant(row: &MySqlRow) -> Result<Grant, Fault> {
    let gave_up: Option<i64> = row.try_get(3)?;
    Ok(Grant { token: token(row, 1)?, attempt: count(row, 2)?, gave_up: gave_up.map(tick) })
}

fn clock_is_wrong() -> Error {
    Error::new(
        ErrorKind::Misconfigured,
        "the server's clock was set back by more than an hour, or is before this program was built; fencing tokens start \
         from it, so set it",
    )
}

/// Who holds a name, by the rows of `leasehold_v1_told`; none if it is free and nobody waits.
pub(super) fn inspected(rows: &Rows, name: &LockName) -> Result<Option<Holding>, Fault> {
    let (first, rest) = rows.split_first().ok_or_else(nothing)?;
    let found = holding(name.clone(), first, rest)?;
    Ok(Some(found).filter(|found| !found.free_in().is_zero() || found.waiting > 0))
}

fn holding(name: LockName, first: &MySqlRow, rest: &[MySqlRow]) -> Result<Holding, Fault> {
    let holders = rest.iter().map(|row| holder(row, 0)).collect::<Result<Vec<_>, Fault>>()?;
    let waiting = number(first, 1)?.cast_unsigned();
    Ok(Holding { waiting, ..Holding::of(name, count(first, 3)?, holders) })
}

/// All names in a list, whose rows are in their order.
pub(super) fn listed(rows: &Rows) -> Result<Vec<Holding>, Fault> {
    let mut found = Vec::new();
    for rows in rows.chunk_by(|one, other| name_of(one).ok() == name_of(other).ok()) {
        let first = &rows[0];
        let name = LockName::new(&String::from_utf8_lossy(name_of(first)?)).map_err(|_| nothing())?;
        let mut holders = rows.iter().map(|row| holder(row, 3)).collect::<Result<Vec<_>, Fault>>()?;
        if holders.iter().all(|holder| holder.remaining.is_zero()) {
            holders.sort_by_key(|holder| std::cmp::Reverse(holder.token));
            holders.truncate(1);
        }
        let waiting = number(first, 2)?.cast_unsigned();
        found.push(Holding { waiting, ..Holding::of(name, count(first, 1)?, holders) });
    }
    Ok(found)
}

fn name_of(row: &MySqlRow) -> Result<&[u8], Fault> {
    Ok(row.try_get(0)?)
}

/// Six columns from `at` on.
fn holder(row: &MySqlRow, at: usize) -> Result<Holder, Fault> {
    let holder: Option<&[u8]> = row.try_get(at)?;
    let remaining = micros(row, at + 4)?;
    let is_over = remaining.is_zero();
    let holder = holder.filter(|_| !is_over);
    Ok(Holder {
        holder: holder.and_then(|holder| HolderId::parse(std::str::from_utf8(holder).ok()?)),
        label: row.try_get(at + 1)?,
        token: token(row, at + 2)?,
        held_for: micros(row, at + 3)?,
        remaining,
        revoked: flag(row, at + 5)? && !is_over,
    })
}

/// A digit for each of so many leases.
pub(super) fn renewals(
    rows: &Rows,
    count: usize,
    busy: impl Fn() -> Error,
) -> Result<Vec<Result<Renewal, Error>>, Fault> {
    let digits: &str = rows.first().ok_or_else(nothing)?.try_get(0)?;
    if digits.len() != count {
        return Err(nothing());
    }
    let read = |digit| match digit {
        '1' => Ok(Renewal::Renewed),
        '2' => Ok(Renewal::Revoked),
        '3' => Err(busy()),
        _ => Ok(Renewal::Gone),
    };
    Ok(digits.chars().map(read).collect())
}

/// Whether something was done.
pub(super) fn was_done(rows: &Rows) -> Result<bool, Fault> {
    flag(rows.first().ok_or_else(nothing)?, 0)
}

/// The time since 1970.
pub(super) fn time(rows: &Rows) -> Result<Duration, Fault> {
    micros(rows.first().ok_or_else(nothing)?, 0)
}

fn number(row: &MySqlRow, at: usize) -> Result<i64, Fault> {
    Ok(row.try_get(at)?)
}

fn flag(row: &MySqlRow, at: usize) -> Result<bool, Fault> {
    Ok(number(row, at)? != 0)
}

fn count(row: &MySqlRow, at: usize) -> Result<u32, Fault> {
    Ok(u32::try_from(number(row, at)?).unwrap_or(u32::MAX))
}

fn token(row: &MySqlRow, at: usize) -> Result<FencingToken, Fault> {
    Ok(FencingToken::new(number(row, at)?.cast_unsigned()))
}

fn micros(row: &MySqlRow, at: usize) -> Result<Duration, Fault> {
    Ok(Duration::from_micros(u64::try_from(number(row, at)?).unwrap_or(0)))
}

fn millis(row: &MySqlRow, at: usize) -> Result<Duration, Fault> {
    Ok(Duration::from_millis(u64::try_from(number(row, at)?).unwrap_or(0)))
}

/// A tick as it was stored.
fn tick(millis: i64) -> Tick {
    Tick::from_unix_millis(millis).unwrap_or(Tick::ONLY)
}

fn nothing() -> Fault {
    Fault::Sent(sqlx::Error::RowNotFound)
}
