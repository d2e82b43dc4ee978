//! What the scripts answer, read.

use std::time::Duration;

use redis::Value;

use crate::error::{Error, ErrorKind};
use crate::lease::{Attempt, Claim, FencingToken, Grant, Holder, HolderId, Holding, Renewal, disagreement};
use crate::name::LockName;
use crate::tick::{NotDue, Tick};

/// An answer's fields, in order.
pub(super) struct Fields {
    fields: Vec<Value>,
    at: usize,
}

impl Fields {
    pub fn of(value: Value) -> Result<Self, Error> {
        match value {
            Value::Array(fields) => Ok(Self { fields, at: 0 }),
            other => Err(unreadable(&other)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.fields.len()
    }

    fn next(&mut self) -> Result<&Value, Error> {
        self.at += 1;
        self.fields.get(self.at - 1).ok_or_else(|| unreadable(&Value::Nil))
    }

    pub fn number(&mut self) -> Result<i64, Error> {
        let value = self.next()?;
        let number = match value {
            Value::Int(number) => Some(*number),
            other => text(other).and_then(|text| text.parse().ok()),
        };
        number.ok_or_else(|| unreadable(value))
    }

    fn text(&mut self) -> Result<String, Error> {
        let value = self.next()?;
        text(value).ok_or_else(|| unreadable(value))
    }

    /// A number, or nothing where an empty text stands.
    fn maybe_number(&mut self) -> Result<Option<i64>, Error> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| unreadable(&Value::Nil)) }
    }

    /// The holders that the rest tells of; `now` is the server's, in milliseconds since 1970.
    fn holders(&mut self, now: i64) -> Result<Vec<Holder>, Error> {
        let mut holders = Vec::new();
        while !self.is_empty() {
            let (who, mark, label) = (self.text()?, self.text()?, self.text()?);
            let (token, granted, left) = (self.number()?, self.number()?, self.number()?);
            if mark == "?" && left < 0 {
                return Err(Error::new(
                    ErrorKind::Misconfigured,
                    format!(
                        "something of another program stands under a lock's name and never ends ({who:?}); delete it, or use another namespace"
                    ),
                ));
            }
            let held = left > 0 && mark != "-";
            holders.push(Holder {
                // Whoever isn't one of ours holds it all the same.
                holder: held.then(|| HolderId::parse(&who).unwrap_or_else(|| HolderId::foreign(&who))),
                label: if mark == "?" { who } else { label },
                token: FencingToken::new(token.cast_unsigned()),
                held_for: millis(now - granted),
                remaining: millis(left),
                revoked: mark == "!" && held,
            });
        }
        Ok(holders)
    }
}

/// A text, in whichever of its forms.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn unreadable(value: &Value) -> Error {
    Error::new(ErrorKind::Internal, format!("a script of ours gave an answer that can't be read: {value:?}"))
        .maybe_applied()
}

/// What `acquire` answered.
pub(super) fn attempt(value: Value, claim: &Claim) -> Result<Attempt, Error> {
    let mut fields = Fields::of(value)?;
    Ok(match fields.number()? {
        1 => {
            let token = FencingToken::new(fields.number()?.cast_unsigned());
            let attempt = u32::try_from(fields.number()?).unwrap_or(u32::MAX);
            Attempt::Granted(Grant { token, attempt, gave_up: fields.maybe_number()?.map(tick) })
        }
        2 => {
            let (now, ahead) = (fields.number()?, fields.number()?.cast_unsigned());
            let ticket = fields.maybe_number()?.map(i64::cast_unsigned);
            let permits = u32::try_from(fields.number()?).unwrap_or(1);
            let holders = fields.holders(now)?;
            Attempt::Held(Holding { waiting: ahead, ticket, ..Holding::of(claim.name.clone(), permits, holders) })
        }
        3 => {
            let (newest, unfinished) = (tick(fields.number()?), fields.number()? == 1);
            Attempt::NotDue(NotDue::Claimed { newest, unfinished })
        }
        4 => Attempt::NotDue(NotDue::InFuture { ahead: millis(fields.number()?) }),
        5 => Attempt::NotDue(NotDue::TooOld { behind: millis(fields.number()?) }),
        _ => return Err(disagreement(claim, u32::try_from(fields.number()?).unwrap_or(1))),
    })
}

/// What `renew` answered, of so many leases.
pub(super) fn renewals(value: Value, leases: usize) -> Result<Vec<Renewal>, Error> {
    let mut fields = Fields::of(value)?;
    let read = |_| {
        Ok(match fields.number()? {
            1 => Renewal::Renewed,
            2 => Renewal::Revoked,
            _ => Renewal::Gone,
        })
    };
    (0..leases).map(read).collect()
}

/// What `inspect` and `revoke` answered.
pub(super) fn holding(value: Value, name: &LockName) -> Result<Option<Holding>, Error> {
    let mut fields = Fields::of(value)?;
    if fields.is_empty() {
        return Ok(None);
    }
    let waiting = fields.number()?.cast_unsigned();
    let permits = u32::try_from(fields.number()?).unwrap_or(1);
    let now = fields.number()?;
    let holders = fields.holders(now)?;
    Ok(Some(Holding { waiting, ..Holding::of(name.clone(), permits, holders) }))
}

fn tick(millis: i64) -> Tick {
    Tick::from_unix_millis(millis).unwrap_or(Tick::ONLY)
}
