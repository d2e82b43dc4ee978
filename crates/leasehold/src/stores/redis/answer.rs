//! What the scripts answer, read.

use std::time::Duration;

use redis::Value;

use super::fault::Fault;
use crate::error::{Error, ErrorKind};
use crate::lease::{
    Attempt, Claim, FencingToken, Grant, Holder, HolderId, Holding, Renewal, Waiter, disagreement, foreign_label,
};
use crate::name::LockName;
use crate::store::Epoch;
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

    /// A token; under a route it is told as an epoch and a counter.
    pub fn token(&mut self) -> Result<FencingToken, Error> {
        let value = self.next()?;
        let token = text(value).and_then(|text| match text.split_once(' ') {
            Some((epoch, counter)) => Epoch::new(epoch.parse().ok()?).token(counter.parse().ok()?),
            None => text.parse().ok().map(FencingToken::new),
        });
        token.ok_or_else(|| unreadable(value))
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

    /// What another program may have written.
    fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(bytes.clone()),
            other => text(other).map(String::into_bytes).ok_or_else(|| unreadable(other)),
        }
    }

    pub fn text(&mut self) -> Result<String, Error> {
        let value = self.next()?;
        text(value).ok_or_else(|| unreadable(value))
    }

    /// A number, or nothing where an empty text stands.
    pub fn maybe_number(&mut self) -> Result<Option<i64>, Error> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| unreadable(&Value::Nil)) }
    }

    /// The holders that the rest tells of; `now` is the server's, in milliseconds since 1970. Strangers are of this library.
    fn holders(&mut self, now: i64, library: Option<&'static str>) -> Result<Vec<Holder>, Error> {
        let mut holders = Vec::new();
        while !self.is_empty() {
            let (who, mark, label) = (self.bytes()?, self.text()?, self.text()?);
            let (token, granted, left) = (self.token()?, self.number()?, self.number()?);
            let (held, foreign) = (left != 0 && mark != "-", mark == "?");
            holders.push(Holder {
                // Whoever isn't one of ours holds it all the same.
                holder: held.then(|| ours(&who).unwrap_or_else(|| HolderId::foreign(&who))),
                label: if foreign { foreign_label(library, &shown(&who)) } else { label },
                library: library.filter(|_| foreign),
                token,
                held_for: if foreign { Duration::ZERO } else { millis(now - granted) },
                remaining: if left < 0 { Holding::NO_END } else { millis(left) },
                revoked: mark == "!" && held,
            });
        }
        Ok(holders)
    }
}

fn ours(value: &[u8]) -> Option<HolderId> {
    std::str::from_utf8(value).ok().and_then(HolderId::parse)
}

/// A holder that isn't one of ours, by what it wrote: a text, or bytes of whatever kind.
fn shown(value: &[u8]) -> String {
    const MOST: usize = 100;
    let text = match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => value.iter().take(MOST).fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}")),
    };
    let cut = if text.chars().count() > MOST { "…" } else { "" };
    format!("{}{cut}", text.chars().take(MOST).collect::<String>())
}

/// Our grants have tokens, those of other libraries have none.
fn is_foreign(holder: Option<HolderId>, token: FencingToken) -> bool {
    holder.is_some() && token == FencingToken::default()
}

/// Under a key of our own form a stranger without an end is no holder but data, and would be waited for in vain.
pub(super) fn without_strangers(attempt: Attempt) -> Result<Attempt, Error> {
    match &attempt {
        Attempt::Held(held) if is_foreign(held.holder, held.token) && held.remaining == Holding::NO_END => {
            Err(Error::new(
                ErrorKind::Misconfigured,
                format!(
                    "something of another program stands under a lock's name and never ends ({}); delete it, or use another namespace",
                    held.label
                ),
            ))
        }
        _ => Ok(attempt),
    }
}

/// A holder of another library does not look whether it is to stop, and deletes nothing but its own value: marked as
/// revoked its key would stay until its end, and for ever if it has none.
pub(super) fn all_could_be_told(hit: Option<Holding>) -> Result<Option<Holding>, Error> {
    match hit {
        Some(held) if is_foreign(held.holder, held.token) => Err(Error::invalid(format!(
            "{} is held by a worker of another library ({}), which can't be asked to stop: stop it where it runs, or free \
             the lock at once (--now), and until it is done two may run",
            held.name, held.label
        ))),
        hit => Ok(hit),
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

/// The `mode` of a greeting (`HELLO`).
pub(super) fn mode(greeting: &Value) -> Option<String> {
    let Value::Map(fields) = greeting else { return None };
    fields.iter().find(|(name, _)| text(name).as_deref() == Some("mode")).and_then(|(_, mode)| text(mode))
}

pub(super) fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

pub(super) fn unreadable(value: &Value) -> Error {
    Error::new(ErrorKind::Internal, format!("a script of ours gave an answer that can't be read: {value:?}"))
        .maybe_applied()
}

/// What `acquire` answered. Strangers are of this library, here and below.
pub(super) fn attempt(value: Value, claim: &Claim, library: Option<&'static str>) -> Result<Attempt, Error> {
    if let Value::Int(token) = value {
        let token = FencingToken::new(token.cast_unsigned());
        return Ok(Attempt::Granted(Grant::of(token)));
    }
    let mut fields = Fields::of(value)?;
    Ok(match fields.number()? {
        1 => {
            let token = FencingToken::new(fields.number()?.cast_unsigned());
            let attempt = u32::try_from(fields.number()?).unwrap_or(u32::MAX);
            Attempt::Granted(Grant { attempt, gave_up: fields.maybe_number()?.map(tick), ..Grant::of(token) })
        }
        2 => {
            let (now, ahead) = (fields.number()?, fields.number()?.cast_unsigned());
            let ticket = fields.maybe_number()?.map(i64::cast_unsigned);
            let permits = u32::try_from(fields.number()?).unwrap_or(1);
            let holders = fields.holders(now, library)?;
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
pub(super) fn renewals(value: &Value, leases: usize) -> Result<Vec<Renewal>, Error> {
    let read = |digit: &u8| match digit {
        b'1' => Renewal::Renewed,
        b'2' => Renewal::Revoked,
        _ => Renewal::Gone,
    };
    match value {
        Value::BulkString(digits) if digits.len() == leases => Ok(digits.iter().map(read).collect()),
        _ => Err(unreadable(value)),
    }
}

/// What `inspect` and `revoke` answered.
pub(super) fn holding(value: Value, name: &LockName, library: Option<&'static str>) -> Result<Option<Holding>, Error> {
    let mut fields = Fields::of(value)?;
    if fields.is_empty() {
        return Ok(None);
    }
    let waiting = fields.number()?.cast_unsigned();
    let permits = u32::try_from(fields.number()?).unwrap_or(1);
    let now = fields.number()?;
    let holders = fields.holders(now, library)?;
    Ok(Some(Holding { waiting, ..Holding::of(name.clone(), permits, holders) }))
}

/// What `waiters` answered. A ticket is of the server's clock: a place is as old as its ticket.
pub(super) fn waiters(value: Value) -> Result<Vec<Waiter>, Error> {
    let mut fields = Fields::of(value)?;
    let (now, mut waiters) = (fields.number()?, Vec::new());
    while !fields.is_empty() {
        let (holder, ticket, label) = (fields.text()?, fields.number()?, fields.text()?);
        let waited = Duration::from_micros(u64::try_from(now - ticket).unwrap_or(0));
        waiters.push(Waiter { holder: HolderId::parse(&holder), label, waited: Some(waited) });
    }
    Ok(waiters)
}

/// A name whose keys hold something of another program, if it is that: nobody can hold it before that is gone.
pub(super) fn spoilt(fault: &Fault, name: &LockName) -> Option<Holding> {
    let Fault::Sent(error) = fault else { return None };
    let what = error.detail().filter(|_| error.code() == Some("WRONGTYPE"))?;
    let holder = Holder {
        holder: Some(HolderId::foreign(what.as_bytes())),
        label: foreign_label(None, &shown(what.as_bytes())),
        remaining: Holding::NO_END,
        ..Holder::default()
    };
    Some(Holding::of(name.clone(), 1, vec![holder]))
}

pub(super) fn tick(millis: i64) -> Tick {
    Tick::from_unix_millis(millis).unwrap_or(Tick::ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer about a name that has this value, which isn't one of ours.
    fn held_by(value: &[u8], left: i64, library: Option<&'static str>) -> Holding {
        let text = |text: &str| Value::BulkString(text.into());
        let now = text("1790000000000");
        let told = vec![Value::Int(0), text("1"), now, Value::BulkString(value.into())];
        let rest = [text("?"), text(""), text("0"), text("0"), Value::Int(left)];
        let answer = Value::Array(told.into_iter().chain(rest).collect());
        holding(answer, &LockName::new("job").unwrap(), library).unwrap().unwrap()
    }

    /// In the forms that the libraries write.
    #[test]
    fn values_of_other_libraries_are_shown_as_what_they_are() {
        let long = "x".repeat(1000);
        for (value, shown) in [
            ("6f1ed002ab5595859014ebf0951522d9".as_bytes(), "6f1ed002ab5595859014ebf0951522d9"), // redis-py, node-redlock
            (b"3q2+7wAAAAAAAAAAAAAAAA==", "3q2+7wAAAAAAAAAAAAAAAA=="),                           // redsync
            (b"1n0kDmc9UeGcE9UGSL0h+s6y", "1n0kDmc9UeGcE9UGSL0h+s6y"),                           // python-redis-lock
            (b"9d4f5b7e-3c5a-4a38-9a39-0f1d2c3b4a59", "9d4f5b7e-3c5a-4a38-9a39-0f1d2c3b4a59"), // redlock-rb, pottery, semaphore
            (
                b"\x21\xff\x00\x1b[2J\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c", // rslock
                "0x21ff001b5b324a808182838485868788898a8b8c",
            ),
            (b"", ""),
            (b"ADDED:\n", "0x41444445443a0a"),
            (long.as_bytes(), &format!("{}…", &long[..100])),
        ] {
            let held = held_by(value, 5000, None);
            assert_eq!((held.label, held.library), (format!("foreign: {shown}"), None));
            let held = held_by(value, 5000, Some("redis-py"));
            assert_eq!((held.label.clone(), held.library), (format!("foreign: redis-py {shown}"), Some("redis-py")));
            assert!(held.holder.is_some() && held.held_for.is_zero() && !held.revoked, "{held:?}");
            assert_eq!(held.remaining, Duration::from_secs(5));
        }
    }

    #[test]
    fn a_holder_without_an_end_is_one() {
        let held = held_by(b"for ever", -1, None);
        assert!(held.holder.is_some() && held.remaining == Holding::NO_END && held.free_in() == Holding::NO_END);
        assert!(without_strangers(Attempt::Held(held.clone())).is_err());
        let error = all_could_be_told(Some(held)).unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("--now"), "{error}");
    }

    #[test]
    fn different_bytes_are_different_holders() {
        assert_ne!(held_by(b"\xff\x01", 1, None).holder, held_by(b"\xfe\x01", 1, None).holder);
    }
}
