//! What the server answers, read.

use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Error, Row};

use crate::error::Result as Told;
use crate::lease::{HolderId, Waiter};
use crate::store::Noted;
use crate::stores::sql::arbiter::{Stored, Ticked};
use crate::stores::sql::{Acquired, Shown, Taken, notes, span};

/// A row's columns, in order.
struct Columns {
    row: Row,
    at: usize,
}

impl Columns {
    fn of(row: Row) -> Self {
        Self { row, at: 0 }
    }

    fn next<T: FromSqlOwned>(&mut self) -> Result<T, Error> {
        self.at += 1;
        self.row.try_get(self.at - 1)
    }

    /// The lists that tell of slots, one behind the other; empty where they are none.
    fn taken(&mut self) -> Result<Vec<Taken>, Error> {
        let (holders, labels): (Option<Vec<Option<String>>>, Option<Vec<String>>) = (self.next()?, self.next()?);
        let (tokens, ages): (Option<Vec<i64>>, Option<Vec<i64>>) = (self.next()?, self.next()?);
        let (rests, revoked): (Option<Vec<i64>>, Option<Vec<bool>>) = (self.next()?, self.next()?);
        let numbers = tokens.into_iter().flatten().zip(ages.into_iter().flatten());
        let ends = rests.into_iter().flatten().zip(revoked.into_iter().flatten());
        let slots = holders.into_iter().flatten().zip(labels.into_iter().flatten()).zip(numbers).zip(ends);
        let slot =
            |(((holder, label), (token, age)), (rest, revoked))| Taken { holder, label, token, age, rest, revoked };
        Ok(slots.map(slot).collect())
    }
}

pub(super) fn acquired(row: Row) -> Result<Acquired, Error> {
    let mut columns = Columns::of(row);
    Ok(Acquired {
        outcome: columns.next()?,
        token: columns.next()?,
        attempt: columns.next()?,
        value: columns.next()?,
        ahead: columns.next()?,
        ticket: columns.next()?,
        permits: columns.next()?,
        taken: columns.taken()?,
    })
}

/// What was revoked of a name; none if there was nothing.
pub(super) fn revoked(row: Row, name: &str) -> Result<Option<Shown>, Error> {
    let mut columns = Columns::of(row);
    let (waiting, permits): (Option<i64>, Option<i64>) = (columns.next()?, columns.next()?);
    let taken = columns.taken()?;
    let shown = Shown { name: name.to_owned(), waiting: waiting.unwrap_or(0), permits: permits.unwrap_or(1), taken };
    Ok(Some(shown).filter(|shown| !shown.taken.is_empty()))
}

/// A name's slot, with how many wait for the name and how many permits it has; none where there is nothing to say.
pub(super) fn looked(row: Row) -> Result<Option<(String, i64, i64, Taken)>, Error> {
    let mut columns = Columns::of(row);
    let Some(name) = columns.next()? else { return Ok(None) };
    let (waiting, permits) = (columns.next()?, columns.next()?);
    let slot = Taken {
        holder: columns.next()?,
        label: columns.next()?,
        token: columns.next()?,
        age: columns.next()?,
        rest: columns.next()?,
        revoked: columns.next()?,
    };
    Ok(Some((name, waiting, permits, slot)))
}

/// One who waits; or the row of nobody, whether it is that of a standby. A ticket is of the server's clock: a place is as old
/// as its ticket.
pub(super) fn waiter(row: Row) -> Result<(bool, Option<Waiter>), Error> {
    let mut columns = Columns::of(row);
    let is_standby = columns.next()?;
    let (holder, label, age): (Option<String>, Option<String>, Option<i64>) =
        (columns.next()?, columns.next()?, columns.next()?);
    let waiter = |holder: String| Waiter {
        holder: HolderId::parse(&holder),
        label: label.unwrap_or_default(),
        waited: age.map(span),
    };
    Ok((is_standby, holder.map(waiter)))
}

/// The route; none if there is none.
pub(super) fn route(row: Row) -> Result<Option<Stored>, Error> {
    let mut columns = Columns::of(row);
    let Some(epoch) = columns.next()? else { return Ok(None) };
    Ok(Some(Stored {
        epoch,
        incarnation: columns.next()?,
        wait: columns.next()?,
        lease: columns.next()?,
        drift: columns.next()?,
        max_ttl: columns.next()?,
        identity: columns.next()?,
        patience: columns.next()?,
        complained: columns.next()?,
    }))
}

/// What became of a claim of a tick, or how the tick stands.
pub(super) fn ticked(row: Row) -> Result<Ticked, Error> {
    let mut columns = Columns::of(row);
    Ok(Ticked { outcome: columns.next()?, attempt: columns.next()?, value: columns.next()? })
}

/// A note; none where there is none.
pub(super) fn noted(row: Row) -> Result<Option<Told<Noted>>, Error> {
    let mut columns = Columns::of(row);
    let Some(written) = columns.next()? else { return Ok(None) };
    let (id, said): (String, Vec<u8>) = (columns.next()?, columns.next()?);
    Ok(Some(notes::noted(written, id.as_bytes(), &said)))
}
