//! How rows are read.

use std::time::Duration;

use sqlx::Row;
use sqlx::mysql::MySqlRow;

use super::call::Rows;
use super::fault::Fault;
use crate::error::{ErrorKind, Result as Told};
use crate::lease::{HolderId, Waiter};
use crate::store::Noted;
use crate::stores::sql::arbiter::{Stored, Ticked};
use crate::stores::sql::{self, Acquired, Shown, Taken, by_name, notes};

/// The answer to a claim: what its columns are, the first one says.
pub(super) fn acquired(rows: &Rows) -> Result<Acquired, Fault> {
    let (first, rest) = rows.split_first().ok_or(Fault::Garbled)?;
    let outcome = first.try_get(0)?;
    let answer = Acquired { outcome, ..Acquired::default() };
    Ok(match outcome {
        1 => Acquired { token: first.try_get(1)?, attempt: first.try_get(2)?, value: first.try_get(3)?, ..answer },
        2 => Acquired {
            ahead: first.try_get(1)?,
            ticket: first.try_get(2)?,
            permits: first.try_get(3)?,
            taken: rest.iter().map(|row| taken(row, 0)).collect::<Result<_, _>>()?,
            ..answer
        },
        3 => Acquired { value: first.try_get(1)?, attempt: first.try_get(2)?, ..answer },
        6 => Acquired { permits: first.try_get(1)?, ..answer },
        4 | 5 => Acquired { value: first.try_get(1)?, ..answer },
        _ => answer,
    })
}

/// How a name stands, by the rows of `leasehold_v1_told`.
pub(super) fn told(rows: &Rows, name: &str) -> Result<Shown, Fault> {
    let (first, rest) = rows.split_first().ok_or(Fault::Garbled)?;
    let taken = rest.iter().map(|row| taken(row, 0)).collect::<Result<_, _>>()?;
    Ok(Shown { name: name.to_owned(), waiting: first.try_get(1)?, permits: first.try_get(3)?, taken })
}

/// All names in a list, whose rows are in their order. Of one that nobody holds, who held it last.
pub(super) fn listed(rows: &Rows) -> Result<Vec<Shown>, Fault> {
    let read = |row: &MySqlRow| {
        let name: &[u8] = row.try_get(0)?;
        Ok((String::from_utf8_lossy(name).into_owned(), row.try_get(2)?, row.try_get(1)?, taken(row, 3)?))
    };
    let mut names = by_name(rows.iter().map(read).collect::<Result<Vec<_>, Fault>>()?);
    for shown in &mut names {
        if shown.taken.iter().all(|slot| slot.rest <= 0) {
            shown.taken.sort_by_key(|slot| std::cmp::Reverse(slot.token));
            shown.taken.truncate(1);
        }
    }
    Ok(names)
}

/// Six columns from `at` on.
fn taken(row: &MySqlRow, at: usize) -> Result<Taken, Fault> {
    let holder: Option<&[u8]> = row.try_get(at)?;
    Ok(Taken {
        holder: holder.map(|holder| String::from_utf8_lossy(holder).into_owned()),
        label: row.try_get(at + 1)?,
        token: row.try_get(at + 2)?,
        age: row.try_get(at + 3)?,
        rest: row.try_get(at + 4)?,
        revoked: row.try_get::<i64, _>(at + 5)? != 0,
    })
}

/// A digit for each lease of a batch.
pub(super) fn digits(rows: &Rows) -> Result<Vec<i32>, Fault> {
    let digits: &str = rows.first().ok_or(Fault::Garbled)?.try_get(0)?;
    Ok(digits.bytes().map(|digit| i32::from(digit) - i32::from(b'0')).collect())
}

/// The only number.
pub(super) fn number(rows: &Rows) -> Result<i64, Fault> {
    Ok(rows.first().ok_or(Fault::Garbled)?.try_get(0)?)
}

/// The route; none if there is none.
pub(super) fn route(rows: &Rows) -> Result<Option<Stored>, Fault> {
    let Some(row) = rows.first() else { return Ok(None) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(Stored {
        epoch: row.try_get(0)?,
        incarnation: row.try_get::<Option<&[u8]>, _>(1)?.map(text),
        wait: row.try_get(2)?,
        lease: row.try_get(3)?,
        drift: row.try_get(4)?,
        max_ttl: row.try_get(5)?,
        identity: text(row.try_get(6)?),
        patience: row.try_get(7)?,
        complained: row.try_get(8)?,
    }))
}

/// What became of a claim of a tick, or how the tick stands.
pub(super) fn ticked(rows: &Rows) -> Result<Ticked, Fault> {
    let row = rows.first().ok_or(Fault::Garbled)?;
    Ok(Ticked { outcome: row.try_get(0)?, attempt: row.try_get(1)?, value: row.try_get(2)? })
}

/// A note.
pub(super) fn noted(row: &MySqlRow) -> Result<Told<Noted>, Fault> {
    Ok(notes::noted(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}

/// What the clock shows. That of a server which takes no writes doesn't count: it follows another, or once led.
pub(super) fn time(rows: &Rows) -> Result<Duration, Fault> {
    let row = rows.first().ok_or(Fault::Garbled)?;
    check_takes_writes(row.try_get(1)?)?;
    Ok(sql::span(row.try_get(0)?))
}

/// Who waits. A ticket is of the server's clock: a place is as old as its ticket.
pub(super) fn waiters(rows: &Rows) -> Result<Vec<Waiter>, Fault> {
    let mut waiters = Vec::new();
    for row in rows.iter() {
        check_takes_writes(row.try_get(0)?)?;
        let Some(holder) = row.try_get::<Option<&[u8]>, _>(1)? else { continue };
        let holder = HolderId::parse(&String::from_utf8_lossy(holder));
        waiters.push(Waiter { holder, label: String::new(), waited: Some(sql::span(row.try_get(2)?)) });
    }
    Ok(waiters)
}

fn check_takes_writes(takes_none: i64) -> Result<(), Fault> {
    if takes_none == 0 {
        return Ok(());
    }
    let message = "it takes no writes (read_only); it may be a replica, or was the primary once".to_owned();
    Err(Fault::Unsent(ErrorKind::Unavailable, message))
}
